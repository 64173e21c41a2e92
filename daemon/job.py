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
    forced: bool = False
    """Asked for by hand: read and deliver even what was delivered before."""
    lineage: int = 0
    """Grows when a file appears under a path whose last file was gone."""


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """What the ledger knows of one `.mmd` that was, or is about to be, written."""

    output: bytes
    """Absolute path of the `.mmd`."""
    source: bytes
    lineage: int
    fingerprint: str | None
    """SHA-256 of the source's content, hex."""
    sha256: str | None
    """SHA-256 of the `.mmd` as it was delivered, hex."""
    pending_sha256: str | None
    """The same for one whose delivery was begun and not yet confirmed."""
    extras: tuple[str, ...]
    """Files delivered with it, relative to its folder (surrogateescape)."""
    delivered_s: float | None

    @property
    def digests(self) -> frozenset[str]:
        """The SHA-256 sums that an output which nobody edited can have."""
        return frozenset(d for d in (self.sha256, self.pending_sha256) if d is not None)
