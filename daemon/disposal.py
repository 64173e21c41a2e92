"""What happens to a source after its text was delivered: kept, archived or deleted."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from daemon.errors import DeliveryError, SourceBusy
from daemon.job import Job, JobState, Signature
from daemon.ledger import Ledger
from daemon.output_files import (
    CHUNK_BYTES,
    Folder,
    FolderMissing,
    Rights,
    open_folder,
    plain_errors,
    rename_new,
    shown,
    write_whole,
)
from daemon.output_names import base_name, folders_below, short_hash
from daemon.settings import AfterDelivery, Inbox

_ARCHIVE_RIGHTS = Rights(0o640)
"""Of folders the archive lacks; an archived file keeps its own mode where it can."""


@dataclass(frozen=True, slots=True)
class Disposal:
    """What became of a source."""

    done: AfterDelivery
    archived: Path | None = None
    reason: str | None = None
    """For the log: why it was kept although the inbox says otherwise."""


def dispose_source(job: Job, inbox: Inbox, ledger: Ledger) -> Disposal:
    """Keep, archive or delete a source, as its inbox says; call it after `finish`.

    Only the very file that was read is touched: one that changed since is kept
    and will be read again. A source with pages missing from its text is never
    deleted. The ledger learns that the source is gone.

    Raises:
        NoSpace: The archive's disk is full.
        SourceBusy: A disk or share does not answer just now; try again.
        DeliveryError: Somebody has to act; the message says what to do.
    """
    current = ledger.job(job.id)
    if current is None or current.state not in {JobState.DONE, JobState.PARTIAL}:
        raise ValueError(f"job {job.id} is not delivered: its source stays")
    if inbox.after is AfterDelivery.KEEP:
        return Disposal(AfterDelivery.KEEP)
    if inbox.after is AfterDelivery.DELETE and current.state is JobState.PARTIAL:
        return _kept(ledger, current, "some of its pages could not be read")
    name = base_name(current.path)
    try:
        with open_folder(inbox.path, folders_below(current.path, inbox.path)) as folder:
            with plain_errors("look at the source in", folder.path):
                unchanged = _unchanged(folder, name, current.signature)
            if not unchanged:
                return _kept(ledger, current, "it is not the file that was read any more")
            disposal = _dispose(current, inbox, folder, name)
    except FolderMissing:
        return _kept(ledger, current, "it is gone")
    if disposal.done is not AfterDelivery.KEEP:
        ledger.mark_gone(current.path)
    ledger.disposed(current.id)
    return disposal


def _kept(ledger: Ledger, job: Job, reason: str) -> Disposal:
    ledger.disposed(job.id)
    return Disposal(AfterDelivery.KEEP, reason=reason)


def _dispose(job: Job, inbox: Inbox, folder: Folder, name: bytes) -> Disposal:
    if inbox.after is AfterDelivery.DELETE:
        with plain_errors("delete the source in", folder.path):
            os.unlink(name, dir_fd=folder.fd)
            os.fsync(folder.fd)
        return Disposal(AfterDelivery.DELETE)
    if inbox.archive is None:
        raise DeliveryError(
            f"The inbox {inbox.path} says `after: archive` but names no `archive` folder."
        )
    parts = folders_below(job.path, inbox.path)
    with open_folder(inbox.archive, parts, make=_ARCHIVE_RIGHTS) as archive:
        for target in _archive_names(name, str(job.fingerprint)):
            with suppress(FileExistsError):
                if not _move(job, folder, name, archive, target):
                    return Disposal(AfterDelivery.KEEP, reason="it changed while it was archived")
                return Disposal(
                    AfterDelivery.ARCHIVE, archived=Path(os.fsdecode(archive.join(target)))
                )
    raise DeliveryError(
        f"All names for {shown(job.path)} in the archive are taken. Move some of those files away."
    )


def _archive_names(name: bytes, fingerprint: str) -> Iterator[bytes]:
    """`scan.pdf`, then `scan~<hash8>.pdf`, then numbered; each at most 255 bytes."""
    yield name
    stem, dot, suffix = name.rpartition(b".")
    if not stem:
        stem, dot, suffix = name, b"", b""
    suffix = dot + suffix
    mark = b"~" + fingerprint[:8].encode()
    if len(name) + len(mark) + 3 > 255:
        stem = short_hash(name)
        suffix = suffix if len(suffix) < 16 else b""
    yield stem + mark + suffix
    yield from (stem + mark + b"-%d" % number + suffix for number in range(2, 100))


def _move(job: Job, folder: Folder, name: bytes, archive: Folder, target: bytes) -> bool:
    """Move the source; False if another file took its name at that very moment.

    Raises:
        FileExistsError: The target's name is taken.
    """
    with plain_errors("archive the source into", archive.path):
        try:
            rename_new(folder.fd, name, archive.fd, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        else:
            moved = os.stat(target, dir_fd=archive.fd, follow_symlinks=False)
            if not _same_file(moved, job.signature):
                rename_new(archive.fd, target, folder.fd, name)
                return False
            os.fsync(archive.fd)
            os.fsync(folder.fd)
            return True
    return _move_across(job, folder, name, archive, target)


def _move_across(job: Job, folder: Folder, name: bytes, archive: Folder, target: bytes) -> bool:
    """Copy to another disk, make sure of the copy, and only then remove the source."""
    with plain_errors("read the source in", folder.path):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        source = os.fdopen(os.open(name, flags, dir_fd=folder.fd), "rb", buffering=0)
    with source:
        information = os.fstat(source.fileno())
        digest = hashlib.sha256()

        def chunks() -> Iterator[bytes]:
            while chunk := source.read(CHUNK_BYTES):
                digest.update(chunk)
                yield chunk

        def last_check() -> None:
            if digest.hexdigest() != job.fingerprint:
                raise SourceBusy(f"{shown(job.path)} changed while it was archived.")

        rights = Rights(stat.S_IMODE(information.st_mode) & 0o777)
        write_whole(archive, target, chunks(), rights, replace=False, last_check=last_check)
    with plain_errors("archive the source in", archive.path):
        times = (information.st_atime_ns, information.st_mtime_ns)
        os.utime(target, ns=times, dir_fd=archive.fd, follow_symlinks=False)
    with plain_errors("remove the archived source from", folder.path):
        if not _unchanged(folder, name, job.signature):
            return False
        os.unlink(name, dir_fd=folder.fd)
        os.fsync(folder.fd)
    return True


def _unchanged(folder: Folder, name: bytes, signature: Signature) -> bool:
    try:
        information = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return _same_file(information, signature) and information.st_ctime_ns == signature.ctime_ns


def _same_file(information: os.stat_result, signature: Signature) -> bool:
    """Whether it is the file that was read; its ctime aside, which a rename changes."""
    return stat.S_ISREG(information.st_mode) and (
        information.st_ino,
        information.st_size,
        information.st_mtime_ns,
    ) == (signature.inode, signature.size, signature.mtime_ns)
