"""Times the one-token kernels over a grid of tiles: where `fused.TILES` comes from.

    python -m tests.benchmarks.gpu_kernels

Each kernel runs over 12 sets of random weights in turn inside one CUDA graph, so
that weights come from memory and not from the cache.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from ocr.engines.deepseek import fused
from ocr.engines.deepseek.cache import CacheShape, KVCache
from ocr.engines.deepseek.fused import FusedLinear, FusedMoe, Tile, route
from ocr.engines.deepseek.layers import DenseExperts, DenseLinear, Mlp, Moe, Norm, Router

SETS = 12
HIDDEN, INNER, EXPERTS, TOP_K = 1280, 896, 64, 6


def rand(*shape: int, dtype: Any = torch.bfloat16) -> Any:
    """Random weights on the device."""
    return torch.randn(shape, device="cuda", dtype=dtype) * 0.02


def graph_us(work: Callable[[int], object]) -> float:
    """Microseconds of one call, from replays of a graph of SETS calls."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        work(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for index in range(SETS):
            work(index)
    graph.replay()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(8):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1000 / 8 / SETS


def best(kind: str, tiles: list[Tile], work: Callable[[int], object], megabytes: float) -> None:
    """Print the tiles of one kernel, fastest first."""
    results = []
    before = fused.TILES[kind]
    for tile in tiles:
        fused.TILES[kind] = tile
        results.append((graph_us(work), tile))
    fused.TILES[kind] = before
    results.sort(key=lambda pair: pair[0])
    floor = megabytes / 4.3
    shown = "  ".join(f"{us:.1f} {t.rows}/{t.columns}/{t.warps}" for us, t in results[:5])
    print(
        f"{kind:8} {megabytes:7.1f} MB, floor {floor:5.1f} us: {shown} ... {results[-1][0]:.1f}",
        flush=True,
    )


def products(tiles: list[Tile], layers: list[FusedLinear], x: Any, norm: Norm) -> None:
    """Print the tiles of a plain product with its norm."""
    megabytes = layers[0].weight.numel() * 2e-6
    best("linear", tiles, lambda i: layers[i].normed(x, norm), megabytes)


def attention(qkv: Any) -> None:
    """Print the splits of attention over a page's prompt and a full window."""
    shape = CacheShape(SETS, 1, 10, 128, 1152, 512)
    cache = KVCache(shape, torch.bfloat16, torch.device("cuda"))
    cache.prompt_length.fill_(1133)
    cache.generated.fill_(600)
    table = rand(4096, 128)
    rotary = SimpleNamespace(cos=table, sin=table)
    results = []
    for splits, slots, warps in itertools.product((16, 32, 64), (16, 32, 64), (2, 4, 8)):
        fused.ATTENTION.update(splits=splits, slots=slots, warps=warps)
        work = lambda i: fused.fused_step_attention(qkv, i, cache, rotary)  # noqa: E731  # used at once
        results.append((graph_us(work), splits, slots, warps))
    results.sort()
    shown = "  ".join(f"{us:.1f} {a}/{b}/{c}" for us, a, b, c in results[:6])
    print(f"attention 8.4 MB, floor 2.0 us: {shown} ... {results[-1][0]:.1f}", flush=True)


def main() -> None:
    """Run and print."""
    norm = Norm(rand(HIDDEN) + 1, 1e-6)
    x = rand(1, HIDDEN) * 50
    shapes = {"qkv": (3 * HIDDEN, HIDDEN), "out": (HIDDEN, HIDDEN)}
    wide = [Tile(r, c, w) for r, c, w in itertools.product((1, 2, 4, 8), (256, 512), (4, 8))]
    for name, (outputs, inputs) in shapes.items():
        print(name, end=" ")
        products(wide, [FusedLinear(rand(outputs, inputs)) for _ in range(SETS)], x, norm)
    heads = [FusedLinear(rand(129_280, HIDDEN)) for _ in range(2)]
    big = [Tile(r, c, w) for r, c, w in itertools.product((4, 8, 16), (256,), (4, 8))]
    best("head", big, lambda i: heads[i % 2].normed(x, norm), 331.0)
    tall = [FusedLinear(rand(HIDDEN, 6848)) for _ in range(SETS)]
    y = rand(1, 6848)
    long = [Tile(r, c, w) for r, c, w in itertools.product((1, 2, 4), (1024,), (4, 8))]
    best("tall", long, lambda i: tall[i].added(y, x), HIDDEN * 6848 * 2e-6)
    routers = [rand(EXPERTS, HIDDEN, dtype=torch.float32) for _ in range(SETS)]
    small = [Tile(r, c, w) for r, c, w in itertools.product((1, 2), (256,), (1, 4))]
    best("router", small, lambda i: route(routers[i], x, norm), EXPERTS * HIDDEN * 4e-6)
    moes = []
    for index in range(SETS):
        experts = DenseExperts(
            rand(EXPERTS, 2 * INNER, HIDDEN), rand(EXPERTS, HIDDEN, INNER), grouped=True
        )
        up, down = DenseLinear(rand(4 * INNER, HIDDEN)), DenseLinear(rand(HIDDEN, 2 * INNER))
        moe = Moe(Router(routers[index], top_k=TOP_K, scaling=1.0), experts, Mlp(up, down))
        moes.append(FusedMoe(moe, experts, up, down))
    both = (TOP_K + 2) * 3 * INNER * HIDDEN * 2e-6
    attention(rand(1, 3 * HIDDEN))
    print("whole MoE, varying up", end=" ")
    best("up", [t for t in wide if t.rows > 1], lambda i: moes[i](x, norm), both)
    downs = [Tile(r, c, w) for r, c, w in itertools.product((1, 2, 4), (256, 512, 1024), (4, 8))]
    print("whole MoE, varying down", end=" ")
    best("down", downs, lambda i: moes[i](x, norm), both)


if __name__ == "__main__":
    with torch.no_grad():
        main()
