"""The ledger: every document's way from arrival to delivery, safe against any sudden end.

It remembers fingerprints, not only paths: a source that changes is queued
again, and the same content is read once whatever it is called.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from pathlib import Path
from typing import Self

from daemon.faults import reached
from daemon.job import FINAL_STATES, Arrival, Job, JobState
from daemon.ledger_compaction import Compaction
from daemon.ledger_database import open_read_only, open_writable
from daemon.ledger_journal import PageJournal, blame_page_in_flight, forget_bad_pages
from daemon.ledger_outputs import OutputRecords, confirm_output
from daemon.ledger_rows import find_source, numbers_of, same_file
from daemon.ledger_views import Views

_BATCH = 500
"""Rows per transaction or query: the lock is held for milliseconds, memory stays flat."""
_CLOCK_TOLERANCE_S = 60.0
"""A job touched this far in the future means that the clock was set back since."""
_ANY_DUE = """SELECT 1 FROM jobs INDEXED BY jobs_delayed WHERE state = 'queued'
    AND not_before_s > 0 AND (not_before_s <= :now OR updated_s > :now + :tolerance) LIMIT 1"""
_RELEASE_DUE = """UPDATE jobs SET not_before_s = 0 WHERE state = 'queued'
    AND not_before_s > 0 AND (not_before_s <= :now OR updated_s > :now + :tolerance)"""


class Ledger(Views, PageJournal, OutputRecords, Compaction):
    """The queue, the page journal and the outputs, in one SQLite file.

    Every method may raise LedgerDamaged, LedgerBusy, StateUnusable or NoSpace.
    """

    max_attempts = 3

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        clock: Callable[[], float] = time.time,
        max_attempts: int = 3,
        read_only: bool = False,
    ) -> Self:
        """The ledger at `path`.

        Args:
            path: The SQLite file; its folder is made if missing, private (0700).
            clock: Seconds since 1970.
            max_attempts: Attempts at one document before `retry_later` refuses.
            read_only: Look only, while the daemon may be running; nothing is made.

        Raises:
            LedgerDamaged, LedgerTooNew, LedgerBusy, StateUnusable, NoSpace: See there.
        """
        connection = open_read_only(path) if read_only else open_writable(path)
        ledger = cls(connection, path, clock)
        ledger.max_attempts = max_attempts
        return ledger

    # What arrives

    def enqueue(self, arrivals: Iterable[Arrival]) -> int:
        """Queue what is new or has changed; how many were.

        A job still waiting takes the new signature; one being read is followed by
        another for the new content.
        """
        added = 0
        pending = iter(arrivals)
        while batch := list(islice(pending, _BATCH)):
            # No flush: what a power cut undoes, the scan at the next start finds again.
            with self._writing(durable=False) as connection:
                added += sum(_enqueue(connection, arrival, self._clock()) for arrival in batch)
        return added

    def mark_gone(self, path: bytes) -> bool:
        """Note that the source is not in its folder any more; whether it was known.

        A file that appears under this path later is a new document: it never
        replaces the old one's output.
        """
        now_s = self._clock()
        with self._writing(durable=False) as connection:
            known = connection.execute(
                "UPDATE sources SET gone_s = ? WHERE path = ? AND gone_s IS NULL", (now_s, path)
            ).rowcount
            connection.execute(
                "UPDATE jobs SET state = 'gone', updated_s = ?, waits_for = NULL, "
                "reason = 'The file was taken away before it was read.' WHERE state = 'queued' "
                "AND id = (SELECT job_id FROM sources WHERE path = ?)",
                (now_s, path),
            )
        return known > 0

    # What is worked on

    def claim(self, *, skip: Collection[str] = ()) -> Job | None:
        """The next job, now READING; None if nothing may start.

        Inboxes take turns; within one the oldest job comes first.

        Args:
            skip: Inboxes that are paused.
        """
        now_s = self._clock()
        with self._reading() as connection:
            self._release_delayed(now_s)
            found = _next_ready(connection, skip)
            if found is None:
                return None
            # A claim undone by a power cut leaves the job queued, so no flush.
            with self._writing(durable=False):
                connection.execute(
                    "UPDATE jobs SET state = 'reading', updated_s = ?, page_in_flight = NULL, "
                    "reason = NULL WHERE id = ?",
                    (now_s, found["id"]),
                )
                connection.execute(
                    "UPDATE inboxes SET served = (SELECT MAX(served) + 1 FROM inboxes) "
                    "WHERE inbox = ?",
                    (found["inbox"],),
                )
            return self.job(found["id"])

    def recover(self) -> list[Job]:
        """Queue again what was being read when the daemon ended; call once, at start.

        The page that was in flight is blamed for a crash. Journaled pages stay read.
        """
        with self._writing(durable=True) as connection:
            ids = [
                row["id"]
                for row in connection.execute("SELECT id FROM jobs WHERE state = 'reading'")
            ]
            for job_id in ids:
                blame_page_in_flight(connection, job_id)
                self._requeue(connection, job_id)
            connection.execute("UPDATE jobs SET waits_for = NULL WHERE waits_for IS NOT NULL")
        return [job for job_id in ids if (job := self.job(job_id)) is not None]

    def retry_later(
        self, job_id: int, delay_s: float, reason: str | None, *, count_attempt: bool = True
    ) -> bool:
        """Queue a job again after a trouble that may pass.

        Args:
            job_id: A job from `claim`.
            delay_s: Not before this many seconds from now; 0: at once.
            reason: What went wrong, for a person.
            count_attempt: False for what the document is not to blame for (disk
                full, engine missing, shutdown); the page in flight is then excused too.

        Returns:
            False if its attempts are used up. It is then still READING: `finish` it.
        """
        with self._writing(durable=False) as connection:
            if count_attempt:
                blame_page_in_flight(connection, job_id)
                attempts = connection.execute(
                    "UPDATE jobs SET attempts = attempts + 1 WHERE id = ? RETURNING attempts",
                    (job_id,),
                ).fetchone()[0]
                if attempts >= self.max_attempts:
                    return False
            not_before_s = self._clock() + delay_s if delay_s > 0 else 0.0
            self._requeue(connection, job_id, not_before_s=not_before_s, reason=reason)
        return True

    def finish(
        self,
        job_id: int,
        state: JobState,
        *,
        output: bytes | None = None,
        reason: str | None = None,
        engine: str | None = None,
        dispose: bool = False,
    ) -> None:
        """End a job. On the disk when this returns, so the source may be disposed of.

        Args:
            job_id: The job.
            state: One of the final states. GONE makes its signature unknown again,
                so that the same file counts as new when it is seen again.
            output: Path of the `.mmd`, or of the error note for FAILED.
            reason: For a person, for PARTIAL, FAILED and GONE.
            engine: What read it.
            dispose: The source is to be archived or deleted now; `to_dispose` lists
                it until `disposed` is called, over any crash.
        """
        if state not in FINAL_STATES:
            raise ValueError(f"{state} does not end a job")
        now_s = self._clock()
        with self._writing(durable=True) as connection:
            connection.execute(
                "UPDATE jobs SET state = ?, output = ?, reason = ?, engine = COALESCE(?, engine), "
                "updated_s = ?, page_in_flight = NULL, "
                "waits_for = NULL, forced = 0, dispose = ? WHERE id = ?",
                (state, output, reason, engine, now_s, dispose, job_id),
            )
            if output is not None and state in {JobState.DONE, JobState.PARTIAL}:
                confirm_output(connection, job_id, output, now_s=now_s)
            if state is JobState.GONE:
                connection.execute(
                    "UPDATE sources SET size = -1 WHERE job_id = ?1 "
                    "AND path = (SELECT path FROM jobs WHERE id = ?1)",
                    (job_id,),
                )
            _release_waiting(connection, job_id)
            reached("before-ledger-commit")

    def disposed(self, job_id: int) -> None:
        """Note that nothing is left to do about a job's source."""
        with self._writing(durable=False) as connection:
            connection.execute("UPDATE jobs SET dispose = 0 WHERE id = ?", (job_id,))

    def retry(self, ids: Iterable[int] | None = None) -> int:
        """Queue ended jobs afresh; how many were.

        Their good pages stay journaled; gaps are read again. Jobs that a newer one
        for the same path has replaced are left alone.

        Args:
            ids: The jobs; None for all that failed.
        """
        with self._writing(durable=True) as connection:
            if ids is None:
                ids = [
                    row["id"]
                    for row in connection.execute("SELECT id FROM jobs WHERE state = 'failed'")
                ]
            return sum(self._retry(connection, job_id) for job_id in ids)

    # Helpers

    def _release_delayed(self, now_s: float) -> None:
        """Let jobs start whose delay is over, or was made meaningless by the clock."""
        values = {"now": now_s, "tolerance": _CLOCK_TOLERANCE_S}
        with self._reading() as connection:
            due = connection.execute(_ANY_DUE, values).fetchone()
            if due is not None:
                with self._writing(durable=False):
                    connection.execute(_RELEASE_DUE, values)

    def _requeue(
        self,
        connection: sqlite3.Connection,
        job_id: int,
        *,
        not_before_s: float = 0.0,
        reason: str | None = None,
    ) -> None:
        connection.execute(
            "UPDATE jobs SET state = 'queued', page_in_flight = NULL, waits_for = NULL, "
            "not_before_s = ?, reason = ?, updated_s = ? WHERE id = ?",
            (not_before_s, reason, self._clock(), job_id),
        )
        _release_waiting(connection, job_id)

    def _retry(self, connection: sqlite3.Connection, job_id: int) -> bool:
        row = connection.execute(
            "SELECT jobs.* FROM jobs JOIN sources ON sources.path = jobs.path "
            "AND sources.job_id = jobs.id WHERE jobs.id = ? AND state NOT IN ('queued', 'reading')",
            (job_id,),
        ).fetchone()
        if row is None:
            return False
        if row["reading_id"] is not None:
            forget_bad_pages(connection, row["reading_id"])
        connection.execute(
            "UPDATE jobs SET attempts = 0, forced = 1, dispose = 0, seconds = NULL WHERE id = ?",
            (job_id,),
        )
        self._requeue(connection, job_id)
        return True


