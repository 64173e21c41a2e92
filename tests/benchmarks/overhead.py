"""What the daemon costs on top of the engine: time per page, memory per document.

    python -m tests.benchmarks.overhead [--engine rapid] [--pages 5] [--rounds 3] [--long 500]

Time: the same pages through a plain loop (decode, read, next page; no prefetch) and
through the reader process with every page journaled as the daemon does it, in turns.
Memory: peak of the reader process and its renderers over a short and a long PDF. The
echo engine stands in there, since what could grow is everything but the engine.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from daemon.job import Arrival, Signature
from daemon.ledger import Ledger
from daemon.reader_pool import Reader, ReaderLimits
from ocr import ReadOptions, TextLayer, load_engine, open_source, page_to_dict
from tests.engines import ECHO
from tests.samples import LETTER, degrade, page_image, write_pdf

OPTIONS = ReadOptions(text_layer=TextLayer.FORCE_OCR)
SHORT_PAGES = 5
SHORT_READS = 50
GB = 1e9


def make_pdf(folder: Path, pages: int) -> Path:
    """A scanned PDF at 200 dpi; five different sheets, again and again."""
    sheets = [degrade(page_image(f"{LETTER}\nSheet {number}"), number) for number in range(5)]
    return write_pdf(folder / f"{pages}.pdf", [sheets[page % 5] for page in range(pages)])


class PlainLoop:
    """The engine called page after page in this process."""

    def __init__(self, engine: str) -> None:
        self.engine = load_engine(engine)
        self.engine.load()

    def read(self, pdf: Path) -> float:
        """Seconds for all pages of the PDF."""
        begun_s = time.perf_counter()
        with open_source(pdf, OPTIONS) as source:
            for index in range(source.page_count):
                self.engine.read(source.page(index), OPTIONS)
        return time.perf_counter() - begun_s


class DaemonPath:
    """The reader process and the ledger, used as the service uses them."""

    def __init__(self, reader: Reader, folder: Path) -> None:
        self.reader = reader
        self.ledger = Ledger.open(folder / "ledger.sqlite")
        self.rounds = 0

    def read(self, pdf: Path) -> float:
        """Seconds for all pages of the PDF."""
        self.rounds += 1
        signature = Signature(1, self.rounds, 1, 1, 1)
        self.ledger.enqueue([Arrival("/inbox", b"/inbox/%d.pdf" % self.rounds, signature)])
        job = self.ledger.claim()
        assert job is not None
        begun_s = time.perf_counter()
        opened = self.reader.open(pdf, OPTIONS)
        self.ledger.set_fingerprint(job.id, f"{self.rounds:064x}", "bench", opened.page_count)
        for index in range(opened.page_count):
            started_s = time.perf_counter()
            self.ledger.page_started(job.id, index)
            page = json.dumps(page_to_dict(self.reader.read_page(index)))
            self.ledger.page_done(job.id, index, page, time.perf_counter() - started_s)
        self.reader.close_source()
        return time.perf_counter() - begun_s


def compare_time(engine: str, *, pages: int, rounds: int, folder: Path) -> tuple[float, float]:
    """Best seconds per page of the plain loop and of the daemon's path."""
    pdf = make_pdf(folder, pages)
    with Reader(engine, limits=ReaderLimits(work_dir=folder / "work")) as reader:
        plain, daemon = PlainLoop(engine), DaemonPath(reader, folder)
        reader.load()
        plain.read(pdf), daemon.read(pdf)  # warm
        results = [(plain.read(pdf), daemon.read(pdf)) for _ in range(rounds)]
    return min(first for first, _ in results) / pages, min(second for _, second in results) / pages


class PeakMeter(threading.Thread):
    """Watches the memory of a reader and its renderers from outside."""

    def __init__(self, reader: Reader) -> None:
        super().__init__(daemon=True)
        self._reader = reader
        self._done = threading.Event()
        self.tree_gb = 0.0

    def run(self) -> None:
        """Look a hundred times a second until told that it is enough."""
        while not self._done.wait(0.01):
            self.tree_gb = max(self.tree_gb, self._reader.memory_gb())

    def stop(self) -> None:
        """Enough."""
        self._done.set()
        self.join()


def peak_gb(pages: int, folder: Path) -> tuple[float, float]:
    """Peak memory over one PDF: of the process alone, and with its renderers."""
    pdf = make_pdf(folder, pages)
    with Reader(ECHO, limits=ReaderLimits(work_dir=folder / "work")) as reader:
        reader.start()
        meter = PeakMeter(reader)
        meter.start()
        # A few pages again and again, because a peak that is looked for by samples
        # is found the better the longer one looks.
        for _ in range(max(1, SHORT_READS // pages)):
            for index in range(reader.open(pdf, OPTIONS).page_count):
                reader.read_page(index)
            reader.close_source()
        meter.stop()
        status = Path(f"/proc/{reader.pid}/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / GB, meter.tree_gb


def main() -> None:
    """Measure and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="rapid")
    parser.add_argument("--pages", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--long", type=int, default=500)
    chosen = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain_s, daemon_s = compare_time(
            chosen.engine, pages=chosen.pages, rounds=chosen.rounds, folder=folder
        )
        table = Table("seconds per page", "plain loop", "daemon", "overhead", "target")
        overhead = f"{daemon_s / plain_s - 1:+.1%}"
        table.add_row(chosen.engine, f"{plain_s:.3f}", f"{daemon_s:.3f}", overhead, "under +5 %")
        console.print(table)
        short, long = peak_gb(SHORT_PAGES, folder), peak_gb(chosen.long, folder)
        table = Table("peak GB", f"{SHORT_PAGES} pages", f"{chosen.long} pages", "ratio", "target")
        for what, few, many in zip(("reader", "with renderers"), short, long, strict=True):
            table.add_row(what, f"{few:.3f}", f"{many:.3f}", f"{many / few:.2f}", "up to 1.20")
        console.print(table)


if __name__ == "__main__":
    main()
