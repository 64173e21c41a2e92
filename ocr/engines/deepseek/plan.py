"""What is possible on a device, decided before anything is loaded.

Gigabytes are 10^9 bytes. Sizes of activations were measured on an H200 with the
model of the published size (`tests/benchmarks/gpu_page.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ocr.engines.deepseek.cache import CacheShape
from ocr.engines.deepseek.decoder import TextSizes
from ocr.errors import EngineUnavailable

DENSE_WEIGHTS_GB = 6.78
QUANTIZED_WEIGHTS_GB = 2.48
PROMPT_SLOTS = 1152
"""Six tiles, the view and the separator take 1,121; the words of a prompt about 12."""
MAX_TOKENS = 6_800

PUBLISHED = TextSizes(
    vocabulary=129_280,
    hidden=1280,
    layers=12,
    heads=10,
    dense_inner=6848,
    dense_layers=1,
    experts=64,
    top_k=6,
    expert_inner=896,
    shared_inner=1792,
    max_positions=8192,
    rope_theta=10_000.0,
    norm_eps=1e-6,
    routed_scaling=1.0,
    eos_token=1,
    image_token=128_815,
)
"""The sizes of the published checkpoint."""

_CONTEXT_GB = 0.25
"""CUDA context and kernels: taken, but not by the allocator."""
_RESERVE_GB = 0.45
"""The context and what the allocator loses to fragmentation: in no tensor."""
_VIEW_GB = 0.23
"""Activations of the 1,024 px view, the largest single image."""
_TILE_GB = 0.085
"""Activations that each tile adds when several are encoded at once."""
_GRAPHS_GB = 0.15


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device, as it says of itself.

    `capability` is None for a processor. `free_gb` is what is free now.
    `flash` and `triton` say whether these packages can be imported.
    """

    name: str
    capability: tuple[int, int] | None
    total_gb: float
    free_gb: float
    flash: bool = False
    triton: bool = True


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the settings ask for.

    Args:
        vram_budget_gb: Upper bound; None: what is free, less a reserve.
        kv_window: Generated tokens that stay visible; None: all of them.
        max_tokens: Longest text of a page, in tokens.
        decode_batch: Pages decoded at once, if they fit.
        weights_gb: Size of the weights that will be loaded.
    """

    vram_budget_gb: float | None = None
    kv_window: int | None = 512
    max_tokens: int = MAX_TOKENS
    decode_batch: int = 1
    weights_gb: float = DENSE_WEIGHTS_GB


@dataclass(frozen=True, slots=True)
class Plan:
    """How a page will be read on one device.

    `dtype` is a torch name. `attention` is that of the prompt: `flash_attention_2`
    or `sdpa`. `experts` is `grouped_mm` or `loop`; `kernels` says whether single
    tokens go through Triton. `peak_gb` is what all of it is expected to take.
    """

    device: str
    dtype: str
    attention: str
    experts: str
    kernels: bool
    graphs: bool
    tiles_at_once: int
    kv_window: int
    max_tokens: int
    decode_batch: int
    weights_gb: float
    peak_gb: float
    budget_gb: float
    limit_share: float | None = None
    """Share of the device's memory the allocator may take; None: no budget was set."""

    def summary(self) -> str:
        """One line for the log and `scanmd doctor`."""
        window = f"window {self.kv_window} of {self.max_tokens} tokens"
        return (
            f"{self.device}: {self.dtype}, {self.attention}, experts {self.experts}, "
            f"{self.tiles_at_once} tile(s) at once, {window}, {self.decode_batch} page(s) at once, "
            f"about {self.peak_gb:.1f} of {self.budget_gb:.1f} GB"
        )