def _enqueue(connection: sqlite3.Connection, arrival: Arrival, now_s: float) -> bool:
    source = find_source(connection, arrival.path)
    returned = source is not None and source["gone_s"] is not None
    if source is not None and not returned and same_file(source, arrival.signature):
        return False
    latest = None
    if source is not None:
        latest = connection.execute(
            "SELECT id, state FROM jobs WHERE id = ?", (source["job_id"],)
        ).fetchone()
    lineage = 0 if source is None else source["lineage"] + returned
    file = (*numbers_of(arrival.signature), lineage)
    if latest is not None and latest["state"] == JobState.QUEUED:
        job_id = latest["id"]
        connection.execute(
            "UPDATE jobs SET device = ?, inode = ?, size = ?, mtime_ns = ?, ctime_ns = ?, "
            "lineage = ?, updated_s = ?, fingerprint = NULL, reading_id = NULL, "
            "page_count = NULL, pages_read = 0, attempts = 0, not_before_s = 0, seconds = NULL "
            "WHERE id = ?",
            (*file, now_s, job_id),
        )
    else:
        job_id = _insert_job(connection, arrival, lineage, now_s)
        if latest is not None:
            _supersede(connection, latest, job_id, now_s)
    connection.execute(
        "INSERT INTO sources (path, device, inode, size, mtime_ns, ctime_ns, lineage, job_id) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET device = excluded.device, "
        "inode = excluded.inode, size = excluded.size, mtime_ns = excluded.mtime_ns, "
        "ctime_ns = excluded.ctime_ns, lineage = excluded.lineage, job_id = excluded.job_id, "
        "gone_s = NULL",
        (arrival.path, *file, job_id),
    )
    return True


