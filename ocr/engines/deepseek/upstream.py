"""All that touches transformers: its configuration, vision modules and tokenizer.

Only this module knows transformers' names, so a new release can break nothing
else. Pinned exactly, because the vision forward below calls the layers with
their private signatures.

Source: transformers 5.24, models/deepseek_ocr2/.
"""

# Objects of torch and transformers, which have no types here.
# ruff: noqa: ANN401

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocr.engines.deepseek.decoder import TextSizes
from ocr.errors import EngineUnavailable

if TYPE_CHECKING:
    import torch

SUPPORTED = "5.24.0"
"""The one transformers release whose private signatures are called here."""

TILE_PX = 768
VIEW_PX = 1024
_TOKEN_PX = 64  # patch of 16 px, two convolutions of stride 2

_PUBLISHED_VISION = {
    "sam_config": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12},
    "encoder_config": {
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "max_position_embeddings": 131072,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    },
}
_TEXT_KEYS = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "max_position_embeddings",
    "n_routed_experts",
    "n_shared_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "n_group",
    "topk_group",
    "topk_method",
    "bos_token_id",
    "eos_token_id",
)


def require() -> None:
    """Fail with a sentence unless torch and the pinned transformers are there.

    Also tells the hub's library to stay offline, before it is imported.

    Raises:
        EngineUnavailable: A package is missing or has another version.
    """
    # Whatever a library would look up on the hub, documents stay on this machine.
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        import torch  # noqa: F401  # only asked whether it loads
        import transformers
    except ImportError as error:
        raise EngineUnavailable(
            f"The deepseek engine needs the package {error.name}: "
            "install scanmd with its gpu extra (pip install 'scanmd[gpu]')."
        ) from error
    if transformers.__version__ != SUPPORTED:
        raise EngineUnavailable(
            f"The deepseek engine needs transformers {SUPPORTED}, but "
            f"{transformers.__version__} is installed: install scanmd with its gpu extra."
        )


def read_config(folder: Path) -> Any:
    """The checkpoint's configuration as transformers' `DeepseekOcr2Config`.

    Both published forms are understood: the native one, and the original one,
    which names only the decoder's sizes (the vision sizes are then the
    published ones).

    Raises:
        EngineUnavailable: No readable configuration, or of another model.
    """
    require()
    from transformers import DeepseekOcr2Config

    data = _config_json(folder)
    kind = data.get("model_type")
    try:
        if kind == "deepseek_ocr2":
            return DeepseekOcr2Config.from_dict(data)
        if "language_config" in data:
            return DeepseekOcr2Config.from_dict(_native(data))
    except Exception as error:  # strict dataclasses raise library-private types
        raise EngineUnavailable(
            f"{folder / 'config.json'} is not a usable configuration: {error}"
        ) from error
    raise EngineUnavailable(
        f"{folder} holds a model of type {kind!r}, not DeepSeek-OCR-2: "
        "fetch the right one with `scanmd model fetch`."
    )


