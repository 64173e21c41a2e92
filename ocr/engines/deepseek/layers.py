"""The decoder's layers, as interfaces that a quantized engine can fill in.

`Linear` and `Experts` are what a weight format must offer. The feed-forward
blocks and `decoder` use nothing else, so INT4 layers plug in where 16-bit ones
stand now. The plain classes here are the readable reference: they run anywhere
and equal the stock model; `fused` holds the one-token kernels for a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch


class Norm:
    """RMS norm over the last dimension; statistics in fp32, result in x's type."""

    def __init__(self, weight: torch.Tensor, eps: float) -> None:
        self.weight = weight
        self.eps = eps

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Gives x / rms(x) * weight, same shape and dtype as x."""
        import torch

        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * (wide * scale).to(x.dtype)


class Linear(Protocol):
    """y = x W^T for x of shape (tokens, in), and the two fusions a step uses."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """(tokens, in) -> (tokens, out), in x's dtype."""

    def normed(self, x: torch.Tensor, norm: Norm) -> torch.Tensor:
        """self(norm(x))."""

    def added(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Gives residual + self(x)."""


class Experts(Protocol):
    """The routed experts of one layer."""

    def __call__(self, x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Sum of the chosen experts' answers.

        Args:
            x: (tokens, hidden).
            ids: (tokens, top_k) int64, chosen experts.
            weights: (tokens, top_k) fp32, their shares.

        Returns:
            (tokens, hidden) in x's dtype.
        """


class FeedForward(Protocol):
    """The second half of a decoder layer."""

    def __call__(self, x: torch.Tensor, norm: Norm) -> torch.Tensor:
        """Gives x + block(norm(x)), (tokens, hidden)."""


class DenseLinear:
    """A 16- or 32-bit matrix of shape (out, in)."""

    def __init__(self, weight: torch.Tensor) -> None:
        self.weight = weight

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """See `Linear`."""
        import torch

        return torch.nn.functional.linear(x, self.weight)

    def normed(self, x: torch.Tensor, norm: Norm) -> torch.Tensor:
        """See `Linear`."""
        return self(norm(x))

    def added(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """See `Linear`."""
        return residual + self(x)


class DenseExperts:
    """Experts as two 16- or 32-bit tensors, one matrix per expert.

    Args:
        gate_up: (experts, 2 * inner, hidden), gate rows before up rows.
        down: (experts, hidden, inner).
        grouped: Whether `grouped_mm` works on this device (bf16, 8.0 and up).
    """

    def __init__(self, gate_up: torch.Tensor, down: torch.Tensor, *, grouped: bool) -> None:
        self.gate_up = gate_up
        self.down = down
        self.grouped = grouped

    def __call__(self, x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """See `Experts`. Tokens are sorted by expert, so that each matrix is read once."""
        import torch

        top_k = ids.shape[1]
        experts = self.gate_up.shape[0]
        order = torch.argsort(ids.reshape(-1), stable=True)
        sorted_ids = ids.reshape(-1)[order]
        ends = torch.searchsorted(
            sorted_ids, torch.arange(experts, device=ids.device), right=True
        ).to(torch.int32)
        picked = x[order // top_k]
        inner = swiglu(self._grouped(picked, self.gate_up, ends))
        answers = self._grouped(inner, self.down, ends)
        weighted = answers * weights.reshape(-1)[order, None]
        unsorted = torch.empty_like(weighted)
        unsorted[order] = weighted
        # Summing a fixed order keeps the result the same from run to run, which
        # an index_add with atomics would not.
        return unsorted.view(x.shape[0], top_k, -1).sum(dim=1).to(x.dtype)

    def _grouped(self, x: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        import torch

        if self.grouped:
            return torch.nn.functional.grouped_mm(x, matrices.transpose(-2, -1), offs=ends)
        out = x.new_empty(x.shape[0], matrices.shape[1])
        start = 0
        for expert, end in enumerate(ends.tolist()):
            if end > start:
                torch.mm(x[start:end], matrices[expert].T, out=out[start:end])
            start = end
        return out


def swiglu(gate_up: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up, for (…, 2 * inner) holding gate before up."""
    import torch

    gate, up = gate_up.chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * up


class Mlp:
    """The dense feed-forward of the first layer, and the shared experts."""

    def __init__(self, gate_up: Linear, down: Linear) -> None:
        self.gate_up = gate_up
        self.down = down

    def __call__(self, x: torch.Tensor, norm: Norm) -> torch.Tensor:
        """See `FeedForward`."""
        return self.down.added(swiglu(self.gate_up.normed(x, norm)), x)


class Router:
    """Chooses `top_k` of the experts for each token, in fp32.

    The choice is greedy over a softmax; `scaling` multiplies the shares, which
    are not renormalised.

    Source: DeepSeek-V2, section 2.2.1; modeling_deepseek_ocr2.py, TextTopkRouter.
    """

    def __init__(self, weight: torch.Tensor, *, top_k: int, scaling: float) -> None:
        self.weight = weight
        self.top_k = top_k
        self.scaling = scaling

    def __call__(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Chosen ids (tokens, top_k) int64 and their shares (tokens, top_k) fp32."""
        import torch

        logits = torch.nn.functional.linear(x.float(), self.weight)
        shares, ids = torch.topk(logits.softmax(dim=-1), self.top_k, dim=-1)
        return ids, shares * self.scaling


class Moe:
    """Routed experts plus the experts that every token shares."""

    def __init__(self, router: Router, experts: Experts, shared: Mlp) -> None:
        self.router = router
        self.experts = experts
        self.shared = shared

    def __call__(self, x: torch.Tensor, norm: Norm) -> torch.Tensor:
        """See `FeedForward`."""
        normed = norm(x)
        ids, weights = self.router(normed)
        routed = self.experts(normed, ids, weights)
        shared = self.shared.down(swiglu(self.shared.gate_up(normed)))
        return x + (routed + shared)