def _insert_job(
    connection: sqlite3.Connection, arrival: Arrival, lineage: int, now_s: float
) -> int:
    connection.execute("INSERT OR IGNORE INTO inboxes (inbox) VALUES (?)", (arrival.inbox,))
    job_id: int = connection.execute(
        "INSERT INTO jobs (inbox, path, device, inode, size, mtime_ns, ctime_ns, lineage, "
        "created_s, updated_s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        (
            arrival.inbox,
            arrival.path,
            *numbers_of(arrival.signature),
            lineage,
            now_s,
            now_s,
        ),
    ).fetchone()[0]
    return job_id


def _supersede(
    connection: sqlite3.Connection, latest: sqlite3.Row, job_id: int, now_s: float
) -> None:
    """Settle what becomes of a path's last job now that a newer one follows it."""
    if latest["state"] == JobState.READING:
        # Delivered in order: the newer content must be the last to be written.
        connection.execute("UPDATE jobs SET waits_for = ? WHERE id = ?", (latest["id"], job_id))
    elif latest["state"] == JobState.FAILED:
        connection.execute(
            "UPDATE jobs SET state = 'gone', updated_s = ?, "
            "reason = 'Replaced by a newer version of the file.' WHERE id = ?",
            (now_s, latest["id"]),
        )


def _next_ready(connection: sqlite3.Connection, skip: Collection[str]) -> sqlite3.Row | None:
    inboxes = connection.execute("SELECT inbox FROM inboxes ORDER BY served, inbox").fetchall()
    for (inbox,) in inboxes:
        if inbox in skip:
            continue
        row: sqlite3.Row | None = connection.execute(
            "SELECT id, inbox FROM jobs INDEXED BY jobs_ready WHERE state = 'queued' "
            "AND not_before_s = 0 AND waits_for IS NULL AND inbox = ? ORDER BY id LIMIT 1",
            (inbox,),
        ).fetchone()
        if row is not None:
            return row
    return None


def _release_waiting(connection: sqlite3.Connection, job_id: int) -> None:
    connection.execute("UPDATE jobs SET waits_for = NULL WHERE waits_for = ?", (job_id,))
