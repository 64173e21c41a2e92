"""The layers' one-token path on a GPU, over the Triton kernels.

Every class behaves like its plain counterpart for several tokens at once and
launches a fused kernel for a single one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import triton

from ocr.engines.deepseek import kernels
from ocr.engines.deepseek.cache import KVCache
from ocr.engines.deepseek.decoder import Rotary
from ocr.engines.deepseek.layers import DenseExperts, DenseLinear, Mlp, Moe, Norm

if TYPE_CHECKING:
    import torch

ATTENTION = {"splits": 32, "slots": 64, "warps": 2}
"""Parts a head's cache is split into, slots a load takes, warps; measured likewise."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows of the matrix a program takes, columns a load takes, warps."""

    rows: int
    columns: int
    warps: int


TILES = {
    "head": Tile(16, 256, 4),
    "linear": Tile(4, 512, 4),
    "tall": Tile(1, 1024, 4),
    "router": Tile(1, 256, 1),
    "up": Tile(8, 256, 4),
    "down": Tile(2, 1024, 4),
}
"""By use, measured on an H200 with `tests/benchmarks/gpu_kernels.py`."""


def tile_for(inputs: int, outputs: int) -> Tile:
    """The tile of a plain matrix product of this size."""
    if outputs > 32_768:
        return TILES["head"]
    return TILES["tall" if inputs > 4096 else "linear"]


