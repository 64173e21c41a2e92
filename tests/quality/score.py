"""Scores the CPU engine on a folder of real pages with truth.

    python -m tests.quality.score [--corpus DIR] [--profile accurate|fast] [--per-page] [--others]

Reads every page through the engine, its assembly and the Markdown writer, runs the
corpus's own scorer in a process of its own, and prints one table: the engine, its
bare lines from top to bottom, and with `--others` tesseract (psm 1 and 3) and
ocrmypdf's sidecar where they are installed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ocr.document import Page
from ocr.engines.base import PageImage
from ocr.engines.rapid.engine import RapidEngine
from ocr.markdown import render_markdown
from ocr.options import MarkdownOptions, Profile, ReadOptions
from ocr.sources import open_source

CORPUS = Path(__file__).resolve().parents[2].parent / "shared" / "corpus"
_COLUMNS = ("cer", "wr", "wp", "ord", "hr", "hp", "li_ok", "shape_ok", "cell", "adj", "sec_med")


@dataclass(frozen=True, slots=True)
class Task:
    """One page of the corpus."""

    name: str
    path: Path
    language: str


def tasks(corpus: Path) -> list[Task]:
    """Every page that the manifest names and the folder holds."""
    entries = json.loads((corpus / "manifest.json").read_text())
    found = [Task(e["id"], corpus / e["image"], e.get("lang", "en")) for e in entries]
    return [task for task in found if task.path.is_file()]


def page_image(path: Path) -> PageImage:
    """The page as it comes from a file that was dropped."""
    with open_source(path, ReadOptions()) as source:
        return source.page(0)


def read_corpus(corpus: Path, folder: Path, *, profile: Profile) -> dict[str, Path]:
    """Writes `<id>.md` and `<id>.time` for the engine and for its bare lines."""
    engine = RapidEngine()
    engine.load()
    options = ReadOptions(profile=profile)
    folders = {name: folder / name for name in (f"rapid-{profile}", "bare-lines")}
    for made in folders.values():
        made.mkdir(parents=True, exist_ok=True)
    for task in tasks(corpus):
        image = page_image(task.path)
        started = time.perf_counter()
        page = engine.read(image, options)
        markdown = render_markdown([page], MarkdownOptions())
        seconds = time.perf_counter() - started
        _write(folders[f"rapid-{profile}"], task.name, markdown, seconds)
        _write(folders["bare-lines"], task.name, _bare(page), seconds)
    return folders


def _bare(page: Page) -> str:
    lines = [line for block in page.blocks for line in block.lines]
    return "\n".join(line.text for line in sorted(lines, key=lambda line: line.bbox.top))


def _write(folder: Path, name: str, text: str, seconds: float) -> None:
    (folder / f"{name}.md").write_text(text)
    (folder / f"{name}.time").write_text(f"{seconds:.3f}")


def read_with_others(corpus: Path, folder: Path) -> dict[str, Path]:
    """The same pages by tesseract and ocrmypdf, as far as they are installed."""
    commands: dict[str, Callable[[Task, Path], list[str]]] = {}
    if shutil.which("tesseract"):
        commands["tesseract-psm1"] = lambda task, out: _tesseract(task, out, "1")
        commands["tesseract-psm3"] = lambda task, out: _tesseract(task, out, "3")
    if shutil.which("ocrmypdf"):
        commands["ocrmypdf"] = _ocrmypdf
    folders = {}
    for name, command in commands.items():
        folders[name] = folder / name
        folders[name].mkdir(parents=True, exist_ok=True)
        for task in tasks(corpus):
            out = folders[name] / task.name
            started = time.perf_counter()
            subprocess.run(command(task, out), capture_output=True, check=False)
            seconds = time.perf_counter() - started
            text = out.with_suffix(".txt")
            _write(folders[name], task.name, text.read_text() if text.exists() else "", seconds)
    return folders


_LANGUAGES = {"de": "deu", "fr": "fra", "es": "spa", "zh": "chi_sim"}


def _tesseract(task: Task, out: Path, mode: str) -> list[str]:
    language = _LANGUAGES.get(task.language, "eng")
    return ["tesseract", str(task.path), str(out), "--psm", mode, "-l", language]


def _ocrmypdf(task: Task, out: Path) -> list[str]:
    language = _LANGUAGES.get(task.language, "eng")
    flags = ["--rotate-pages", "--deskew", "--image-dpi", "200", "-l", language]
    return ["ocrmypdf", *flags, "--sidecar", f"{out}.txt", str(task.path), f"{out}.pdf"]


def scores(corpus: Path, folder: Path, *, per_page: bool = False) -> dict[str, float]:
    """The summary that the corpus's own scorer gives for a folder of `<id>.md`."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [sys.executable, str(corpus / "score.py"), "--root", str(corpus)]
        command += ["--hyp", str(folder), "--json", report.name]
        command += ["--per-page"] if per_page else []
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        if per_page:
            print(done.stdout)
        summary: dict[str, float] = json.loads(Path(report.name).read_text())["summary"]
    return summary


def table(summaries: dict[str, dict[str, float]]) -> str:
    """One row for each reader."""
    rows = [f"{'':16s}" + "".join(f"{column:>9s}" for column in _COLUMNS)]
    for name, summary in summaries.items():
        cells = (summary.get(column) for column in _COLUMNS)
        rows.append(
            f"{name:16s}" + "".join(f"{'-' if c is None else f'{c:.3f}':>9s}" for c in cells)
        )
    return "\n".join(rows)


def main() -> None:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    parser.add_argument("--profile", type=Profile, default=Profile.ACCURATE)
    parser.add_argument("--per-page", action="store_true")
    parser.add_argument("--others", action="store_true", help="tesseract and ocrmypdf too")
    parser.add_argument("--keep", type=Path, help="folder in which the Markdown stays")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folders = read_corpus(arguments.corpus, folder, profile=arguments.profile)
        if arguments.others:
            folders |= read_with_others(arguments.corpus, folder)
        first = next(iter(folders))
        summaries = {
            name: scores(arguments.corpus, made, per_page=arguments.per_page and name == first)
            for name, made in folders.items()
        }
    print(table(summaries))


if __name__ == "__main__":
    main()
