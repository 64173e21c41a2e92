"""The ledger's tables, and the steps from every older version to this one.

A new ledger is made by running all the steps, so each of them is exercised
every time; a step, once released, never changes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from daemon.errors import LedgerTooNew

_QUEUE = (
    # One row per inbox that ever had a job: `served` makes the turns fair.
    "CREATE TABLE inboxes (inbox TEXT PRIMARY KEY, served INTEGER NOT NULL DEFAULT 0)",
    # What is known of each path, however old. It outlives the jobs, so that a
    # source which stays in its folder for years is not read again.
    # `lineage` grows when a file appears under a name whose last file was gone.
    """CREATE TABLE sources (
        path BLOB PRIMARY KEY, device INTEGER NOT NULL, inode INTEGER NOT NULL,
        size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL,
        job_id INTEGER NOT NULL, lineage INTEGER NOT NULL DEFAULT 0,
        output BLOB, gone_s REAL
    ) WITHOUT ROWID""",
    # `not_before_s` is 0 for a job that may start at once. AUTOINCREMENT, because
    # `sources.job_id` outlives the job and must never meet another with its number.
    """CREATE TABLE jobs (
        id INTEGER PRIMARY KEY AUTOINCREMENT, inbox TEXT NOT NULL, path BLOB NOT NULL,
        device INTEGER NOT NULL, inode INTEGER NOT NULL, size INTEGER NOT NULL,
        mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL,
        state TEXT NOT NULL DEFAULT 'queued', lineage INTEGER NOT NULL DEFAULT 0,
        forced INTEGER NOT NULL DEFAULT 0,
        fingerprint TEXT, reading_id INTEGER, page_count INTEGER,
        pages_read INTEGER NOT NULL DEFAULT 0, page_in_flight INTEGER,
        attempts INTEGER NOT NULL DEFAULT 0, waits_for INTEGER,
        created_s REAL NOT NULL, updated_s REAL NOT NULL, not_before_s REAL NOT NULL DEFAULT 0,
        output BLOB, reason TEXT, engine TEXT, seconds REAL
    )""",
    """CREATE INDEX jobs_ready ON jobs (inbox, id)
        WHERE state = 'queued' AND not_before_s = 0 AND waits_for IS NULL""",
    """CREATE INDEX jobs_delayed ON jobs (not_before_s)
        WHERE state = 'queued' AND not_before_s > 0""",
    "CREATE INDEX jobs_waiting ON jobs (waits_for) WHERE waits_for IS NOT NULL",
    "CREATE INDEX jobs_reading ON jobs (reading_id) WHERE state = 'reading'",
    """CREATE INDEX jobs_finished ON jobs (updated_s)
        WHERE state IN ('done', 'partial', 'failed', 'gone')""",
    "CREATE INDEX jobs_failed ON jobs (updated_s) WHERE state = 'failed'",
    # One reading is one content under one set of reading options.
    """CREATE TABLE readings (
        id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL, read_key TEXT NOT NULL,
        page_count INTEGER, used_s REAL NOT NULL, UNIQUE (fingerprint, read_key)
    )""",
    "CREATE INDEX readings_used ON readings (used_s)",
    """CREATE TABLE pages (
        reading_id INTEGER NOT NULL, page_index INTEGER NOT NULL, good INTEGER NOT NULL,
        seconds REAL NOT NULL, page BLOB NOT NULL, PRIMARY KEY (reading_id, page_index)
    )""",
    """CREATE TABLE crashes (
        reading_id INTEGER NOT NULL, page_index INTEGER NOT NULL, crashes INTEGER NOT NULL,
        PRIMARY KEY (reading_id, page_index)
    ) WITHOUT ROWID""",
    "CREATE TABLE notes (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
)

_OUTPUTS_AND_COUNTS = (
    # `pending_sha256` is written before a file is renamed into place, `sha256` after:
    # whichever of the two the file has, it is ours and nobody edited it.
    """CREATE TABLE outputs (
        output BLOB PRIMARY KEY, source BLOB NOT NULL, lineage INTEGER NOT NULL,
        fingerprint TEXT, sha256 TEXT, pending_sha256 TEXT,
        extras TEXT NOT NULL DEFAULT '[]', delivered_s REAL
    ) WITHOUT ROWID""",
    "CREATE INDEX outputs_source ON outputs (source)",
    # A delivered source that is still to be archived or deleted.
    "ALTER TABLE jobs ADD COLUMN dispose INTEGER NOT NULL DEFAULT 0",
    "CREATE INDEX jobs_dispose ON jobs (id) WHERE dispose",
    "CREATE INDEX sources_gone ON sources (gone_s) WHERE gone_s IS NOT NULL",
    # Figures cropped from a page, journaled with it: a page that is not read
    # again still has its figures.
    """CREATE TABLE assets (
        reading_id INTEGER NOT NULL, page_index INTEGER NOT NULL, name TEXT NOT NULL,
        content BLOB NOT NULL, PRIMARY KEY (reading_id, page_index, name)
    )""",
    # Kept by triggers: counting a million rows takes longer than a status may.
    """CREATE TABLE counters (
        inbox TEXT NOT NULL, state TEXT NOT NULL, jobs INTEGER NOT NULL,
        PRIMARY KEY (inbox, state)
    ) WITHOUT ROWID""",
    "INSERT INTO counters SELECT inbox, state, COUNT(*) FROM jobs GROUP BY inbox, state",
    """CREATE TRIGGER jobs_added AFTER INSERT ON jobs BEGIN
        INSERT INTO counters VALUES (new.inbox, new.state, 1)
            ON CONFLICT DO UPDATE SET jobs = jobs + 1;
    END""",
    """CREATE TRIGGER jobs_moved AFTER UPDATE OF state ON jobs WHEN new.state <> old.state BEGIN
        UPDATE counters SET jobs = jobs - 1 WHERE inbox = old.inbox AND state = old.state;
        INSERT INTO counters VALUES (new.inbox, new.state, 1)
            ON CONFLICT DO UPDATE SET jobs = jobs + 1;
    END""",
    """CREATE TRIGGER jobs_dropped AFTER DELETE ON jobs BEGIN
        UPDATE counters SET jobs = jobs - 1 WHERE inbox = old.inbox AND state = old.state;
    END""",
)

STEPS: tuple[tuple[str, ...], ...] = (_QUEUE, _OUTPUTS_AND_COUNTS)
"""Step N takes a ledger from version N to version N + 1."""


def migrate(
    connection: sqlite3.Connection, path: Path, steps: Sequence[Sequence[str]] = STEPS
) -> None:
    """Bring the ledger to the newest version, one transaction per step.

    Raises:
        LedgerTooNew: A newer scanmd wrote it.
    """
    while (version := version_of(connection)) != len(steps):
        if version > len(steps):
            raise LedgerTooNew(_too_new(path, version, len(steps)))
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Asked again under the lock: `scanmd` may have been started twice.
            if version_of(connection) == version:
                for statement in steps[version]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {version + 1}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def check_version(
    connection: sqlite3.Connection, path: Path, steps: Sequence[Sequence[str]] = STEPS
) -> None:
    """Make sure that a ledger which may not be changed has the newest version.

    Raises:
        LedgerTooNew: It has another one.
    """
    version = version_of(connection)
    if version > len(steps):
        raise LedgerTooNew(_too_new(path, version, len(steps)))
    if version < len(steps):
        raise LedgerTooNew(
            f"The ledger {path} was written by an older scanmd (version {version}, this one "
            f"uses {len(steps)}). Start the daemon once; it brings the ledger up to date."
        )


def version_of(connection: sqlite3.Connection) -> int:
    """The ledger's version, 0 for an empty file."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _too_new(path: Path, found: int, known: int) -> str:
    return (
        f"The ledger {path} was written by a newer scanmd (version {found}, this one knows "
        f"up to {known}). Install that version again, or move the ledger aside and start: "
        "the sources are then looked at anew, and those already read are recognised by their .mmd."
    )
