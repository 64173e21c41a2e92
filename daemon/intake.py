"""What may be taken from an inbox, and how it gets into the work folder."""

from __future__ import annotations

import errno
import fcntl
import fnmatch
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from daemon.errors import IntakeRefused, NoSpace, SourceBusy
from daemon.job import Arrival, Signature
from daemon.output_files import shown
from daemon.settings import Inbox

_CHUNK_BYTES = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PASSING = frozenset({errno.EBUSY, errno.EAGAIN, errno.ESTALE, errno.EIO, errno.ETXTBSY,
                      errno.ETIMEDOUT, errno.EHOSTDOWN, errno.ENETUNREACH})  # fmt: skip
_JUNK = re.compile(
    r"\.(ds_store|_.*|appledouble|spotlight-.*|trashes|trash.*|fseventsd|localized|nfs.*|"
    r"goutputstream.*|scanmd-.*|smbdelete.*|syncthing\..*|stfolder|stversions|directory|"
    r"documentrevisions-.*|temporaryitems|\@__thumb|~lock\..*|.*\.sw[a-p])|"
    r"thumbs\.db(:encryptable)?|ehthumbs(_vista)?\.db|desktop\.ini|\$recycle\.bin|"
    r"system volume information|lost\+found|__macosx|icon\r|#recycle|#snapshot|@eadir|"
    r"@tmp|@recycle|@recently-snapshot|~\$.*|~.*\.tmp|.*~|#.*#|"
    r".*\.(part|partial|tmp|temp|crdownload|download|filepart|opdownload|aria2|!qb|upload|lck)|"
    r".*\.(mmd|error\.txt|layout\.pdf|assets)",
    re.IGNORECASE | re.DOTALL,
)
"""Names that systems and programs leave in shared folders, and our own outputs."""


def is_junk(name: bytes) -> bool:
    """Whether a file or folder of this name is never a document."""
    return _JUNK.fullmatch(os.fsdecode(name)) is not None


def relative_parts(path: bytes, inbox: Inbox) -> list[bytes]:
    """The path below the inbox, split.

    Raises:
        IntakeRefused: The path does not lie in the inbox.
    """
    root = os.fsencode(inbox.path).rstrip(b"/") + b"/"
    parts = path.removeprefix(root).split(b"/")
    if not path.startswith(root) or any(part in {b"", b".", b".."} for part in parts):
        raise IntakeRefused(f"{shown(path)} is not inside the inbox {inbox.path}.")
    return parts


def wanted(path: bytes, inbox: Inbox) -> bool:
    """Whether the inbox's rules name this file and nothing on its way is junk."""
    parts = relative_parts(path, inbox)
    if any(is_junk(part) for part in parts) or (len(parts) > 1 and not inbox.recursive):
        return False
    relative = os.fsdecode(b"/".join(parts))
    name = os.fsdecode(parts[-1])
    return _matches(inbox.patterns, name, relative) and not _matches(inbox.ignore, name, relative)


def signature_of(information: os.stat_result) -> Signature:
    """The part of a `stat` that changes with the content."""
    return Signature(
        information.st_dev,
        information.st_ino,
        information.st_size,
        information.st_mtime_ns,
        information.st_ctime_ns,
    )


def examine(path: bytes, inbox: Inbox) -> Arrival:
    """The regular file at a path below an inbox.

    Raises:
        IntakeRefused: It is a link, a device, a pipe, or cannot be read by us.
        SourceBusy: The disk or share does not answer just now.
        FileNotFoundError: There is no such file (any more).
    """
    with opened(path, inbox) as fd:
        return Arrival(str(inbox.path), path, signature_of(os.fstat(fd)))


