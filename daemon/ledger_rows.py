"""Rows of the ledger as the daemon's types, and back."""

from __future__ import annotations

import sqlite3

from daemon.job import Job, JobState, Signature


def find_source(connection: sqlite3.Connection, path: bytes) -> sqlite3.Row | None:
    """What is known of a path."""
    row: sqlite3.Row | None = connection.execute(
        "SELECT * FROM sources WHERE path = ?", (path,)
    ).fetchone()
    return row


def same_file(row: sqlite3.Row, signature: Signature) -> bool:
    """Whether it is the same file, unchanged.

    The device is left out: its number changes when a share is mounted again, and
    inode, size and both times together are not met twice under one path.
    """
    _, *mine = numbers_of(signature)
    return mine == [row["inode"], row["size"], row["mtime_ns"], row["ctime_ns"]]


def numbers_of(signature: Signature) -> tuple[int, int, int, int, int]:
    """A signature as the columns device, inode, size, mtime_ns, ctime_ns."""
    return (
        _signed(signature.device),
        _signed(signature.inode),
        signature.size,
        signature.mtime_ns,
        signature.ctime_ns,
    )


def _signed(number: int) -> int:
    """A 64-bit number as SQLite stores it; some file systems use the top bit."""
    return number - (1 << 64) if number >= 1 << 63 else number


def signature_of(row: sqlite3.Row) -> Signature:
    """The signature in a row of `sources` or `jobs`."""
    return Signature(
        device=row["device"] % (1 << 64),
        inode=row["inode"] % (1 << 64),
        size=row["size"],
        mtime_ns=row["mtime_ns"],
        ctime_ns=row["ctime_ns"],
    )


def job_of(row: sqlite3.Row) -> Job:
    """A row of `jobs`."""
    return Job(
        id=row["id"],
        inbox=row["inbox"],
        path=row["path"],
        signature=signature_of(row),
        state=JobState(row["state"]),
        fingerprint=row["fingerprint"],
        attempts=row["attempts"],
        page_count=row["page_count"],
        pages_read=row["pages_read"],
        created_s=row["created_s"],
        updated_s=row["updated_s"],
        not_before_s=row["not_before_s"],
        output=row["output"],
        reason=row["reason"],
        engine=row["engine"],
        seconds=row["seconds"],
        forced=bool(row["forced"]),
        lineage=row["lineage"],
    )
