"""What may be asked of the ledger, by the watcher and by `scanmd status`."""

from __future__ import annotations

from collections.abc import Iterator

from daemon.job import Job, JobState, Signature
from daemon.ledger_database import Database
from daemon.ledger_rows import find_source, job_of, same_file, signature_of

_BATCH = 500
"""Rows per query, so that memory stays flat however many there are."""


class Views(Database):
    """Questions that change nothing, and the notes that `scanmd status` shows."""

    def known(self, path: bytes, signature: Signature) -> bool:
        """Whether this very file is queued or was dealt with already."""
        with self._reading() as connection:
            source = find_source(connection, path)
            return source is not None and source["gone_s"] is None and same_file(source, signature)

    def known_signatures(self) -> Iterator[tuple[bytes, Signature]]:
        """Every path that is queued or was dealt with, in byte order, memory flat."""
        last = b""
        while True:
            with self._reading() as connection:
                rows = connection.execute(
                    "SELECT * FROM sources WHERE path > ? ORDER BY path LIMIT ?", (last, _BATCH)
                ).fetchall()
            yield from (
                (row["path"], signature_of(row))
                for row in rows
                if row["gone_s"] is None and row["size"] >= 0
            )
            if len(rows) < _BATCH:
                return
            last = rows[-1]["path"]

    def job(self, job_id: int) -> Job | None:
        """The job with this number."""
        with self._reading() as connection:
            row = connection.execute("SELECT * FROM jobs WHERE id = ?", (job_id,)).fetchone()
        return None if row is None else job_of(row)

    def counts(self) -> dict[JobState, int]:
        """How many jobs stand where; every state is there."""
        totals = dict.fromkeys(JobState, 0)
        for states in self.counts_by_inbox().values():
            for state, jobs in states.items():
                totals[state] += jobs
        return totals

    def counts_by_inbox(self) -> dict[str, dict[JobState, int]]:
        """The same for each inbox that ever had a job; states without jobs left out."""
        found: dict[str, dict[JobState, int]] = {}
        with self._reading() as connection:
            for row in connection.execute("SELECT * FROM counters WHERE jobs > 0"):
                found.setdefault(row["inbox"], {})[JobState(row["state"])] = row["jobs"]
        return found

    def reading(self) -> list[Job]:
        """The jobs that are being read just now."""
        return self._jobs("SELECT * FROM jobs INDEXED BY jobs_reading WHERE state = 'reading'")

    def recent(self, n: int) -> list[Job]:
        """The `n` jobs that ended last, newest first."""
        return self._jobs(
            "SELECT * FROM jobs INDEXED BY jobs_finished WHERE state IN "
            "('done', 'partial', 'failed', 'gone') ORDER BY updated_s DESC, id DESC LIMIT ?",
            n,
        )

    def failures(self, n: int) -> list[Job]:
        """The `n` jobs that failed last and nobody retried, newest first."""
        return self._jobs(
            "SELECT * FROM jobs INDEXED BY jobs_failed WHERE state = 'failed' "
            "ORDER BY updated_s DESC, id DESC LIMIT ?",
            n,
        )

    def set_note(self, key: str, value: str) -> None:
        """Keep a piece of live status (JSON) for `scanmd status`; not flushed to the disk."""
        with self._writing(durable=False) as connection:
            connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (key, value))

    def note(self, key: str) -> str | None:
        """The last value of `set_note`."""
        with self._reading() as connection:
            row = connection.execute("SELECT value FROM notes WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def next_retry_s(self) -> float | None:
        """When the next delayed job may start, seconds since 1970; None: there is none."""
        with self._reading() as connection:
            row = connection.execute(
                "SELECT MIN(not_before_s) FROM jobs INDEXED BY jobs_delayed "
                "WHERE state = 'queued' AND not_before_s > 0"
            ).fetchone()
            due_s: float | None = row[0]
            return due_s

    def to_dispose(self) -> list[Job]:
        """Delivered jobs whose sources are still to be archived or deleted."""
        return self._jobs("SELECT * FROM jobs INDEXED BY jobs_dispose WHERE dispose ORDER BY id")

    def _jobs(self, query: str, *values: object) -> list[Job]:
        with self._reading() as connection:
            return [job_of(row) for row in connection.execute(query, values)]
