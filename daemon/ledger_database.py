"""One SQLite connection, its lock, its transactions, and its errors in plain words."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from daemon.errors import LedgerBusy, LedgerDamaged, NoSpace, ScanmdError, StateUnusable
from daemon.ledger_schema import check_version, migrate, version_of

BUSY_TIMEOUT_S = 10.0
"""Far longer than any transaction here; only a stuck process holds the lock this long."""
_WAL_KEPT_MB = 16


class Database:
    """What the parts of the ledger share. Any thread may call; one works at a time."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, clock: Callable[[], float]
    ) -> None:
        self._connection = connection
        self._path = path
        self._clock = clock
        self._lock = threading.RLock()
        self._synced = True

    def close(self) -> None:
        """Close the file; later calls fail."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock, plain_errors(self._path):
            yield self._connection

    @contextmanager
    def _writing(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        """One transaction.

        Args:
            durable: The commit is on the disk when this returns (`synchronous=FULL`),
                because something outside is done on the strength of it. Otherwise
                it survives the death of this process, but a power cut may undo it.
        """
        with self._lock, plain_errors(self._path):
            if durable is not self._synced:
                self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                self._synced = durable
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # SQLite itself rolls back on some errors (disk full, I/O).
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def check(self) -> None:
        """Read the whole ledger; seconds for a large one (`scanmd doctor`).

        Raises:
            LedgerDamaged: Something in it is broken.
        """
        with self._reading() as connection:
            verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise LedgerDamaged(damaged(self._path, verdict))


def open_writable(path: Path) -> sqlite3.Connection:
    """The ledger at `path`, made if missing, brought to the newest version.

    Raises:
        LedgerDamaged, LedgerTooNew, LedgerBusy, StateUnusable, NoSpace: See there.
    """
    with plain_errors(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Made here, because SQLite would make it as readable as the umask allows,
        # and gives its -wal and -shm files the mode of this one.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640))
        connection = _connect(path, "rw")
        try:
            if version_of(connection) == 0:
                # Only possible before the first table; gives space back in small steps.
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT_MB << 20}")
            migrate(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def open_read_only(path: Path) -> sqlite3.Connection:
    """The ledger at `path` for looking only, while the daemon runs or not.

    Raises:
        LedgerDamaged, LedgerTooNew, LedgerBusy, StateUnusable: See there.
    """
    if not path.exists():
        raise StateUnusable(
            f"There is no ledger at {path}: the daemon has not run with this state_dir yet."
        )
    with plain_errors(path):
        connection = _connect(path, "ro")
        try:
            connection.execute("SELECT COUNT(*) FROM sqlite_schema")
        except sqlite3.OperationalError:
            connection.close()
            if path.with_name(path.name + "-wal").exists():
                raise
            # Whoever may not write the folder cannot make the -shm file that WAL
            # needs. Without a -wal file nobody writes, and none is needed.
            connection = _connect(path, "ro&immutable=1")
        try:
            check_version(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.row_factory = sqlite3.Row
    return connection


@contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's and the system's errors into ours.

    Raises:
        LedgerDamaged: The file is broken.
        LedgerBusy: Another process kept its lock too long.
        NoSpace: The disk is full.
        StateUnusable: Anything else.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _translated(error, path) from error
    except OSError as error:
        raise StateUnusable(
            f"The ledger {path} cannot be opened: {error.strerror}. Check that state_dir is on "
            "a working disk and belongs to the user that scanmd runs as."
        ) from error


def _translated(error: sqlite3.Error, path: Path) -> ScanmdError:
    # Errors of the module itself (a closed connection) carry no SQLite code.
    extended = getattr(error, "sqlite_errorcode", 0)
    code = extended & 0xFF
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return LedgerDamaged(damaged(path, str(error)))
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return LedgerBusy(
            f"Another process has held the ledger {path} for {BUSY_TIMEOUT_S:.0f} s. "
            f"Find it with: fuser {path}"
        )
    # A full disk shows as an I/O error where SQLite grows its shared memory.
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _disk_full(path)):
        return NoSpace(f"The disk with the ledger {path} is full. Free some space there.")
    return StateUnusable(
        f"The ledger {path} cannot be used: {error}. Check that state_dir is on a working, "
        "local, writable disk and belongs to the user that scanmd runs as."
    )


def _disk_full(path: Path) -> bool:
    try:
        return os.statvfs(path.parent).f_bavail < 64
    except OSError:
        return False


def damaged(path: Path, what: str) -> str:
    """The sentence for a ledger that cannot be trusted any more."""
    return (
        f"The ledger {path} is damaged ({what}). Stop scanmd, move {path.name}, {path.name}-wal "
        f"and {path.name}-shm out of {path.parent}, and start it again. Nothing is lost: sources "
        "still in the inboxes are looked at anew, and those already read are recognised by "
        "their .mmd files."
    )
