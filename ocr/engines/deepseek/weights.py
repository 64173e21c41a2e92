"""From a checkpoint's files to tensors on the device, checked before anything is taken.

Both published layouts load: the original key names with one matrix per expert,
and the native ones with fused experts. Everything is verified from the files'
headers first; then tensors are streamed one by one, so the peak is the weights
themselves plus one tensor.
"""

# Objects of torch and transformers, which have no types here.
# ruff: noqa: ANN401

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocr.engines.deepseek.checkpoint import Checkpoint, TensorEntry
from ocr.engines.deepseek.decoder import TextSizes
from ocr.errors import EngineUnavailable

if TYPE_CHECKING:
    import torch

_TEXT = "model.language_model."
_VISION = "model.vision_tower."

# The original repository's names, and what the native layout calls them.
# Source: transformers 5.24, conversion_mapping.py, "deepseek_ocr2".
_RENAMES = tuple(
    (re.compile(pattern), target)
    for pattern, target in (
        (r"sam_model\.blocks\.(\d+)\.norm1\.", r"vision_tower.sam_encoder.layers.\1.layer_norm1."),
        (r"sam_model\.blocks\.(\d+)\.norm2\.", r"vision_tower.sam_encoder.layers.\1.layer_norm2."),
        (r"sam_model\.blocks\.(\d+)\.attn\.", r"vision_tower.sam_encoder.layers.\1.attn."),
        (r"sam_model\.blocks\.(\d+)\.mlp\.", r"vision_tower.sam_encoder.layers.\1.mlp."),
        (r"sam_model\.patch_embed\.proj\.", "vision_tower.sam_encoder.patch_embed.projection."),
        (r"sam_model\.pos_embed", "vision_tower.sam_encoder.pos_embed"),
        (r"sam_model\.neck\.0\.", "vision_tower.sam_encoder.neck.conv1."),
        (r"sam_model\.neck\.1\.", "vision_tower.sam_encoder.neck.layer_norm1."),
        (r"sam_model\.neck\.2\.", "vision_tower.sam_encoder.neck.conv2."),
        (r"sam_model\.neck\.3\.", "vision_tower.sam_encoder.neck.layer_norm2."),
        (r"sam_model\.net_2\.", "vision_tower.sam_encoder.proj.conv1."),
        (r"sam_model\.net_3\.", "vision_tower.sam_encoder.proj.conv2."),
        (r"qwen2_model\.model\.model\.layers\.", "vision_tower.vision_encoder.layers."),
        (r"qwen2_model\.model\.model\.norm\.", "vision_tower.vision_encoder.norm."),
        (r"qwen2_model\.query_768\.", "vision_tower.query_768_resolution."),
        (r"qwen2_model\.query_1024\.", "vision_tower.query_1024_resolution."),
        (r"projector\.layers\.", "multi_modal_projector."),
        (r"view_seperator", "view_separator"),
        (r"^model\.embed_tokens\.", "model.language_model.embed_tokens."),
        (r"^model\.layers\.", "model.language_model.layers."),
        (r"^model\.norm\.", "model.language_model.norm."),
    )
)


def native_key(key: str) -> str:
    """The native name of a checkpoint's key, whichever layout it comes from."""
    for pattern, target in _RENAMES:
        key, changed = pattern.subn(target, key)
        if changed:
            return key
    return key


@dataclass(frozen=True, slots=True)
class Part:
    """A source tensor and where in its target it goes.

    `place` is the target's leading index (an expert) or None, and the first row
    behind that index.
    """

    key: str
    shape: tuple[int, ...]
    expert: int | None = None
    row: int = 0


@dataclass(frozen=True, slots=True)
class Target:
    """A tensor the engine holds, and the parts it is put together from."""

    name: str
    shape: tuple[int, ...]
    parts: tuple[Part, ...]
    fp32: bool = False
    """Kept in fp32 whatever the plan's type (the router)."""


def decoder_targets(sizes: TextSizes, *, split_experts: bool) -> Iterator[Target]:
    """What the decoder needs, named as `DecoderWeights` asks for it."""
    hidden, vocabulary = sizes.hidden, sizes.vocabulary
    yield _same("embedding", f"{_TEXT}embed_tokens.weight", (vocabulary, hidden))
    for index in range(sizes.layers):
        yield from _layer_targets(sizes, index, split_experts=split_experts)
    yield _same("norm", f"{_TEXT}norm.weight", (hidden,))
    yield _same("head", "lm_head.weight", (vocabulary, hidden))


def _same(name: str, key: str, shape: tuple[int, ...], *, fp32: bool = False) -> Target:
    return Target(name, shape, (Part(key, shape),), fp32)


def _stacked(name: str, keys: list[str], rows: int, columns: int) -> Target:
    parts = tuple(Part(key, (rows, columns), row=rows * place) for place, key in enumerate(keys))
    return Target(name, (rows * len(keys), columns), parts)


