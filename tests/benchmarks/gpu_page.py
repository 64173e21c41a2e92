"""What one A4 page costs on a GPU: this engine beside stock transformers.

    python -m tests.benchmarks.gpu_page [--pages 50] [--tokens 1000] [--out FILE]

Builds a random model of the published size, saves it, loads it as the engine
does, reads pages, then runs stock `generate` over the very same weights.
Random weights never end a page, so every page takes the whole token budget.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ocr.engines.deepseek.cache import CacheShape
from ocr.engines.deepseek.device import device_facts, placement
from ocr.engines.deepseek.generate import Bounds, Generator
from ocr.engines.deepseek.guard import NGramGuard
from ocr.engines.deepseek.model import Checked, Model, check_model, load_model
from ocr.engines.deepseek.plan import Wishes, make_plan
from ocr.engines.deepseek.preprocess import cut
from ocr.engines.deepseek.valve import Valve
from tests.gpu import models

A4_PX = (2339, 1654)


def page_pixels(seed: int = 0) -> Any:
    """A page of noise in blocks, as large as A4 at 200 dpi."""
    noise = np.random.default_rng(seed)
    small = noise.integers(0, 256, (A4_PX[0] // 8 + 1, A4_PX[1] // 8 + 1, 3), dtype=np.uint8)
    return small.repeat(8, 0).repeat(8, 1)[: A4_PX[0], : A4_PX[1]]


def random_checkpoint(folder: Path) -> Checked:
    """A checkpoint of the published size in the native layout, bf16, about 6.8 GB."""
    from safetensors.torch import save_file

    from ocr.engines.deepseek import upstream
    from ocr.engines.deepseek.weights import decoder_targets, vision_targets

    config = models.full_config()
    config.save_pretrained(folder)
    models.save_tokenizer(folder)
    sizes = upstream.text_sizes(config)
    module = upstream.vision_module(config)
    targets = [*decoder_targets(sizes, split_experts=False), *vision_targets(sizes, module, 896)]
    torch.manual_seed(0)
    parts: dict[str, Any] = {}
    number, size = 0, 0
    for target in targets:
        for part in target.parts:
            value = torch.randn(part.shape, device="cuda", dtype=torch.bfloat16) * 0.02
            if len(part.shape) == 1 and "norm" in part.key and part.key.endswith("weight"):
                value = value + 1
            parts[part.key] = value.cpu()
            size += value.nbytes
            if size > 1_500_000_000:
                save_file(parts, folder / f"model-{number}.safetensors")
                parts, size, number = {}, 0, number + 1
    save_file(parts, folder / f"model-{number}.safetensors")
    gc.collect()
    torch.cuda.empty_cache()
    return check_model(folder)


def gb(value: float) -> float:
    """Bytes as gigabytes, three places."""
    return round(value / 1e9, 3)


def timed(action: Callable[[], object], repeat: int = 5) -> float:
    """Median milliseconds of an action, the device's work included."""
    times = []
    for _ in range(repeat + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        action()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times[1:])


class EngineUnderTest:
    """The engine's parts as the engine itself joins them."""

    def __init__(self, model: Model, window: int, rows: int = 1) -> None:
        sizes = model.sizes
        shape = CacheShape(sizes.layers, rows, sizes.heads, sizes.head_dim, 1216, window)
        self.model = model
        self.generator = Generator(
            model.decoder,
            shape,
            guard=NGramGuard(20, 90),
            graph=True,
            pool=torch.cuda.graph_pool_handle(),
        )

    def prompt(self, page: Any) -> tuple[Any, Any]:
        """Ids and embeddings of a page's prompt."""
        model = self.model
        features = model.vision.features(page)
        ids = torch.tensor(model.tokenizer.prompt(models.WORDS, page.tokens)).cuda()
        ids = ids.clamp(max=model.sizes.vocabulary - 1)
        embedded = model.decoder.embed(ids)
        embedded[1 : 1 + page.tokens] = features
        return ids, embedded

    def read(self, page: Any, tokens: int) -> list[int]:
        """A page's tokens."""
        ids, embedded = self.prompt(page)
        self.generator.start(0, ids, embedded)
        return self.generator.run(Bounds(max_tokens=tokens, max_seconds=600), eos=-1).tokens