def _config_json(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        data = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise EngineUnavailable(
            f"{folder} holds no model (no config.json): fetch it with `scanmd model fetch`."
        ) from None
    except (OSError, ValueError) as error:
        raise EngineUnavailable(f"{path} cannot be read: {error}.") from error
    if not isinstance(data, dict):
        raise EngineUnavailable(f"{path} is not a model configuration.")
    return data


def _native(original: dict[str, Any]) -> dict[str, Any]:
    language = original["language_config"]
    text = {key: language[key] for key in _TEXT_KEYS if language.get(key) is not None}
    dense = int(language.get("first_k_dense_replace", 1))
    layers = int(text["num_hidden_layers"])
    text["mlp_layer_types"] = ["dense"] * dense + ["sparse"] * (layers - dense)
    text["rope_parameters"] = {
        "rope_type": "default",
        "rope_theta": float(language.get("rope_theta", 10000.0)),
    }
    return {
        "model_type": "deepseek_ocr2",
        "text_config": text,
        "vision_config": _PUBLISHED_VISION,
        "tie_word_embeddings": False,
    }


def text_sizes(config: Any) -> TextSizes:
    """The decoder's sizes from a `DeepseekOcr2Config`.

    Raises:
        EngineUnavailable: The configuration asks for what this decoder lacks.
    """
    text = config.text_config
    kinds = list(text.mlp_layer_types)
    dense = kinds.count("dense")
    rope = text.rope_parameters or {}
    unusual = {
        "grouped expert choice": text.topk_method != "greedy",
        "grouped key-value heads": text.num_key_value_heads != text.num_attention_heads,
        "attention bias": bool(text.attention_bias),
        "feed-forward bias": bool(text.mlp_bias),
        "scaled rotary positions": rope.get("rope_type", "default") != "default",
        "dense layers after expert layers": kinds
        != ["dense"] * dense + ["sparse"] * (len(kinds) - dense),
        "tied embeddings": bool(config.tie_word_embeddings),
        f"activation {text.hidden_act}": text.hidden_act != "silu",
    }
    for what, present in unusual.items():
        if present:
            raise EngineUnavailable(
                f"The model's config.json asks for {what}, which DeepSeek-OCR-2 does not have: "
                "this is another model or a damaged file."
            )
    eos = text.eos_token_id
    return TextSizes(
        vocabulary=text.vocab_size,
        hidden=text.hidden_size,
        layers=text.num_hidden_layers,
        heads=text.num_attention_heads,
        dense_inner=text.intermediate_size,
        dense_layers=dense,
        experts=text.n_routed_experts,
        top_k=text.num_experts_per_tok,
        expert_inner=text.moe_intermediate_size,
        shared_inner=text.moe_intermediate_size * text.n_shared_experts,
        max_positions=text.max_position_embeddings,
        rope_theta=float(rope.get("rope_theta", 10000.0)),
        norm_eps=text.rms_norm_eps,
        routed_scaling=text.routed_scaling_factor,
        eos_token=eos[0] if isinstance(eos, list) else eos,
        image_token=config.image_token_id,
    )


def tile_grid(width_px: int, height_px: int, most: int = 6) -> tuple[int, int] | None:
    """Columns and rows of tiles for a page, None where the view alone will do.

    The grid whose shape is closest to the page's; of two equally close ones the
    larger, unless it would blow the page up more than twice.

    Source: transformers 5.24, get_optimal_tiled_canvas.
    """
    if max(width_px, height_px) <= TILE_PX:
        return None
    shape = width_px / height_px
    least = min(2, most)
    grids = sorted(
        (
            (columns, rows)
            for columns in range(1, most + 1)
            for rows in range(1, most + 1)
            if least <= columns * rows <= most
        ),
        key=lambda grid: grid[0] * grid[1],
    )
    best, best_difference = (1, 1), float("inf")
    for columns, rows in grids:
        difference = abs(shape - columns / rows)
        fills = width_px * height_px > 0.5 * TILE_PX**2 * columns * rows
        if difference < best_difference or (difference == best_difference and fills):
            best, best_difference = (columns, rows), difference
    return best


def image_tokens(tiles: int) -> int:
    """Tokens a page takes: its tiles, the whole view, the separator."""
    return tiles * (TILE_PX // _TOKEN_PX) ** 2 + (VIEW_PX // _TOKEN_PX) ** 2 + 1


class Tokenizer:
    """Words to ids and back, from the checkpoint's `tokenizer.json`."""

    def __init__(self, folder: Path, sizes: TextSizes) -> None:
        from transformers import AutoTokenizer

        try:
            self._inner = AutoTokenizer.from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=False
            )
        except Exception as error:  # any library error here means an unusable folder
            raise EngineUnavailable(
                f"The tokenizer in {folder} cannot be loaded ({error}): "
                "check the folder with `scanmd model verify`."
            ) from error
        self._bos = self._inner.bos_token_id
        self._image = sizes.image_token
        if self._bos is None:
            raise EngineUnavailable(f"The tokenizer in {folder} names no first token (BOS).")

    def prompt(self, words: str, image_tokens: int) -> list[int]:
        """Ids of a prompt: BOS, the page's image tokens, then the words.

        BOS is put first here rather than left to the tokenizer's
        post-processor, which the original checkpoint's files do not have.
        """
        tail = self._inner.encode(words, add_special_tokens=False)
        return [self._bos, *[self._image] * image_tokens, *tail]

    def ids(self, tokens: Sequence[str]) -> list[int]:
        """Ids of those special tokens that the vocabulary has."""
        known = (self._inner.convert_tokens_to_ids(token) for token in tokens)
        return [token for token in known if token is not None and token != self._unknown]

    @property
    def _unknown(self) -> int | None:
        unknown: int | None = self._inner.unk_token_id
        return unknown

    def text(self, ids: Sequence[int]) -> str:
        """The text of generated ids, region marks kept, end and padding left out."""
        ends = {self._bos, self._inner.eos_token_id, self._inner.pad_token_id}
        kept = [token for token in ids if token not in ends]
        text: str = self._inner.decode(
            kept, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text


AddBias = Callable[["torch.Tensor", "torch.Tensor", "torch.Tensor"], None]


def vision_module(config: Any) -> Any:
    """The vision tower on the meta device: shapes only, no memory."""
    import torch
    from transformers.models.deepseek_ocr2.modeling_deepseek_ocr2 import DeepseekOcr2VisionModel

    with torch.device("meta"):
        module = DeepseekOcr2VisionModel._from_config(
            config.vision_config, attn_implementation="sdpa"
        )
    return module.eval()


@dataclass(frozen=True, slots=True)
class _Grid:
    """What depends only on the size of a square image, made once per size."""

    place: torch.Tensor
    relative: list[tuple[torch.Tensor, torch.Tensor]]
    mask: torch.Tensor
    turns: tuple[torch.Tensor, torch.Tensor]
    queries: torch.Tensor


class VisionTower:
    """The stock vision layers, run without host work and with a small peak.

    Bit-identical to the stock forward of one image. Two things differ: the
    position tables are made once per image size (the stock code indexes with
    host tensors, which neither a CUDA graph nor speed allows), and SAM's global
    attention adds its position bias for a few heads at a time: the bias of one
    1,024 px view is 384 MiB for all heads.

    Args:
        module: The tower with its weights in place.
        bias_limit_mb: Largest bias held at once, in megabytes.
        add_bias: Fills (heads, area, area) from the two directions' parts; a
            kernel may stand in for torch's addition if it rounds alike.
    """

    def __init__(
        self, module: Any, *, bias_limit_mb: int = 100, add_bias: AddBias | None = None
    ) -> None:
        self._module = module
        self._bias_limit = bias_limit_mb * 1_000_000
        self._add_bias = add_bias or _add_bias
        self._grids: dict[int, _Grid] = {}

    def prepare(self, size_px: int) -> None:
        """Make the tables for square images of this size, 768 or 1,024 px."""
        import torch

        sam = self._module.sam_encoder
        side = size_px // sam.config.patch_size
        relative = []
        for layer in sam.layers:
            inside = layer.window_size or side
            attention = layer.attn
            relative.append(
                (
                    attention.get_rel_pos(inside, inside, attention.rel_pos_h),
                    attention.get_rel_pos(inside, inside, attention.rel_pos_w),
                )
            )
        patches = (side // 4) ** 2
        queries = (
            self._module.query_768_resolution
            if patches <= (TILE_PX // _TOKEN_PX) ** 2
            else self._module.query_1024_resolution
        ).weight
        device = queries.device
        position = torch.arange(patches + queries.shape[0], device=device)
        image = position < patches
        mask = (position[None] <= position[:, None]) | (image[None] & image[:, None])
        turns = self._module.vision_encoder.rotary_emb(queries, position[None])
        self._grids[size_px] = _Grid(
            sam.interpolate_pos_encoding(side, side), relative, mask[None, None], turns, queries
        )

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """Features of square images.

        Args:
            pixels: (images, 3, size, size), normalised, in the tower's dtype;
                a size that was prepared.

        Returns:
            (images, queries, width of the encoder).
        """
        import torch

        grid = self._grids[pixels.shape[-1]]
        patches = self._sam(pixels, grid).flatten(2).transpose(1, 2)
        images, count, _ = patches.shape
        x = torch.cat([patches, grid.queries[None].expand(images, -1, -1)], dim=1)
        encoder = self._module.vision_encoder
        mask = grid.mask.expand(images, -1, -1, -1)
        for layer in encoder.layers:
            x = layer(x, attention_mask=mask, position_embeddings=grid.turns)
        features: torch.Tensor = encoder.norm(x)[:, count:]
        return features

    def _sam(self, pixels: torch.Tensor, grid: _Grid) -> Any:
        sam = self._module.sam_encoder
        x = sam.patch_embed(pixels) + grid.place
        for layer, relative in zip(sam.layers, grid.relative, strict=True):
            x = self._sam_layer(layer, x, relative)
        return sam.proj(sam.neck(x))

    def _sam_layer(self, layer: Any, x: Any, relative: tuple[Any, Any]) -> Any:
        inner = layer.layer_norm1(x)
        if layer.window_size > 0:
            height, width = x.shape[1:3]
            inner, padded = layer.window_partition(inner, layer.window_size)
            inner = self._sam_attention(layer.attn, inner, relative)
            inner = layer.window_unpartition(inner, layer.window_size, padded, (height, width))
        else:
            inner = self._sam_attention(layer.attn, inner, relative)
        x = x + inner
        return x + layer.mlp(layer.layer_norm2(x))

    def _sam_attention(self, attention: Any, x: Any, relative: tuple[Any, Any]) -> Any:
        import torch

        images, height, width, _ = x.shape
        heads = attention.num_attention_heads
        area = height * width
        qkv = attention.qkv(x).reshape(images, area, 3, heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.reshape(3, images * heads, area, -1).unbind(0)
        square = q.reshape(images * heads, height, width, -1)
        down = torch.einsum("bhwc,hkc->bhwk", square, relative[0]).contiguous()
        across = torch.einsum("bhwc,wkc->bhwk", square, relative[1]).contiguous()
        # Rows a multiple of 8 apart: SDPA would otherwise copy the bias to make them so.
        stride = -(-area // 8) * 8
        step = max(1, self._bias_limit // (area * stride * q.element_size()))
        bias = q.new_empty(min(step, images * heads), area, stride)[:, :, :area]
        parts = []
        for start in range(0, images * heads, step):
            some = slice(start, start + step)
            part = bias[: q[some].shape[0]]
            self._add_bias(down[some], across[some], part)
            attend = torch.nn.functional.scaled_dot_product_attention
            parts.append(
                attend(q[None, some], k[None, some], v[None, some], attn_mask=part[None])[0]
            )
        out = torch.cat(parts) if len(parts) > 1 else parts[0]
        out = out.view(images, heads, height, width, -1).permute(0, 2, 3, 1, 4)
        return attention.proj(out.reshape(images, height, width, -1))


def _add_bias(down: torch.Tensor, across: torch.Tensor, out: torch.Tensor) -> None:
    import torch

    _, height, width, _ = down.shape
    whole = out.unflatten(2, (height, width)).unflatten(1, (height, width))
    torch.add(down[..., :, None], across[..., None, :], out=whole)


def finish_vision(module: Any, config: Any, device: torch.device) -> None:
    """Rebuild the rotary buffers, which no checkpoint holds and meta left empty."""
    encoder = module.vision_encoder
    encoder.rotary_emb = type(encoder.rotary_emb)(config=config.vision_config.encoder_config).to(
        device
    )