class FusedLinear(DenseLinear):
    """A dense matrix whose one-token product takes norm and residual along."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """See `Linear`."""
        return super().__call__(x) if x.shape[0] > 1 else self._one(x, None, None)

    def normed(self, x: torch.Tensor, norm: Norm) -> torch.Tensor:
        """See `Linear`."""
        return super().normed(x, norm) if x.shape[0] > 1 else self._one(x, norm, None)

    def added(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """See `Linear`."""
        return super().added(x, residual) if x.shape[0] > 1 else self._one(x, None, residual)

    def _one(
        self, x: torch.Tensor, norm: Norm | None, residual: torch.Tensor | None
    ) -> torch.Tensor:
        outputs, inputs = self.weight.shape
        out = x.new_empty(1, outputs)
        tile = tile_for(inputs, outputs)
        kernels.linear_kernel[(triton.cdiv(outputs, tile.rows),)](
            x.contiguous(),
            x if norm is None else norm.weight,
            self.weight,
            x if residual is None else residual,
            out,
            outputs,
            0.0 if norm is None else norm.eps,
            INPUTS=inputs,
            NORM=norm is not None,
            RESIDUAL=residual is not None,
            BLOCK_OUT=tile.rows,
            BLOCK_IN=tile.columns,
            num_warps=tile.warps,
        )
        return out


class FusedMlp:
    """An `Mlp` of dense matrices, whose one-token pass is two launches."""

    def __init__(self, gate_up: FusedLinear, down: FusedLinear) -> None:
        self._many = Mlp(gate_up, down)
        self._gate_up = gate_up
        self._down = down

    def __call__(self, x: torch.Tensor, norm: Norm) -> torch.Tensor:
        """See `FeedForward`."""
        if x.shape[0] > 1:
            return self._many(x, norm)
        double, hidden = self._gate_up.weight.shape
        inner = double // 2
        middle = x.new_empty(1, inner)
        tile = TILES["up"]
        kernels.gated_kernel[(triton.cdiv(inner, tile.rows),)](
            x, norm.weight, self._gate_up.weight, middle, inner, norm.eps,
            INPUTS=hidden, BLOCK_OUT=tile.rows, BLOCK_IN=tile.columns, num_warps=tile.warps,
        )  # fmt: skip
        return self._down.added(middle, x)


class FusedMoe:
    """A `Moe` whose one-token pass is three launches: router, up, down."""

    def __init__(
        self, moe: Moe, experts: DenseExperts, shared_up: DenseLinear, shared_down: DenseLinear
    ) -> None:
        self._moe = moe
        self._experts = experts
        self._up = shared_up
        self._down = shared_down

    def __call__(self, x: torch.Tensor, norm: Norm) -> torch.Tensor:
        """See `FeedForward`."""
        return self._moe(x, norm) if x.shape[0] > 1 else self._one(x, norm)

    def _one(self, x: torch.Tensor, norm: Norm) -> torch.Tensor:
        import torch

        router = self._moe.router
        logits = route(router.weight, x, norm)
        experts, double, hidden = self._experts.gate_up.shape
        inner, shared = double // 2, self._down.weight.shape[1]
        device = x.device
        middle = torch.empty(router.top_k * inner + shared, dtype=torch.float32, device=device)
        ids = torch.empty(router.top_k, dtype=torch.int32, device=device)
        shares = torch.empty(router.top_k, dtype=torch.float32, device=device)
        tile = TILES["up"]
        blocks = triton.cdiv(max(inner, shared), tile.rows)
        kernels.experts_up_kernel[(blocks, router.top_k + 1)](
            x, norm.weight, logits, self._experts.gate_up, self._up.weight,
            middle, ids, shares, shared, norm.eps, router.scaling,
            INPUTS=hidden, INNER=inner, EXPERTS=experts, TOP_K=router.top_k,
            BLOCK_OUT=tile.rows, BLOCK_IN=tile.columns, num_warps=tile.warps,
        )  # fmt: skip
        out = torch.empty_like(x)
        tile = TILES["down"]
        kernels.experts_down_kernel[(triton.cdiv(hidden, tile.rows),)](
            middle, ids, shares, self._experts.down, self._down.weight, x, out, hidden,
            INNER=inner, SHARED=shared, TOP_K=router.top_k,
            BLOCK_OUT=tile.rows, BLOCK_IN=tile.columns, num_warps=tile.warps,
        )  # fmt: skip
        return out


def route(weight: torch.Tensor, x: torch.Tensor, norm: Norm) -> torch.Tensor:
    """Router logits fp32 (experts,) of one token, the norm taken along."""
    import torch

    experts, hidden = weight.shape
    logits = torch.empty(experts, dtype=torch.float32, device=x.device)
    tile = TILES["router"]
    kernels.linear_kernel[(triton.cdiv(experts, tile.rows),)](
        x, norm.weight, weight, x, logits, experts, norm.eps,
        INPUTS=hidden, NORM=True, RESIDUAL=False,
        BLOCK_OUT=tile.rows, BLOCK_IN=tile.columns, num_warps=tile.warps,
    )  # fmt: skip
    return logits


def fused_step_attention(
    qkv: torch.Tensor, layer: int, cache: KVCache, rotary: Rotary
) -> torch.Tensor:
    """A `StepAttention`: rotary positions, cache write and attention in two launches."""
    import torch

    shape = cache.shape
    rows = qkv.shape[0]
    device = qkv.device
    splits = ATTENTION["splits"]
    parts = rows * shape.heads * splits
    partial = torch.empty(parts * shape.head_dim, dtype=torch.float32, device=device)
    peaks = torch.empty(parts, dtype=torch.float32, device=device)
    sums = torch.empty(parts, dtype=torch.float32, device=device)
    kernels.attention_kernel[(rows, shape.heads, splits)](
        qkv, cache.keys[layer], cache.values[layer], rotary.cos, rotary.sin,
        cache.prompt_length, cache.generated, partial, peaks, sums,
        shape.head_dim**-0.5, shape.prompt_slots, shape.window,
        HEADS=shape.heads, HEAD_DIM=shape.head_dim, SPLITS=splits,
        BLOCK_SLOTS=ATTENTION["slots"], num_warps=ATTENTION["warps"],
    )  # fmt: skip
    out = torch.empty((rows, shape.heads * shape.head_dim), dtype=qkv.dtype, device=device)
    kernels.combine_kernel[(rows * shape.heads,)](
        partial, peaks, sums, out,
        HEAD_DIM=shape.head_dim, SPLITS=splits, num_warps=4,
    )  # fmt: skip
    return out


def position_bias(down: torch.Tensor, across: torch.Tensor, out: torch.Tensor) -> None:
    """Fill `out` with the position bias of SAM's attention, bit for bit what torch adds.

    Args:
        down: (heads, height, width, height), contiguous.
        across: (heads, height, width, width), contiguous.
        out: (heads, area, area), rows possibly further apart than their length.
    """
    heads, height, width, _ = down.shape
    kernels.position_bias_kernel[(heads * height * width,)](
        down, across, out, out.stride(1),
        HEIGHT=height, WIDTH=width, BLOCK=1024 if height * width > 256 else 256, num_warps=4,
    )  # fmt: skip