def copy_in(arrival: Arrival, inbox: Inbox, target: Path, *, max_file_gb: float) -> str:
    """Copy the very file that was seen into the work folder.

    Args:
        arrival: The file, as it settled.
        inbox: The inbox that it lies in.
        target: Where the copy goes; made new.
        max_file_gb: Larger files are refused, in 10⁹ bytes.

    Returns:
        SHA-256 of the content, hex.

    Raises:
        IntakeRefused: It must not be taken, or is too large.
        SourceBusy: It changed while it was copied, or does not answer.
        NoSpace: The disk with the work folder is full.
        FileNotFoundError: It is gone.
    """
    digest = hashlib.sha256()
    with opened(arrival.path, inbox) as fd:
        before = signature_of(os.fstat(fd))
        if before != arrival.signature:
            raise SourceBusy(f"{shown(arrival.path)} changed before it was read.")
        if before.size > max_file_gb * 1e9:
            raise IntakeRefused(
                f"{shown(arrival.path)} has {before.size / 1e9:.1f} GB; the limit is "
                f"{max_file_gb:g} GB. Split it, or raise max_file_gb."
            )
        with target.open("xb") as copy, _plain_errors(arrival.path):
            left = before.size
            while chunk := os.read(fd, min(_CHUNK_BYTES, left + 1)):
                left -= len(chunk)
                if left < 0:
                    raise SourceBusy(f"{shown(arrival.path)} grew while it was copied.")
                digest.update(chunk)
                copy.write(chunk)
        if left or signature_of(os.fstat(fd)) != before:
            raise SourceBusy(f"{shown(arrival.path)} changed while it was copied.")
    return digest.hexdigest()


def being_written(fd: int) -> bool | None:
    """Whether somebody holds the open file for writing; None where that cannot be told.

    A read lease is only granted on a file that nobody has open for writing. It is
    given back at once. Network file systems and other owners' files refuse it.
    """
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


@contextmanager
def opened(path: bytes, inbox: Inbox) -> Iterator[int]:
    """The regular file at a path below an inbox, open for reading; raises as `examine`."""
    parts = relative_parts(path, inbox)
    with _plain_errors(path):
        # One folder at a time: a link planted on the way meanwhile is not followed.
        fd = os.open(inbox.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts[:-1]:
                below = os.open(part, _FOLDER, dir_fd=fd)
                os.close(fd)
                fd = below
            if not stat.S_ISREG(os.stat(parts[-1], dir_fd=fd, follow_symlinks=False).st_mode):
                raise IntakeRefused(_not_regular(path))
            file = os.open(parts[-1], _FILE, dir_fd=fd)
        finally:
            os.close(fd)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise IntakeRefused(_not_regular(path))
        yield file
    finally:
        os.close(file)


def _not_regular(path: bytes) -> str:
    return f"{shown(path)} is a link, pipe or device; only ordinary files are read."


@contextmanager
def _plain_errors(path: bytes) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in _PASSING:
            raise SourceBusy(
                f"{shown(path)} does not answer just now: {error.strerror}."
            ) from error
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise NoSpace("The disk with the work folder is full. Free some space.") from error
        if error.errno in {errno.ELOOP, errno.ENOTDIR, errno.ENXIO}:
            raise IntakeRefused(_not_regular(path)) from error
        raise IntakeRefused(
            f"{shown(path)} cannot be read: {error.strerror}. Check its owner and rights."
        ) from error


@lru_cache(maxsize=256)
def _expression(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(p) for p in patterns) or r"\Z.", re.IGNORECASE)


def _matches(patterns: tuple[str, ...], name: str, relative: str) -> bool:
    expression = _expression(tuple(patterns))
    return expression.match(name) is not None or expression.match(relative) is not None


def walk(inbox: Inbox, below: Path | None = None) -> Iterator[bytes]:
    """Every wanted file below an inbox, junk folders left out, links never followed.

    Folders that cannot be read are passed over.

    Args:
        inbox: Its rules decide what is wanted.
        below: Look in this folder of the inbox only.

    Raises:
        OSError: The first folder itself cannot be listed.
    """
    root = os.fsencode(below or inbox.path)
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            entries = os.scandir(folder)
        except OSError:
            if folder == root:
                raise
            continue
        with entries, suppress(OSError):
            for entry in entries:
                if is_junk(entry.name):
                    continue
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        if inbox.recursive:
                            folders.append(entry.path)
                    elif wanted(entry.path, inbox):
                        yield entry.path