def _layer_targets(sizes: TextSizes, index: int, *, split_experts: bool) -> Iterator[Target]:
    source, name, hidden = f"{_TEXT}layers.{index}.", f"layers.{index}.", sizes.hidden
    yield _same(name + "input_norm", source + "input_layernorm.weight", (hidden,))
    yield _same(name + "post_norm", source + "post_attention_layernorm.weight", (hidden,))
    projections = [f"{source}self_attn.{which}_proj.weight" for which in "qkv"]
    yield _stacked(name + "qkv", projections, hidden, hidden)
    yield _same(name + "out", source + "self_attn.o_proj.weight", (hidden, hidden))
    if index < sizes.dense_layers:
        yield from _mlp_targets(name, source + "mlp.", hidden, sizes.dense_inner)
        return
    yield _same(name + "router", source + "mlp.gate.weight", (sizes.experts, hidden), fp32=True)
    yield from _mlp_targets(
        name + "shared.", source + "mlp.shared_experts.", hidden, sizes.shared_inner
    )
    experts = source + "mlp.experts."
    shape_up = (sizes.experts, 2 * sizes.expert_inner, hidden)
    shape_down = (sizes.experts, hidden, sizes.expert_inner)
    if not split_experts:
        yield _same(name + "experts.gate_up", experts + "gate_up_proj", shape_up)
        yield _same(name + "experts.down", experts + "down_proj", shape_down)
        return
    inner = sizes.expert_inner
    ups = tuple(
        Part(f"{experts}{expert}.{which}_proj.weight", (inner, hidden), expert, row)
        for expert in range(sizes.experts)
        for which, row in (("gate", 0), ("up", inner))
    )
    downs = tuple(
        Part(f"{experts}{expert}.down_proj.weight", (hidden, inner), expert)
        for expert in range(sizes.experts)
    )
    yield Target(name + "experts.gate_up", shape_up, ups)
    yield Target(name + "experts.down", shape_down, downs)


def _mlp_targets(name: str, source: str, hidden: int, inner: int) -> Iterator[Target]:
    halves = [f"{source}{which}_proj.weight" for which in ("gate", "up")]
    yield _stacked(name + "gate_up", halves, inner, hidden)
    yield _same(name + "down", source + "down_proj.weight", (hidden, inner))


def vision_targets(sizes: TextSizes, module: Any, encoder_width: int) -> Iterator[Target]:
    """What the vision tower, the projector and the separator need."""
    for key, tensor in module.state_dict().items():
        yield _same("vision." + key, _VISION + key, tuple(tensor.shape))
    shape = (sizes.hidden, encoder_width)
    yield _same("projector.weight", "model.multi_modal_projector.weight", shape)
    yield _same("projector.bias", "model.multi_modal_projector.bias", (sizes.hidden,))
    yield _same("separator", "model.view_separator", (sizes.hidden,))


def has_split_experts(keys: Mapping[str, object]) -> bool:
    """Whether the checkpoint holds one matrix per expert (the original layout)."""
    return any(re.search(r"\.mlp\.experts\.\d+\.", key) for key in keys)


def check(checkpoint: Checkpoint, targets: list[Target]) -> dict[str, TensorEntry]:
    """The checkpoint's tensors by native name, once they match the model exactly.

    Raises:
        EngineUnavailable: A tensor is missing, left over, of another shape or type.
    """
    found: dict[str, TensorEntry] = {}
    for original, tensor in checkpoint.tensors.items():
        found[native_key(original)] = tensor
    wanted = {part.key: part for target in targets for part in target.parts}
    where = checkpoint.folder
    for key, part in wanted.items():
        entry = found.get(key)
        if entry is None:
            missing = sum(name not in found for name in wanted)
            raise EngineUnavailable(
                f"The model in {where} lacks {missing} of {len(wanted)} tensors, "
                f"the first is {key}: fetch it again with `scanmd model fetch`."
            )
        if entry.shape != part.shape:
            raise EngineUnavailable(
                f"The model in {where} has {key} of shape {entry.shape} where {part.shape} "
                "is expected: its config.json and its weights do not belong together."
            )
        if entry.kind not in ("BF16", "F16", "F32"):
            raise EngineUnavailable(
                f"The model in {where} holds {key} as {entry.kind}, which is no 16- or 32-bit "
                "floating type: it is quantized in a form this engine does not know."
            )
    extra = sorted(set(found) - set(wanted))
    if extra:
        raise EngineUnavailable(
            f"The model in {where} holds {len(extra)} tensors that DeepSeek-OCR-2 does not have, "
            f"the first is {extra[0]}: it is another model."
        )
    return found


def stream(
    entries: Mapping[str, TensorEntry],
    targets: list[Target],
    *,
    dtype: torch.dtype,
    device: torch.device,
    progress: Callable[[], None] | None = None,
) -> dict[str, torch.Tensor]:
    """The targets' tensors on the device, read one source tensor at a time.

    Args:
        entries: By native name, as `check` returned them.
        targets: What to put together.
        dtype: For all but the targets marked fp32.
        device: Where to.
        progress: Called after every tensor.
    """
    import torch

    loaded: dict[str, torch.Tensor] = {}
    with _Files() as files:
        for target in targets:
            kind = torch.float32 if target.fp32 else dtype
            tensor = torch.empty(target.shape, dtype=kind, device=device)
            for part in target.parts:
                place = tensor if part.expert is None else tensor[part.expert]
                rows = place.narrow(0, part.row, part.shape[0])
                # Converted on the host: a second copy on the device would raise the peak.
                rows.copy_(files.tensor(entries[part.key]).to(kind))
            loaded[target.name] = tensor
            if progress is not None:
                progress()
    return loaded


class _Files:
    """Open safetensors files, each mapped once."""

    def __init__(self) -> None:
        self._open: dict[Path, Any] = {}

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *exc: object) -> None:
        for handle in self._open.values():
            handle.__exit__(None, None, None)

    def tensor(self, entry: TensorEntry) -> Any:
        from safetensors import safe_open

        if entry.file not in self._open:
            opening: Any = safe_open(entry.file, framework="pt")
            self._open[entry.file] = opening.__enter__()
        return self._open[entry.file].get_tensor(entry.key)
