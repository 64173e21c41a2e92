"""The page journal: what was read of each content, so that nothing is read twice."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from daemon.errors import LedgerDamaged
from daemon.faults import reached
from daemon.ledger_database import Database, damaged

_ZLIB_LEVEL = 3
"""Page JSON shrinks several times over; higher levels gain little and cost more."""
_SYNC_AFTER_S = 0.5
"""A power cut may cost this much reading, so that quick text-layer pages need no flush each."""


class PageJournal(Database):
    """Pages keyed by (fingerprint, read_key, page_index)."""

    _unsynced_s = 0.0

    def set_fingerprint(
        self, job_id: int, fingerprint: str, read_key: str, page_count: int | None = None
    ) -> bool:
        """Say what content a claimed job holds; again once its pages are counted.

        Args:
            job_id: A job from `claim`.
            fingerprint: SHA-256 of the content, hex.
            read_key: Digest of the engine and the reading options.
            page_count: Pages of the document, None while unknown.

        Returns:
            False if another job is reading the same content just now. This one is
            queued again and becomes claimable when the other has ended; its pages
            then come from the journal.
        """
        now_s = self._clock()
        # A lost link is made anew from the content, so no flush.
        with self._writing(durable=False) as connection:
            connection.execute(
                "INSERT INTO readings (fingerprint, read_key, page_count, used_s) "
                "VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET used_s = excluded.used_s, "
                "page_count = COALESCE(excluded.page_count, page_count)",
                (fingerprint, read_key, page_count, now_s),
            )
            reading_id = _reading_id(connection, fingerprint, read_key)
            twin = connection.execute(
                "SELECT id FROM jobs INDEXED BY jobs_reading "
                "WHERE state = 'reading' AND reading_id = ? AND id <> ? LIMIT 1",
                (reading_id, job_id),
            ).fetchone()
            values = {
                "job": job_id,
                "reading": reading_id,
                "fingerprint": fingerprint,
                "twin": twin and twin[0],
                "state": "reading" if twin is None else "queued",
                "now": now_s,
            }
            connection.execute(
                """UPDATE jobs SET
                    state = :state, waits_for = :twin, updated_s = :now,
                    fingerprint = :fingerprint, reading_id = :reading,
                    page_count = (SELECT page_count FROM readings WHERE id = :reading),
                    pages_read = (SELECT COUNT(*) FROM pages WHERE reading_id = :reading)
                WHERE id = :job""",
                values,
            )
        return twin is None

    def page_started(self, job_id: int, page_index: int) -> int:
        """Note that a page is about to be read; how often it brought its reader down so far.

        Starting a page that this job had started and neither finished nor stopped
        counts as a crash, whoever died.
        """
        # Must outlive this process, not a power cut: that would excuse one crash.
        with self._writing(durable=False) as connection:
            reading_id, in_flight = _job_reading(connection, job_id)
            if in_flight == page_index:
                _count_crash(connection, reading_id, page_index)
            connection.execute(
                "UPDATE jobs SET page_in_flight = ? WHERE id = ?", (page_index, job_id)
            )
            return _crashes(connection, reading_id, page_index)

    def page_crashed(self, job_id: int, page_index: int) -> int:
        """Count a dead, hung or overgrown reader against the page it held; the new count."""
        with self._writing(durable=True) as connection:
            reading_id, _ = _job_reading(connection, job_id)
            _count_crash(connection, reading_id, page_index)
            connection.execute("UPDATE jobs SET page_in_flight = NULL WHERE id = ?", (job_id,))
            return _crashes(connection, reading_id, page_index)

    def page_stopped(self, job_id: int) -> None:
        """Note that the page in flight was given up without being to blame (shutdown)."""
        with self._writing(durable=False) as connection:
            connection.execute("UPDATE jobs SET page_in_flight = NULL WHERE id = ?", (job_id,))

    def page_done(
        self,
        job_id: int,
        page_index: int,
        page_json: str,
        seconds: float,
        *,
        good: bool = True,
        assets: Sequence[Path] = (),
    ) -> None:
        """Journal one page. When this returns, a killed process will not read it again.

        Args:
            job_id: The job whose page it is.
            page_index: From 0.
            page_json: The page as JSON.
            seconds: What its reading took.
            good: False for a page that is a gap (failed, damaged, truncated):
                `retry` reads it again.
            assets: Figures cropped from it, journaled with it.
        """
        # Flushed as soon as the loss would be felt; a delivery flushes the rest.
        self._unsynced_s += seconds
        durable = self._unsynced_s >= _SYNC_AFTER_S
        blob = zlib.compress(page_json.encode("utf-8", "surrogatepass"), _ZLIB_LEVEL)
        figures = [(asset.name, asset.read_bytes()) for asset in assets]
        with self._writing(durable=durable) as connection:
            reading_id, _ = _job_reading(connection, job_id)
            key = (reading_id, page_index)
            known = connection.execute(
                "SELECT 1 FROM pages WHERE reading_id = ? AND page_index = ?", key
            ).fetchone()
            connection.execute(
                "INSERT OR REPLACE INTO pages (reading_id, page_index, good, seconds, page) "
                "VALUES (?, ?, ?, ?, ?)",
                (*key, good, seconds, blob),
            )
            connection.execute("DELETE FROM assets WHERE reading_id = ? AND page_index = ?", key)
            connection.executemany(
                "INSERT INTO assets VALUES (?, ?, ?, ?)", [(*key, *figure) for figure in figures]
            )
            connection.execute(
                "UPDATE jobs SET page_in_flight = NULL, pages_read = pages_read + ?, "
                "seconds = COALESCE(seconds, 0) + ?, updated_s = ? WHERE id = ?",
                (known is None, seconds, self._clock(), job_id),
            )
            connection.execute(
                "UPDATE readings SET used_s = ? WHERE id = ?", (self._clock(), reading_id)
            )
        if durable:
            self._unsynced_s = 0.0
        reached("after-page-commit")

    def journaled_pages(self, fingerprint: str, read_key: str) -> set[int]:
        """The `page_index` of every page that need not be read again."""
        with self._reading() as connection:
            reading_id = _reading_id(connection, fingerprint, read_key)
            rows = connection.execute(
                "SELECT page_index FROM pages WHERE reading_id = ?", (reading_id,)
            )
            return {row[0] for row in rows}

    def bad_pages(self, fingerprint: str, read_key: str) -> list[int]:
        """The `page_index` of every journaled page that is a gap, in order."""
        with self._reading() as connection:
            reading_id = _reading_id(connection, fingerprint, read_key)
            rows = connection.execute(
                "SELECT page_index FROM pages WHERE reading_id = ? AND NOT good ORDER BY 1",
                (reading_id,),
            )
            return [row[0] for row in rows]

    def complete_page_count(self, fingerprint: str, read_key: str) -> int | None:
        """How many pages this content has, if every one is journaled; else None."""
        with self._reading() as connection:
            row = connection.execute(
                "SELECT page_count, (SELECT COUNT(*) FROM pages WHERE reading_id = readings.id "
                "AND page_index < page_count) "
                "FROM readings WHERE fingerprint = ? AND read_key = ?",
                (fingerprint, read_key),
            ).fetchone()
        return row[0] if row is not None and row[0] == row[1] else None

    def page_json(self, fingerprint: str, read_key: str) -> Iterator[str]:
        """The journaled pages as JSON, in page order, one in memory at a time."""
        with self._reading() as connection:
            reading_id = _reading_id(connection, fingerprint, read_key)
        page_index = -1
        while True:
            with self._reading() as connection:
                row = connection.execute(
                    "SELECT page_index, page FROM pages "
                    "WHERE reading_id = ? AND page_index > ? ORDER BY page_index LIMIT 1",
                    (reading_id, page_index),
                ).fetchone()
            if row is None:
                return
            page_index = row[0]
            try:
                yield zlib.decompress(row[1]).decode("utf-8", "surrogatepass")
            except (zlib.error, UnicodeDecodeError) as error:
                what = f"page {page_index} of reading {reading_id}: {error}"
                raise LedgerDamaged(damaged(self._path, what)) from error

    def restore_assets(self, fingerprint: str, read_key: str, folder: Path) -> int:
        """Write the journaled figures into a work folder; how many there were."""
        with self._reading() as connection:
            reading_id = _reading_id(connection, fingerprint, read_key)
            keys = connection.execute(
                "SELECT rowid, name FROM assets WHERE reading_id = ?", (reading_id,)
            ).fetchall()
        for rowid, name in keys:
            with self._reading() as connection:
                content = connection.execute(
                    "SELECT content FROM assets WHERE rowid = ?", (rowid,)
                ).fetchone()[0]
            (folder / Path(name).name).write_bytes(content)
        return len(keys)


def forget_bad_pages(connection: sqlite3.Connection, reading_id: int) -> None:
    """Drop the gaps of a reading, and what its pages were blamed for."""
    connection.execute(
        "DELETE FROM assets WHERE reading_id = ? AND page_index IN "
        "(SELECT page_index FROM pages WHERE reading_id = ? AND NOT good)",
        (reading_id, reading_id),
    )
    connection.execute("DELETE FROM pages WHERE reading_id = ? AND NOT good", (reading_id,))
    connection.execute("DELETE FROM crashes WHERE reading_id = ?", (reading_id,))


def blame_page_in_flight(connection: sqlite3.Connection, job_id: int) -> None:
    """Count a crash against the page that a job held, if it held one."""
    connection.execute(
        """INSERT INTO crashes (reading_id, page_index, crashes)
            SELECT reading_id, page_in_flight, 1 FROM jobs
            WHERE id = ? AND page_in_flight IS NOT NULL AND reading_id IS NOT NULL
            ON CONFLICT DO UPDATE SET crashes = crashes + 1""",
        (job_id,),
    )
    connection.execute("UPDATE jobs SET page_in_flight = NULL WHERE id = ?", (job_id,))


def _reading_id(connection: sqlite3.Connection, fingerprint: str, read_key: str) -> int | None:
    row = connection.execute(
        "SELECT id FROM readings WHERE fingerprint = ? AND read_key = ?", (fingerprint, read_key)
    ).fetchone()
    return None if row is None else row[0]


def _job_reading(connection: sqlite3.Connection, job_id: int) -> tuple[int, int | None]:
    row = connection.execute(
        "SELECT reading_id, page_in_flight FROM jobs WHERE id = ?", (job_id,)
    ).fetchone()
    if row is None or row[0] is None:
        raise LookupError(f"job {job_id} has no fingerprint yet: call set_fingerprint first")
    return row[0], row[1]


def _count_crash(connection: sqlite3.Connection, reading_id: int, page_index: int) -> None:
    connection.execute(
        "INSERT INTO crashes VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET crashes = crashes + 1",
        (reading_id, page_index),
    )


def _crashes(connection: sqlite3.Connection, reading_id: int, page_index: int) -> int:
    row = connection.execute(
        "SELECT crashes FROM crashes WHERE reading_id = ? AND page_index = ?",
        (reading_id, page_index),
    ).fetchone()
    return 0 if row is None else row[0]
