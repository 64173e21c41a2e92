"""Which `.mmd` belongs to which source, so that only its own is ever replaced."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from daemon.job import OutputRecord
from daemon.ledger_database import Database


class OutputRecords(Database):
    """Outputs keyed by their own path."""

    def previous_output(self, path: bytes) -> OutputRecord | None:
        """The last output delivered for the source at `path`.

        None for one never read, and for a new document under an old name.
        """
        with self._reading() as connection:
            return _record(
                connection.execute(
                    "SELECT outputs.* FROM sources JOIN outputs "
                    "ON outputs.output = sources.output AND outputs.source = sources.path "
                    "AND outputs.lineage = sources.lineage WHERE sources.path = ?",
                    (path,),
                ).fetchone()
            )

    def output_owner(self, output: bytes) -> OutputRecord | None:
        """What is known of the file at `output`; None: not ours, as far as we know."""
        with self._reading() as connection:
            return _owner(connection, output)

    def outputs_of(self, path: bytes, fingerprint: str) -> list[OutputRecord]:
        """Every output made from this content at this path, the newest first."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT * FROM outputs INDEXED BY outputs_source WHERE source = ? "
                "AND fingerprint = ? ORDER BY delivered_s DESC",
                (path, fingerprint),
            ).fetchall()
        return [record for row in rows if (record := _record(row)) is not None]

    def intend_output(
        self,
        job_id: int,
        output: bytes,
        *,
        sha256: str,
        extras: Sequence[str] = (),
    ) -> bool:
        """Record what is about to be written, before it is.

        Killed between the rename and `finish`, the next start recognises the file
        as this source's own by this record.

        Returns:
            False if another source has just begun to write there.
        """
        with self._writing(durable=True) as connection:
            source, lineage, fingerprint = connection.execute(
                "SELECT path, lineage, fingerprint FROM jobs WHERE id = ?", (job_id,)
            ).fetchone()
            owner = _owner(connection, output)
            if owner is not None and owner.source != source and owner.pending_sha256 is not None:
                return False
            last = (
                owner if owner is not None and _same(owner, source, lineage, fingerprint) else None
            )
            # Extras of the last delivery stay listed until those of this one replaced them.
            names = set(extras) | set(last.extras if last is not None else ())
            connection.execute(
                "INSERT OR REPLACE INTO outputs (output, source, lineage, fingerprint, "
                "sha256, pending_sha256, extras, delivered_s) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    output,
                    source,
                    lineage,
                    fingerprint,
                    last.sha256 if last is not None else None,
                    sha256,
                    json.dumps(sorted(names)),
                    last.delivered_s if last is not None else None,
                ),
            )
            return True

    def withdraw_output(self, job_id: int, output: bytes) -> None:
        """Take an intention back: the file was not written after all."""
        with self._writing(durable=False) as connection:
            mine = (output, job_id)
            connection.execute(
                "DELETE FROM outputs WHERE output = ? AND sha256 IS NULL "
                "AND source = (SELECT path FROM jobs WHERE id = ?)",
                mine,
            )
            connection.execute(
                # What stands there was not made from the job's content.
                "UPDATE outputs SET pending_sha256 = NULL, fingerprint = NULL WHERE output = ? "
                "AND source = (SELECT path FROM jobs WHERE id = ?)",
                mine,
            )

    def set_extras(self, output: bytes, extras: Sequence[str]) -> None:
        """Say exactly which files stand beside a delivered output, stale ones removed."""
        with self._writing(durable=False) as connection:
            connection.execute(
                "UPDATE outputs SET extras = ? WHERE output = ?",
                (json.dumps(sorted(extras)), output),
            )

    def adopt_output(self, job_id: int, output: bytes, *, sha256: str | None) -> None:
        """Take over an output that an earlier, lost ledger delivered.

        Args:
            job_id: The job whose source it was made from.
            output: Its path.
            sha256: Of the file as it stands; None if a person edited it, so that
                it is never replaced.
        """
        with self._writing(durable=False) as connection:
            connection.execute(
                "INSERT INTO outputs (output, source, lineage, fingerprint, sha256, delivered_s) "
                "SELECT ?, path, lineage, fingerprint, ?, ? FROM jobs WHERE id = ? "
                "ON CONFLICT DO UPDATE SET source = excluded.source, lineage = excluded.lineage, "
                "fingerprint = excluded.fingerprint, sha256 = excluded.sha256, "
                "pending_sha256 = NULL",
                (output, sha256, self._clock(), job_id),
            )


def confirm_output(
    connection: sqlite3.Connection,
    job_id: int,
    output: bytes,
    *,
    now_s: float,
) -> None:
    """Turn an intention into the fact, within the transaction that ends the job."""
    connection.execute(
        "UPDATE outputs SET sha256 = pending_sha256, pending_sha256 = NULL, delivered_s = ? "
        "WHERE output = ? AND pending_sha256 IS NOT NULL",
        (now_s, output),
    )
    connection.execute(
        "UPDATE sources SET output = ? WHERE path = (SELECT path FROM jobs WHERE id = ?)",
        (output, job_id),
    )


def _same(owner: OutputRecord, source: bytes, lineage: int, fingerprint: str | None) -> bool:
    return owner.source == source and (owner.lineage == lineage or owner.fingerprint == fingerprint)


def _owner(connection: sqlite3.Connection, output: bytes) -> OutputRecord | None:
    return _record(
        connection.execute("SELECT * FROM outputs WHERE output = ?", (output,)).fetchone()
    )


def _record(row: sqlite3.Row | None) -> OutputRecord | None:
    if row is None:
        return None
    return OutputRecord(
        output=row["output"],
        source=row["source"],
        lineage=row["lineage"],
        fingerprint=row["fingerprint"],
        sha256=row["sha256"],
        pending_sha256=row["pending_sha256"],
        extras=tuple(json.loads(row["extras"])),
        delivered_s=row["delivered_s"],
    )
