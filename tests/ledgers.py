"""What the tests of ledger, delivery and purge have in common."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from daemon.job import Arrival, Job, JobState, Signature
from daemon.ledger import Ledger
from daemon.settings import Inbox

READ_KEY = "rapid 200 dpi"


class Clock:
    """A clock that stands until told otherwise."""

    def __init__(self, now_s: float = 1_800_000_000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


def signature_of(path: Path) -> Signature:
    information = path.lstat()
    return Signature(
        information.st_dev,
        information.st_ino,
        information.st_size,
        information.st_mtime_ns,
        information.st_ctime_ns,
    )


def arrival(path: Path, inbox: str = "in") -> Arrival:
    return Arrival(inbox, os.fsencode(path), signature_of(path))


def made_up(path: bytes, *, inbox: str = "in", version: int = 1, device: int = 1) -> Arrival:
    """An arrival without a file; `version` stands for what it holds."""
    return Arrival(inbox, path, Signature(device, 7, 100, version, version))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def claimed(ledger: Ledger, source: Path, *, pages: int = 1) -> Job:
    """Queue a real file, claim it, and read its pages into the journal."""
    ledger.enqueue([arrival(source)])
    return started(ledger, source.read_bytes(), pages=pages)


def started(ledger: Ledger, content: bytes, *, pages: int = 1) -> Job:
    job = ledger.claim()
    assert job is not None
    fingerprint = sha256(content)
    assert ledger.set_fingerprint(job.id, fingerprint, READ_KEY, pages)
    done = ledger.journaled_pages(fingerprint, READ_KEY)
    read_pages(ledger, job, (index for index in range(pages) if index not in done))
    current = ledger.job(job.id)
    assert current is not None
    return current


def read_pages(ledger: Ledger, job: Job, indexes: Iterable[int]) -> None:
    for index in indexes:
        ledger.page_started(job.id, index)
        ledger.page_done(job.id, index, f'{{"page_index": {index}}}', 0.1)


def states(ledger: Ledger) -> dict[JobState, int]:
    return {state: jobs for state, jobs in ledger.counts().items() if jobs}


def inbox_at(path: Path, **rules: object) -> Inbox:
    path.mkdir(parents=True, exist_ok=True)
    return Inbox.model_validate({"path": path, **rules})