def measure_engine(model: Model, args: argparse.Namespace) -> tuple[dict[str, Any], Any]:
    """The engine's figures, and its prompt logits for the comparison."""
    result: dict[str, Any] = {}
    engine = EngineUnderTest(model, args.window)
    page = cut(page_pixels())
    result["cut_ms"] = round(timed(lambda: cut(page_pixels())) - timed(page_pixels), 1)
    scan = page_pixels()
    turn = np.array([1, 0, 0, 0], np.float32)
    valve = Valve(lambda _: turn)
    result["valve_ms"] = round(timed(lambda: valve.prepare(scan, correct=True), 2), 1)
    engine.read(page, 64)
    result["vision_ms"] = round(timed(lambda: model.vision.features(page)), 2)
    ids, embedded = engine.prompt(page)
    result["prompt_tokens"] = len(ids)
    start = lambda: engine.generator.start(0, ids, embedded)  # noqa: E731  # one use, one line
    result["prefill_ms"] = round(timed(start), 2)
    memory = []
    seconds = []
    for number in range(args.pages):
        began = time.perf_counter()
        engine.read(page, args.tokens)
        seconds.append(time.perf_counter() - began)
        if number in (0, 9, 49):
            memory.append((number + 1, gb(torch.cuda.memory_allocated())))
    result["page_s"] = round(statistics.median(seconds), 3)
    result["memory_after_pages_gb"] = memory
    engine.generator.start(0, ids, embedded)
    steps = timed(lambda: engine.generator.steps(500), 3)
    result["tokens_per_s"] = round(500 / steps * 1000)
    result["peak_allocated_gb"] = gb(torch.cuda.max_memory_allocated())
    result["peak_reserved_gb"] = gb(torch.cuda.max_memory_reserved())
    row = torch.zeros(1, dtype=torch.long, device="cuda")
    logits = model.decoder.read_prompt(embedded, engine.generator.cache, row, every=True)
    return result, (ids, embedded, logits, page)


