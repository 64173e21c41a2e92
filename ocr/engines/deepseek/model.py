"""Puts the loaded tensors together into a vision encoder and a decoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocr.engines.deepseek import upstream
from ocr.engines.deepseek.checkpoint import Checkpoint, TensorEntry, open_checkpoint
from ocr.engines.deepseek.decoder import (
    Attention,
    Decoder,
    Layer,
    TextSizes,
    flash_prompt,
    sdpa_prompt,
    sdpa_step,
)
from ocr.engines.deepseek.layers import (
    DenseExperts,
    DenseLinear,
    FeedForward,
    Linear,
    Mlp,
    Moe,
    Norm,
    Router,
)
from ocr.engines.deepseek.upstream import Tokenizer, VisionTower
from ocr.engines.deepseek.vision import VisionEncoder
from ocr.engines.deepseek.weights import (
    Target,
    check,
    decoder_targets,
    has_split_experts,
    native_key,
    stream,
    vision_targets,
)

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Placement:
    """Where and how the weights are held (torch-free facts of the plan).

    `dtype` is a torch name. `grouped`: grouped_mm works. `kernels`: the
    one-token Triton kernels are used. `graphs`: CUDA graphs are captured.
    `limit_share`: the share of the device's memory that may be taken.
    """

    device: str = "cpu"
    dtype: str = "float32"
    grouped: bool = False
    kernels: bool = False
    graphs: bool = False
    flash: bool = False
    tiles_at_once: int = 1
    limit_share: float | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """A checkpoint that was found to fit the model, nothing loaded yet."""

    folder: Path
    config: Any
    sizes: TextSizes
    module: Any
    targets: list[Target]
    entries: dict[str, TensorEntry]
    bytes: int


@dataclass(frozen=True, slots=True)
class Model:
    """Everything that reads a page, on the device."""

    sizes: TextSizes
    vision: VisionEncoder
    decoder: Decoder
    tokenizer: Tokenizer


def check_model(folder: Path) -> Checked:
    """The checkpoint compared with the model it claims to be, from headers alone.

    Raises:
        EngineUnavailable: It cannot be loaded; the message says why and what to do.
    """
    config = upstream.read_config(folder)
    sizes = upstream.text_sizes(config)
    checkpoint: Checkpoint = open_checkpoint(folder)
    module = upstream.vision_module(config)
    split = has_split_experts({native_key(key): None for key in checkpoint.tensors})
    width = config.vision_config.encoder_config.hidden_size
    targets = [
        *decoder_targets(sizes, split_experts=split),
        *vision_targets(sizes, module, width),
    ]
    entries = check(checkpoint, targets)
    return Checked(folder, config, sizes, module, targets, entries, checkpoint.bytes)


def load_model(
    checked: Checked, placement: Placement, progress: Callable[[], None] | None = None
) -> Model:
    """The model on its device, tensors streamed one at a time."""
    import torch

    tokenizer = Tokenizer(checked.folder, checked.sizes)
    device = torch.device(placement.device)
    if device.type == "cuda":
        device = torch.device("cuda", device.index or 0)
        # Kernels and graphs are launched on the current device.
        torch.cuda.set_device(device)
        if placement.limit_share is not None:
            torch.cuda.set_per_process_memory_fraction(placement.limit_share, device)
    tensors = stream(
        checked.entries,
        checked.targets,
        dtype=getattr(torch, placement.dtype),
        device=device,
        progress=progress,
    )
    pool = torch.cuda.graph_pool_handle() if placement.graphs else None
    vision = build_vision(checked, tensors, placement, pool)
    decoder = build_decoder(checked.sizes, tensors, placement)
    return Model(checked.sizes, vision, decoder, tokenizer)


def build_vision(
    checked: Checked,
    tensors: dict[str, torch.Tensor],
    placement: Placement,
    pool: tuple[int, int] | None = None,
) -> VisionEncoder:
    """The vision encoder over loaded tensors, nothing of it left on meta."""
    prefix = "vision."
    state = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
    module = checked.module
    module.load_state_dict(state, strict=True, assign=True)
    module.requires_grad_(False)
    device = tensors["separator"].device
    upstream.finish_vision(module, checked.config, device)
    left = [name for name, tensor in module.named_buffers() if tensor.is_meta]
    if left or any(tensor.is_meta for tensor in module.parameters()):
        raise RuntimeError(f"vision tensors without values: {left}")
    add_bias = None
    if placement.kernels:
        from ocr.engines.deepseek.fused import position_bias

        add_bias = position_bias
    return VisionEncoder(
        VisionTower(module, add_bias=add_bias),
        (tensors["projector.weight"], tensors["projector.bias"]),
        tensors["separator"],
        tiles_at_once=placement.tiles_at_once,
        graphs=placement.graphs,
        pool=pool,
    )


def build_decoder(
    sizes: TextSizes, tensors: dict[str, torch.Tensor], placement: Placement
) -> Decoder:
    """The 16- or 32-bit decoder over loaded tensors, named as `weights` names them."""
    step = sdpa_step
    if placement.kernels:
        from ocr.engines.deepseek.fused import fused_step_attention

        step = fused_step_attention
    return Decoder(
        sizes,
        embedding=tensors["embedding"],
        layers=[_layer(sizes, tensors, index, placement) for index in range(sizes.layers)],
        norm=Norm(tensors["norm"], sizes.norm_eps),
        head=_linear(tensors["head"], placement),
        prompt_attention=flash_prompt if placement.flash else sdpa_prompt,
        step_attention=step,
    )


def _linear(weight: torch.Tensor, placement: Placement) -> Linear:
    if placement.kernels:
        from ocr.engines.deepseek.fused import FusedLinear

        return FusedLinear(weight)
    return DenseLinear(weight)


def _layer(
    sizes: TextSizes, tensors: dict[str, torch.Tensor], index: int, placement: Placement
) -> Layer:
    def get(name: str) -> torch.Tensor:
        return tensors[f"layers.{index}.{name}"]

    def linear(name: str) -> Linear:
        return _linear(get(name), placement)

    feed_forward: FeedForward
    if index < sizes.dense_layers:
        feed_forward = _mlp(get("gate_up"), get("down"), placement)
    else:
        feed_forward = _moe(sizes, get, placement)
    return Layer(
        Norm(get("input_norm"), sizes.norm_eps),
        Attention(linear("qkv"), linear("out")),
        Norm(get("post_norm"), sizes.norm_eps),
        feed_forward,
    )


def _mlp(gate_up: torch.Tensor, down: torch.Tensor, placement: Placement) -> FeedForward:
    if placement.kernels:
        from ocr.engines.deepseek.fused import FusedLinear, FusedMlp

        return FusedMlp(FusedLinear(gate_up), FusedLinear(down))
    return Mlp(DenseLinear(gate_up), DenseLinear(down))


def _moe(sizes: TextSizes, get: Callable[[str], torch.Tensor], placement: Placement) -> FeedForward:
    router = Router(get("router"), top_k=sizes.top_k, scaling=sizes.routed_scaling)
    experts = DenseExperts(get("experts.gate_up"), get("experts.down"), grouped=placement.grouped)
    shared_up, shared_down = DenseLinear(get("shared.gate_up")), DenseLinear(get("shared.down"))
    moe = Moe(router, experts, Mlp(shared_up, shared_down))
    if placement.kernels:
        from ocr.engines.deepseek.fused import FusedMoe

        return FusedMoe(moe, experts, shared_up, shared_down)
    return moe
