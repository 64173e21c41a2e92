"""`scanmd once`: read files and folders now, without a daemon."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from daemon.errors import IntakeRefused, ScanmdError, SourceBusy
from daemon.intake import examine, walk
from daemon.job import Arrival, JobState
from daemon.ledger import Ledger
from daemon.logs import set_up
from daemon.output_files import shown
from daemon.purge import WorkDir
from daemon.service import chosen_engine, make_reader
from daemon.settings import Settings
from daemon.worker import Paused, Worker

Failure = tuple[bytes, str]


def read_now(
    paths: Iterable[Path],
    outbox: Path | None,
    load: Callable[[list[dict[str, Any]]], Settings],
) -> list[Failure]:
    """Read everything named, with a progress bar; what failed, and why.

    Args:
        paths: Files or folders.
        outbox: Where results go; None: beside each source.
        load: Makes settings for these inboxes.

    Raises:
        ScanmdError: Nothing can be read at all; says why.
    """
    failures: list[Failure] = []
    files: list[Path] = []
    folders: list[Path] = []
    for path in paths:
        absolute = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links
        if not absolute.exists():
            failures.append((os.fsencode(absolute), "There is no such file or folder."))
        else:
            (folders if absolute.is_dir() else files).append(absolute)
    beside = {} if outbox is None else {"outbox": str(outbox.absolute())}
    roots = dict.fromkeys([*folders, *(file.parent for file in files)])
    groups = [
        root for root in roots if not any(root != r and root.is_relative_to(r) for r in roots)
    ]
    if not groups:
        return failures
    settings = load([{"path": str(root), **beside} for root in groups])
    set_up(settings.log_format, "error")
    os.umask(settings.umask)
    arrivals = []
    for inbox in settings.inboxes:
        named = [os.fsencode(file) for file in files if file.is_relative_to(inbox.path)]
        for folder in folders:
            if folder.is_relative_to(inbox.path):
                named += walk(inbox, folder)
        for found in dict.fromkeys(named):
            try:
                arrivals.append(examine(found, inbox))
            except FileNotFoundError:
                continue
            except (IntakeRefused, SourceBusy) as error:
                failures.append((found, str(error)))
    return failures + _read(settings, arrivals)


def _read(settings: Settings, arrivals: list[Arrival]) -> list[Failure]:
    state = settings.state_dir
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    WorkDir(state / "work").purge(settings.work_max_age_days * 86400, time.time())
    choice = chosen_engine(settings)
    with ExitStack() as stack:
        # A ledger of its own: the daemon's may be in use, and outputs are recognised
        # by their first line anyway.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="once-", dir=state)))
        ledger = Ledger.open(folder / "ledger.sqlite3", max_attempts=1)
        stack.callback(ledger.close)
        reader = make_reader(settings, choice)
        stack.callback(reader.kill)
        worker = Worker(
            settings, ledger, reader, engine=choice.name, on_changed=lambda _inbox, _path: None
        )
        ledger.enqueue(arrivals)
        bar = stack.enter_context(
            Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}", markup=False),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
        )
        task = bar.add_task(f"{len(arrivals)} files", total=len(arrivals), rate="")
        done = threading.Event()
        stack.callback(done.set)

        def watch() -> None:
            started_s, pages, last = time.monotonic(), 0, None
            while not done.wait(0.2):
                current = worker.current
                if current is not None and current != last:
                    last, pages = current, pages + 1
                    name = shown(current.path.rsplit(b"/", 1)[-1])
                    rate = pages / max(time.monotonic() - started_s, 0.001)
                    text = f"{name} {current.page_number}/{current.page_count}"
                    bar.update(task, rate=f"{rate:.2f} pages/s", description=text)

        threading.Thread(target=watch, daemon=True).start()
        while (job := ledger.claim()) is not None:
            try:
                worker.run(job)
            except Paused as error:
                raise ScanmdError(str(error)) from error
            bar.advance(task)
        ended = [ledger.job(number) for number in range(1, len(arrivals) + 1)]
    return [
        (job.path, job.reason or "It could not be read.")
        for job in ended
        if job is not None and job.state is not JobState.DONE
    ]