def make_plan(facts: DeviceFacts, sizes: TextSizes, wishes: Wishes | None = None) -> Plan:
    """The best plan that fits the device.

    Steps down in this order: tiles at once, pages at once, window.

    Raises:
        EngineUnavailable: Even the smallest plan does not fit; the message says
            how much is missing and what would fit.
    """
    wishes = wishes or Wishes()
    if facts.capability is None:
        return _processor_plan(facts, sizes, wishes)
    budget = _budget(facts, wishes)
    new = facts.capability >= (8, 0)
    # Triton serves 7.0 and up; older cards take the torch path.
    kernels = facts.triton and facts.capability >= (7, 0)
    window = min(wishes.kv_window or wishes.max_tokens, wishes.max_tokens)
    for tiles, batch, slots in _ladder(wishes.decode_batch, window):
        peak = _peak_gb(sizes, wishes.weights_gb, tiles=tiles, batch=batch, window=slots)
        if peak <= budget:
            return Plan(
                device=facts.name,
                dtype="bfloat16" if new else "float16",
                attention="flash_attention_2" if new and facts.flash else "sdpa",
                experts="grouped_mm" if new else "loop",
                kernels=kernels,
                # Without a one-token kernel the experts are looped over on the host.
                graphs=kernels,
                tiles_at_once=tiles,
                kv_window=slots,
                max_tokens=wishes.max_tokens,
                decode_batch=batch if new else 1,
                weights_gb=wishes.weights_gb,
                peak_gb=round(peak, 2),
                budget_gb=round(budget, 2),
                limit_share=_limit_share(facts, wishes),
            )
    least = _peak_gb(sizes, wishes.weights_gb, tiles=1, batch=1, window=min(128, window))
    raise EngineUnavailable(_too_little(facts, wishes, budget, least))


def _processor_plan(facts: DeviceFacts, sizes: TextSizes, wishes: Wishes) -> Plan:
    window = min(wishes.kv_window or wishes.max_tokens, wishes.max_tokens)
    peak = 2 * _peak_gb(sizes, wishes.weights_gb, tiles=1, batch=1, window=window)
    return Plan(
        device=facts.name,
        dtype="float32",
        attention="sdpa",
        experts="loop",
        kernels=False,
        graphs=False,
        tiles_at_once=1,
        kv_window=window,
        max_tokens=wishes.max_tokens,
        decode_batch=1,
        weights_gb=wishes.weights_gb,
        peak_gb=round(peak, 2),
        budget_gb=round(facts.free_gb, 2),
    )


def _budget(facts: DeviceFacts, wishes: Wishes) -> float:
    return _allowed_gb(facts, wishes) - _RESERVE_GB


def _allowed_gb(facts: DeviceFacts, wishes: Wishes) -> float:
    return min(facts.free_gb, wishes.vram_budget_gb or facts.free_gb)


def _limit_share(facts: DeviceFacts, wishes: Wishes) -> float | None:
    if wishes.vram_budget_gb is None:
        return None
    allowed = _allowed_gb(facts, wishes) - _CONTEXT_GB
    return round(min(1.0, max(0.0, allowed / facts.total_gb)), 4)


def _ladder(batch: int, window: int) -> list[tuple[int, int, int]]:
    steps = [(tiles, batch, window) for tiles in (6, 3, 2, 1)]
    while batch > 1:
        batch //= 2
        steps.append((1, batch, window))
    steps += [(1, 1, slots) for slots in (512, 256, 128) if slots < window]
    return steps


def _peak_gb(sizes: TextSizes, weights_gb: float, *, tiles: int, batch: int, window: int) -> float:
    shape = CacheShape(sizes.layers, batch, sizes.heads, sizes.head_dim, PROMPT_SLOTS, window)
    vision = max(_VIEW_GB, _TILE_GB * tiles)
    return weights_gb + shape.bytes(2) / 1e9 + vision + _GRAPHS_GB


def _too_little(facts: DeviceFacts, wishes: Wishes, budget: float, least: float) -> str:
    asked = "" if wishes.vram_budget_gb is None else f" (vram_budget_gb {wishes.vram_budget_gb:g})"
    advice = (
        "Load the quantized model, which takes about 3 GB, or use the engine rapid."
        if wishes.weights_gb > QUANTIZED_WEIGHTS_GB + 0.5
        else "Free memory on the device or use the engine rapid."
    )
    return (
        f"{facts.name} has {facts.free_gb:.1f} of {facts.total_gb:.1f} GB free, of which "
        f"{max(budget, 0):.1f} GB can be used{asked}; the model needs at least {least:.1f} GB. "
        f"{advice}"
    )
