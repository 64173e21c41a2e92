"""The daemon's own figures: `python -m tests.benchmarks.daemon [--files 50000] [--jobs 1000000]`.

Prints resident memory and CPU of the idle daemon with many files in the inbox, the time
from a file's last byte to the start of its reading, how long 10,000 files take to be
queued, and how long a start takes with a ledger full of finished jobs. The engine is
an echo: these are the daemon's figures, not a model's.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from daemon.ledger import Ledger
from tests import samples

_QUIET_S = 3.0
_IDLE_S = 30.0


@contextmanager
def _daemon(folder: Path, log: Path, *, once: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "daemon", "run", "--inbox", str(folder / "inbox"),
               "--engine", "tests.engines:EchoEngine", "--log-format", "json"]  # fmt: skip
    environ = {
        **os.environ,
        "SCANMD_STATE_DIR": str(folder / "state"),
        "SCANMD_CACHE_DIR": str(folder / "cache"),
        "SCANMD_SETTLE_SHORT_S": str(_QUIET_S),
        "SCANMD_MIN_FREE_GB": "0",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            command + ["--once"] * once, env=environ, stdout=output, stderr=output
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def _events(log: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]


def _wait_for(log: Path, event: str, limit_s: float = 120) -> float:
    started_s = time.monotonic()
    while time.monotonic() - started_s < limit_s:
        if any(found["event"] == event for found in _events(log)):
            return time.monotonic() - started_s
        time.sleep(0.01)
    raise TimeoutError(f"no event '{event}' in {limit_s} s")


def _queued(folder: Path) -> int:
    ledger = Ledger.open(folder / "state" / "ledger.sqlite3", read_only=True)
    try:
        return sum(ledger.counts().values())
    finally:
        ledger.close()


def _rss_mb(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) * 1024 / 1e6


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _drop(inbox: Path, one: bytes, count: int) -> None:
    for number in range(count):
        (inbox / f"{number:06}.pdf").write_bytes(one + b"\n%% %d\n%%%%EOF\n" % number)


def _idle(folder: Path, files: int) -> None:
    """Memory and CPU with files that the ledger knows already."""
    _finish_jobs(folder, files, real=True)
    log = folder / "idle.log"
    with _daemon(folder, log) as process:
        _wait_for(log, "ready")
        time.sleep(20)
        before_s = _cpu_s(process.pid)
        time.sleep(_IDLE_S)
        share = (_cpu_s(process.pid) - before_s) / _IDLE_S
        print(f"idle, {files} files: {_rss_mb(process.pid):.0f} MB resident, {share:.2%} CPU")


def _finish_jobs(folder: Path, count: int, *, real: bool) -> None:
    """Fill a ledger with finished jobs, for the inbox's files or for files long gone."""
    path = folder / "state" / "ledger.sqlite3"
    Ledger.open(path).close()
    inbox = folder / "inbox"

    def rows() -> Iterator[tuple[object, ...]]:
        for number in range(count):
            file = inbox / f"{number:06}.pdf"
            stat = (
                file.stat() if real else os.stat_result((0o100644, number, 1, 1, 0, 0, 9, 0, 0, 0))
            )
            yield (number + 1, str(inbox), os.fsencode(file), stat.st_dev, stat.st_ino,
                   stat.st_size, stat.st_mtime_ns or 0, stat.st_ctime_ns or 0)  # fmt: skip

    connection = sqlite3.connect(path)
    with connection:
        connection.execute("INSERT OR IGNORE INTO inboxes (inbox) VALUES (?)", (str(inbox),))
        connection.executemany(
            "INSERT INTO jobs (id, inbox, path, device, inode, size, mtime_ns, ctime_ns, lineage, "
            "state, created_s, updated_s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 'done', 1, 1)",
            rows(),
        )
        connection.execute(
            "INSERT INTO sources (path, device, inode, size, mtime_ns, ctime_ns, lineage, job_id) "
            "SELECT path, device, inode, size, mtime_ns, ctime_ns, lineage, id FROM jobs"
        )
    connection.close()


def _latency(folder: Path, one: bytes) -> None:
    log = folder / "latency.log"
    with _daemon(folder, log):
        _wait_for(log, "ready")
        time.sleep(1)
        (folder / "inbox" / "fresh.pdf").write_bytes(one + b"\n% fresh\n%%EOF\n")
        written_s = time.monotonic()
        _wait_for(log, "reading")
        print(f"last byte to reading: {_QUIET_S} s quiet + "
              f"{time.monotonic() - written_s - _QUIET_S:.2f} s")  # fmt: skip


def _flood(folder: Path, one: bytes, count: int = 10_000) -> None:
    log = folder / "flood.log"
    with _daemon(folder, log) as process:
        _wait_for(log, "ready")
        before_mb = _rss_mb(process.pid)
        _drop(folder / "inbox", one, count)
        dropped_s = time.monotonic()
        while _queued(folder) < count and time.monotonic() - dropped_s < 300:
            time.sleep(0.2)
        print(f"{count} files at once: {_queued(folder)} queued after "
              f"{time.monotonic() - dropped_s:.1f} s, {before_mb:.0f} → "
              f"{_rss_mb(process.pid):.0f} MB")  # fmt: skip


def _start(folder: Path, jobs: int) -> None:
    _finish_jobs(folder, jobs, real=False)
    log = folder / "start.log"
    started_s = time.monotonic()
    with _daemon(folder, log):
        _wait_for(log, "ready")
        print(f"start with {jobs} finished jobs: ready after {time.monotonic() - started_s:.2f} s")


def main() -> None:
    """Run every measurement, each in a folder of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    arguments = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="scanmd-benchmark-"))
    try:
        samples.write_pdf(root / "one.pdf", [samples.page_image("One page.", dpi=50)])
        one = (root / "one.pdf").read_bytes()
        folders = [root / name for name in ("latency", "flood", "idle", "start")]
        for folder in folders:
            (folder / "inbox").mkdir(parents=True)
        _latency(folders[0], one)
        _flood(folders[1], one)
        _drop(folders[2] / "inbox", one, arguments.files)
        _idle(folders[2], arguments.files)
        _start(folders[3], arguments.jobs)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
