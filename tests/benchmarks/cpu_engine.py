"""Seconds a page of the CPU engine beside tesseract, page by page in one run.

    python -m tests.benchmarks.cpu_engine [--profile accurate|fast] [--corpus DIR] [--repeat 2]

Every page is read by tesseract (psm 1) and the engine in turn, so that other load on
the machine falls on both; the best of the repeats counts. One profile a run, because
the peak memory belongs to it.
Times of tesseract include its start and decoding, ours decoding and assembly.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from ocr.engines.rapid.engine import RapidEngine
from ocr.markdown import render_markdown
from ocr.options import MarkdownOptions, Profile, ReadOptions
from tests.quality.score import CORPUS, page_image, tasks


def main() -> None:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    parser.add_argument("--profile", type=Profile, default=Profile.ACCURATE)
    parser.add_argument("--repeat", type=int, default=2)
    arguments = parser.parse_args()
    started = time.perf_counter()
    engine = RapidEngine()
    engine.load()
    print(f"models loaded in {time.perf_counter() - started:.2f} s")
    readers: dict[str, Callable[[Path], None]] = {}
    if shutil.which("tesseract"):
        readers["tesseract psm 1"] = _tesseract
    profile: Profile = arguments.profile
    readers[f"rapid {profile}"] = lambda path: _rapid(engine, path, profile)
    best: dict[str, list[float]] = {name: [] for name in readers}
    pages = [task.path for task in tasks(arguments.corpus)]
    for path in pages:
        seconds: dict[str, list[float]] = {name: [] for name in readers}
        for _ in range(arguments.repeat):
            for name, reader in readers.items():
                seconds[name].append(_timed(reader, path))
        for name, values in seconds.items():
            best[name].append(min(values))
    _print(best)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"peak memory of the reading process: {peak:.2f} GB")


def _timed(reader: Callable[[Path], None], path: Path) -> float:
    started = time.perf_counter()
    reader(path)
    return time.perf_counter() - started


def _tesseract(path: Path) -> None:
    command = ["tesseract", str(path), "-", "--psm", "1"]
    subprocess.run(command, capture_output=True, check=False)


def _rapid(engine: RapidEngine, path: Path, profile: Profile) -> None:
    page = engine.read(page_image(path), ReadOptions(profile=profile))
    render_markdown([page], MarkdownOptions())


def _print(best: dict[str, list[float]]) -> None:
    reference = statistics.median(next(iter(best.values())))
    print(f"{'':18s}{'median s':>10s}{'sum s':>10s}{'ratio':>8s}")
    for name, values in best.items():
        middle = statistics.median(values)
        print(f"{name:18s}{middle:10.2f}{sum(values):10.1f}{middle / reference:8.2f}")


if __name__ == "__main__":
    main()