def profile(model: Model, args: argparse.Namespace, prompt: Any) -> list[str]:
    """Device time by kernel of 20 decode steps, longest first."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    engine = EngineUnderTest(model, args.window)
    work: dict[str, tuple[int, Callable[[], object]]] = {
        "step": (20, lambda: engine.generator.steps(20)),
        "prompt": (1, lambda: engine.generator.start(0, prompt[0], prompt[1])),
        "vision": (1, lambda: model.vision.features(prompt[3])),
    }
    lines = []
    for name, (count, action) in work.items():
        for _ in range(3):
            action()
        torch.cuda.synchronize()
        with profiler(activities=[ProfilerActivity.CUDA]) as trace:
            action()
            torch.cuda.synchronize()
        rows = sorted(trace.key_averages(), key=lambda row: -row.device_time_total)
        total = sum(row.device_time_total for row in rows) / count
        lines.append(f"{name}: {total:.0f} us of kernels")
        lines += [
            f"{row.device_time_total / count:9.1f} us {row.count / count:6.1f} x  {row.key[:110]}"
            for row in rows[:14]
        ]
    return lines


def tiles_at_once(model: Model, page: Any) -> list[dict[str, Any]]:
    """Vision time and peak with 1, 2, 3 and 6 tiles in the tower at once."""
    reference = model.vision.features(page)
    figures = []
    for count in (1, 2, 3, 6):
        model.vision.release()
        model.vision.tiles_at_once = count
        gc.collect()
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        same = torch.equal(model.vision.features(page), reference)
        figures.append(
            {
                "tiles_at_once": count,
                "vision_ms": round(timed(lambda: model.vision.features(page)), 2),
                "peak_above_gb": gb(torch.cuda.max_memory_allocated() - before),
                "as_one_by_one": same,
            }
        )
    return figures


def measure_rows(model: Model, prompt: Any, rows: int) -> dict[str, Any]:
    """Decode throughput with several pages at once."""
    torch.cuda.reset_peak_memory_stats()
    engine = EngineUnderTest(model, 512, rows)
    for row in range(rows):
        engine.generator.start(row, prompt[0], prompt[1])
    engine.generator.steps(8)
    spent = timed(lambda: engine.generator.steps(100), 2)
    return {
        "rows": rows,
        "tokens_per_s": round(rows * 100 / spent * 1000),
        "peak_gb": gb(torch.cuda.max_memory_allocated()),
    }


def stock(checked: Checked, args: argparse.Namespace, mine: Any) -> dict[str, Any]:
    """Stock transformers over the same file: figures, and how far the logits differ."""
    from safetensors.torch import load_file
    from transformers import DeepseekOcr2ForConditionalGeneration

    with torch.device("meta"):
        model = DeepseekOcr2ForConditionalGeneration._from_config(
            checked.config, attn_implementation="sdpa", experts_implementation="grouped_mm"
        )
    state: dict[str, Any] = {}
    for file in sorted(checked.folder.glob("*.safetensors")):
        state.update(load_file(file, device="cuda"))
    for key in list(state):
        if key.endswith("mlp.gate.weight"):
            state[key] = state[key].float()
    model.load_state_dict(state, strict=True, assign=True)
    del state
    model.eval().requires_grad_(False)
    text = model.model.language_model
    text.rotary_emb = type(text.rotary_emb)(checked.config.text_config).cuda()
    encoder = model.model.vision_tower.vision_encoder
    encoder.rotary_emb = type(encoder.rotary_emb)(
        checked.config.vision_config.encoder_config
    ).cuda()
    _, embedded, logits, page = mine
    torch.cuda.reset_peak_memory_stats()
    from ocr.engines.deepseek.preprocess import normalise

    tiles = normalise(torch.as_tensor(page.tiles).cuda(), torch.bfloat16)
    view = normalise(torch.as_tensor(page.view[None]).cuda(), torch.bfloat16)
    step = args.tiles
    grouped = [
        model.get_image_features(view, some, [len(some)]).pooler_output[0]
        for some in tiles.split(step)
    ]
    parts = [part[: -(256 + 1)] for part in grouped]
    features = torch.cat([*parts, grouped[0][-(256 + 1) :]])
    reference = model(inputs_embeds=embedded[None]).logits[0].float()
    spread = reference.norm()
    call = {
        "inputs_embeds": embedded[None],
        "max_new_tokens": args.stock_tokens,
        "do_sample": False,
        "eos_token_id": None,
        "pad_token_id": 0,
    }
    prefill = timed(
        lambda: model(inputs_embeds=embedded[None], logits_to_keep=1, use_cache=True), 3
    )
    vision = timed(lambda: model.get_image_features(view, tiles, [len(tiles)]), 3)
    model.generate(**{**call, "max_new_tokens": 4})
    began = time.perf_counter()
    model.generate(**call)
    torch.cuda.synchronize()
    spent = time.perf_counter() - began
    mine_features = embedded[1 : 1 + page.tokens]
    return {
        "vision_ms": round(vision, 1),
        "prefill_ms": round(prefill, 1),
        "tokens_per_s": round(args.stock_tokens / (spent - prefill / 1000), 1),
        "peak_allocated_gb": gb(torch.cuda.max_memory_allocated()),
        "features_identical": bool(torch.equal(features, mine_features)),
        "features_relative_difference": float(
            (features.float() - mine_features.float()).norm() / features.float().norm()
        ),
        "logits_relative_difference": float((reference - logits).norm() / spread),
        "same_best_token": float((reference.argmax(-1) == logits.argmax(-1)).float().mean()),
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--stock-tokens", type=int, default=200)
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--tiles", type=int, help="tiles at once; default: the plan's")
    parser.add_argument("--rows", type=int, nargs="*", default=[])
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--no-stock", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    report: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        checked = random_checkpoint(Path(folder))
        report["weights_gb"] = gb(checked.bytes)
        torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        plan = make_plan(device_facts(), checked.sizes, Wishes(weights_gb=checked.bytes / 1e9))
        args.tiles = args.tiles or plan.tiles_at_once
        report["plan"] = plan.summary()
        model = load_model(checked, replace(placement(plan), tiles_at_once=args.tiles))
        report["load_s"] = round(time.perf_counter() - began, 1)
        report["load_peak_gb"] = gb(torch.cuda.max_memory_allocated())
        report["engine"], mine = measure_engine(model, args)
        print(json.dumps(report, indent=1), flush=True)
        if args.profile:
            report["profile"] = profile(model, args, mine)
            print("\n".join(report["profile"]), flush=True)
        if args.profile:
            report["tiles"] = tiles_at_once(model, mine[3])
            print(report["tiles"], flush=True)
        report["batches"] = [measure_rows(model, mine, rows) for rows in args.rows]
        print(report["batches"], flush=True)
        if not args.no_stock:
            del model
            gc.collect()
            torch.cuda.empty_cache()
            report["stock"] = stock(checked, args, mine)
            print(json.dumps(report["stock"], indent=1))
    if args.out:
        args.out.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
