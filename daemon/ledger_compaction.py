"""Forgetting: old jobs and pages go, what prevents a second reading stays."""

from __future__ import annotations

from daemon.ledger_database import Database

_BATCH = 500
_VACUUM_PAGES = 2000
"""Database pages (4 KiB) given back to the file system per step."""


class Compaction(Database):
    """What keeps the ledger from growing for ever."""

    def compact(self, older_than_s: float, *, journal_older_than_s: float | None = None) -> int:
        """Drop what is older than an age; how many jobs were dropped.

        Of each path that still exists, its signature and its output stay known
        for ever: a source is not read again because its job is forgotten. Failed
        jobs go too; their sources count as dealt with until they change.

        Args:
            older_than_s: Age in seconds of ended jobs, and of sources that are gone.
            journal_older_than_s: Age in seconds since pages were last of use (the
                largest part of the ledger); None: the same.
        """
        now_s = self._clock()
        cutoff_s = now_s - older_than_s
        if journal_older_than_s is None:
            journal_older_than_s = older_than_s
        dropped = self._in_batches(
            "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs INDEXED BY jobs_finished WHERE "
            "state IN ('done', 'partial', 'failed', 'gone') AND updated_s < ? LIMIT ?)",
            cutoff_s,
        )
        self._drop_readings(now_s - journal_older_than_s)
        self._drop_gone_sources(cutoff_s)
        self._give_back_space()
        return dropped

    def _in_batches(self, statement: str, cutoff_s: float) -> int:
        total = 0
        while True:
            # No flush anywhere in here: forgetting may happen twice.
            with self._writing(durable=False) as connection:
                count = connection.execute(statement, (cutoff_s, _BATCH)).rowcount
            total += count
            if count < _BATCH:
                return total

    def _drop_readings(self, cutoff_s: float) -> None:
        while True:
            with self._writing(durable=False) as connection:
                ids = connection.execute(
                    "SELECT id FROM readings INDEXED BY readings_used WHERE used_s < ? AND "
                    "NOT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_reading "
                    "WHERE state = 'reading' AND reading_id = readings.id) LIMIT ?",
                    (cutoff_s, _BATCH),
                ).fetchall()
                for (reading_id,) in ids:
                    for table in ("pages", "assets", "crashes"):
                        connection.execute(
                            f"DELETE FROM {table} WHERE reading_id = ?",  # noqa: S608 - names above
                            (reading_id,),
                        )
                    connection.execute("DELETE FROM readings WHERE id = ?", (reading_id,))
            if len(ids) < _BATCH:
                return

    def _drop_gone_sources(self, cutoff_s: float) -> None:
        while True:
            with self._writing(durable=False) as connection:
                paths = connection.execute(
                    "SELECT path FROM sources INDEXED BY sources_gone WHERE gone_s IS NOT NULL "
                    "AND gone_s < ? LIMIT ?",
                    (cutoff_s, _BATCH),
                ).fetchall()
                for (path,) in paths:
                    connection.execute("DELETE FROM outputs WHERE source = ?", (path,))
                    connection.execute("DELETE FROM sources WHERE path = ?", (path,))
            if len(paths) < _BATCH:
                return

    def _give_back_space(self) -> None:
        while True:
            with self._reading() as connection:
                free = connection.execute("PRAGMA freelist_count").fetchone()[0]
                if free < _VACUUM_PAGES:
                    return
                connection.execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})").fetchall()
                left = connection.execute("PRAGMA freelist_count").fetchone()[0]
                if left >= free:
                    return
