"""The daemon's errors; each class carries the exit code it ends a command with.

Exit codes follow sysexits.h, so that systemd and scripts can tell them apart.
"""

from __future__ import annotations


class ScanmdError(Exception):
    """Any error whose message is meant for the person at the terminal."""

    exit_code = 1


class ConfigError(ScanmdError):
    """The settings cannot be used; names the key and the value."""

    exit_code = 78  # EX_CONFIG; the unit does not restart on it


class LedgerTooNew(ScanmdError):
    """The ledger was written by a newer version."""

    exit_code = 78


class LedgerDamaged(ScanmdError):
    """SQLite cannot read the ledger."""

    exit_code = 74  # EX_IOERR


class LedgerBusy(ScanmdError):
    """Another process holds the ledger's lock for longer than anyone should."""

    exit_code = 75


class StateUnusable(ScanmdError):
    """Ledger or work folder cannot be used where they are (missing, rights, broken disk)."""

    exit_code = 74


class AlreadyRunning(ScanmdError):
    """Another daemon holds the state directory."""

    exit_code = 75  # EX_TEMPFAIL


class IntakeRefused(ScanmdError):
    """The file must not be taken (symlink, device, outside the inbox ...)."""

    exit_code = 65  # EX_DATAERR


class SourceBusy(ScanmdError):
    """A passing trouble with the source (EBUSY, ESTALE, EIO, changed while copied)."""

    exit_code = 75


class NoSpace(ScanmdError):
    """A disk is full (work, outbox or state directory)."""

    exit_code = 75


class DeliveryError(ScanmdError):
    """The result could not be written to where it belongs."""

    exit_code = 73  # EX_CANTCREAT


class OutputTaken(DeliveryError):
    """Another file took the output's name meanwhile; planning anew finds the next free one."""


class ReaderError(ScanmdError):
    """The reader process died, hung or grew too large.

    `during` says what it was doing: `start`, `load` (the engine is to blame), `open`
    (the document), `page` or `render`. `page_index` is the page to blame, None when it
    is no page's fault. `output` holds the last lines that the process printed, for the
    log.
    """

    exit_code = 70  # EX_SOFTWARE

    def __init__(
        self,
        message: str,
        *,
        during: str = "page",
        page_index: int | None = None,
        output: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.during = during
        self.page_index = page_index
        self.output = output


class ReaderStopped(ReaderError):
    """The reader was told to stop; nothing is wrong with the page."""

    exit_code = 75
