"""The daemon's types: what arrives, what is queued, what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class JobState(StrEnum):
    """Where a job stands. The last four are final."""

    QUEUED = "queued"
    """Complete on disk, waiting its turn (or for its next attempt)."""
    READING = "reading"
    DONE = "done"
    PARTIAL = "partial"
    """Delivered with at least one marked gap."""
    FAILED = "failed"
    """Could not be read; the reason is kept, the original stays."""
    GONE = "gone"
    """The source vanished or changed before it was read."""


FINAL_STATES = frozenset({JobState.DONE, JobState.PARTIAL, JobState.FAILED, JobState.GONE})


@dataclass(frozen=True, slots=True)
class Signature:
    """What `stat` says of a file; any write, rename or copy changes it.

    ctime cannot be set by a copying program, so a preserved mtime hides nothing.
    """

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True, slots=True)
class Arrival:
    """A regular file seen inside an inbox. Paths are bytes: names need no encoding."""

    inbox: str
    """The inbox's configured path (`Inbox.key`)."""
    path: bytes
    """Absolute path of the file."""
    signature: Signature


@dataclass(frozen=True, slots=True)
class Job:
    """One document to read, as the ledger knows it. Times are seconds since 1970."""

    id: int
    inbox: str
    path: bytes
    signature: Signature
    state: JobState
    fingerprint: str | None
    """SHA-256 of the content, hex; None until the file was first copied."""
    attempts: int
    """Attempts at the whole document that ended in an error."""
    page_count: int | None
    pages_read: int
    created_s: float
    updated_s: float
    not_before_s: float
    output: bytes | None
    """Path of the delivered `.mmd`, or of the error note."""
    reason: str | None
    """For a person: what went wrong and what to do."""
    engine: str | None = None
    seconds: float | None = None
