"""Writing into folders that other people can write to: whole files or none, no detours.

Folders are walked by descriptor and never through a symbolic link below the
configured root, so that nobody who can write to a share can make the daemon
write elsewhere. Files appear complete, under their name, or not at all.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from daemon.errors import DeliveryError, NoSpace, ScanmdError, SourceBusy
from daemon.faults import reached
from daemon.output_names import HEADER_MAX_BYTES, Header, escaped_name, join, parse_header

TEMPORARY_PREFIX = b".scanmd-"
CHUNK_BYTES = 1 << 20

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_PASSING = {
    errno.EBUSY, errno.EIO, errno.ESTALE, errno.EAGAIN, errno.ETIMEDOUT, errno.ENOTCONN,
    errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH, errno.EREMOTEIO,
    errno.ENOLCK, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.ECONNRESET,
}  # fmt: skip
_UNSUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EMLINK}
_RENAME_NOREPLACE = 1  # linux/fs.h


@dataclass(frozen=True, slots=True)
class Rights:
    """What delivered files may be read by."""

    file_mode: int
    group_id: int | None = None
    """None: what the system chooses (the folder's group, if it is set-group-ID)."""

    @property
    def folder_mode(self) -> int:
        """The file's mode, and entering allowed to whoever may read."""
        return self.file_mode | 0o700 | (self.file_mode & 0o444) >> 2


@dataclass(frozen=True, slots=True)
class Standing:
    """A regular file that stands under an output's name."""

    size: int
    sha256: str
    text_sha256: str
    """Of what follows the first line, if that is a header; else the same."""
    header: Header | None


@dataclass(frozen=True, slots=True)
class Folder:
    """An open folder."""

    fd: int
    path: bytes
    """For messages, and as the key of what is delivered."""

    def join(self, name: bytes) -> bytes:
        """The absolute path of an entry."""
        return join(self.path, name)


class FolderMissing(DeliveryError):
    """A folder below the root does not exist."""


@contextmanager
def plain_errors(doing: str, path: bytes) -> Iterator[None]:
    """Turn the system's errors into ours, in words that say what to do.

    Raises:
        FileExistsError: As it is; callers act on it.
        NoSpace: The disk is full; it passes when somebody makes room.
        SourceBusy: A share or disk does not answer just now.
        DeliveryError: Anything that stays until somebody acts.
    """
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise _translated(error, doing, path) from error


def _translated(error: OSError, doing: str, path: bytes) -> ScanmdError:
    where, why = shown(path), error.strerror
    match error.errno:
        case code if code in _NO_SPACE:
            return NoSpace(f"Cannot {doing} {where}: the disk is full. Free some space there.")
        case code if code in _PASSING:
            return SourceBusy(f"Cannot {doing} {where} just now: {why}.")
        case errno.EROFS:
            return DeliveryError(
                f"Cannot {doing} {where}: the file system is read-only. "
                "Give this inbox an outbox in the settings, on a disk that can be written to."
            )
        case errno.EACCES | errno.EPERM:
            return DeliveryError(
                f"Cannot {doing} {where}: {why}. The user that scanmd runs as needs the right "
                "to write to that folder (and systemd must allow it: scanmd systemd-dropin)."
            )
        case errno.ELOOP | errno.ENOTDIR:
            return DeliveryError(
                f"Cannot {doing} {where}: a symbolic link or a file stands where a folder should "
                "be. Links inside inboxes and outboxes are not followed; put a real folder there."
            )
        case errno.ENOENT:
            return DeliveryError(
                f"Cannot {doing} {where}: the folder is not there. If it is on a share, mount it."
            )
    return DeliveryError(f"Cannot {doing} {where}: {why}.")


def shown(path: bytes) -> str:
    """A path as text that is safe on a terminal and in a log."""
    return escaped_name(path)


@contextmanager
def open_folder(
    root: Path, parts: Sequence[bytes], *, make: Rights | None = None
) -> Iterator[Folder]:
    """The folder `parts` below `root`, no symbolic link followed below the root.

    Args:
        root: Must exist; may itself be reached through links (the administrator's).
        parts: Folder names below it.
        make: Rights of folders to make where they are missing; None: none is made.

    Raises:
        FolderMissing: A folder below the root is missing and not to be made.
        NoSpace, SourceBusy, DeliveryError: See `plain_errors`.
    """
    path = os.fsencode(root)
    with plain_errors("open", path):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            path = join(path, part)
            if part in {b"", b".", b".."} or b"/" in part:
                raise DeliveryError(f"Cannot open {shown(path)}: not a path below {root}.")
            below = _open_part(fd, part, path, make)
            os.close(fd)
            fd = below
        yield Folder(fd, path)
    finally:
        os.close(fd)


@contextmanager
def open_below(folder: Folder, name: bytes, *, make: Rights | None = None) -> Iterator[Folder]:
    """A folder directly inside an open one; arguments and errors as `open_folder`."""
    path = folder.join(name)
    fd = _open_part(folder.fd, name, path, make)
    try:
        yield Folder(fd, path)
    finally:
        os.close(fd)


def _open_part(fd: int, part: bytes, path: bytes, make: Rights | None) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(part, flags, dir_fd=fd)
    except FileNotFoundError as error:
        if make is None:
            raise FolderMissing(f"The folder {shown(path)} is gone.") from error
    except OSError as error:
        raise _translated(error, "open", path) from error
    with plain_errors("make the folder", path):
        with suppress(FileExistsError):
            os.mkdir(part, 0o700, dir_fd=fd)
        below = os.open(part, flags, dir_fd=fd)
        try:
            inherited = os.fstat(below).st_mode & stat.S_ISGID
            set_rights(below, make, make.folder_mode | inherited)
            os.fsync(fd)
        except BaseException:
            os.close(below)
            raise
    return below


def set_rights(fd: int, rights: Rights, mode: int) -> None:
    """Give an open file or folder its group and its mode.

    Raises:
        DeliveryError: The group cannot be given.
        OSError: The disk or share failed.
    """
    if rights.group_id is not None:
        try:
            os.fchown(fd, -1, rights.group_id)
        except PermissionError as error:
            raise DeliveryError(
                f"Outputs cannot be given to group {rights.group_id}: make the user that scanmd "
                "runs as a member of that group, or take `group` out of the settings."
            ) from error
    try:
        os.fchmod(fd, mode)
    except OSError as error:
        # Ours, so only a file system without modes (FAT, some shares) refuses.
        if error.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}:
            raise


def write_whole(
    folder: Folder,
    name: bytes,
    chunks: Iterable[bytes],
    rights: Rights,
    *,
    replace: bool,
    last_check: Callable[[], None] = lambda: None,
) -> None:
    """Make a file appear complete under its name; on the disk when this returns.

    Args:
        folder: Where.
        name: Its name; whatever ends the process leaves the old file or the new.
        chunks: Its content.
        rights: Its mode and group; until it is complete only its owner can read it.
        replace: Whether a file of this name is replaced.
        last_check: Called right before the rename; may raise.

    Raises:
        FileExistsError: The name is taken and `replace` is False.
        NoSpace, SourceBusy, DeliveryError: See `plain_errors`.
    """
    temporary = _temporary_name(name)
    with plain_errors("write to", folder.path):
        fd = _create(folder, temporary)
        try:
            with os.fdopen(fd, "wb", buffering=0) as file:
                for chunk in chunks:
                    _write_all(file.fileno(), chunk)
                set_rights(file.fileno(), rights, rights.file_mode)
                reached("before-fsync")
                os.fsync(file.fileno())
            last_check()
            reached("before-rename")
            if replace:
                os.rename(temporary, name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
            else:
                rename_new(folder.fd, temporary, folder.fd, name)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder.fd)
            raise
        reached("after-rename")
        os.fsync(folder.fd)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _temporary_name(name: bytes) -> bytes:
    # The same after a crash, so that what was left behind is found and replaced.
    # The host's name, because two machines may deliver into one share.
    digest = hashlib.sha256(os.fsencode(os.uname().nodename) + b"\0" + name).hexdigest()
    return TEMPORARY_PREFIX + digest[:16].encode()


def _create(folder: Folder, name: bytes) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder.fd)
    return os.open(name, flags, 0o600, dir_fd=folder.fd)


def rename_new(from_fd: int, source: bytes, to_fd: int, target: bytes) -> None:
    """Rename without ever replacing, on file systems that can and those that cannot.

    Raises:
        FileExistsError: The target's name is taken.
        OSError: Anything else.
    """
    for attempt in (_rename_noreplace, _link_and_unlink):
        try:
            attempt(from_fd, source, to_fd, target)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
        else:
            return
    # Neither (some shares): an empty file takes the name, the real one replaces it.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    os.close(os.open(target, flags, 0o600, dir_fd=to_fd))
    try:
        os.rename(source, target, src_dir_fd=from_fd, dst_dir_fd=to_fd)
    except OSError:
        os.unlink(target, dir_fd=to_fd)
        raise


@functools.cache
def _renameat2() -> Callable[..., int] | None:
    # ctypes, because Python has no renameat2, and only it is atomic here.
    function: Callable[..., int] | None = getattr(
        ctypes.CDLL(None, use_errno=True), "renameat2", None
    )
    return function


def _rename_noreplace(from_fd: int, source: bytes, to_fd: int, target: bytes) -> None:
    renameat2 = _renameat2()
    if renameat2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if renameat2(from_fd, source, to_fd, target, ctypes.c_uint(_RENAME_NOREPLACE)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


def _link_and_unlink(from_fd: int, source: bytes, to_fd: int, target: bytes) -> None:
    os.link(source, target, src_dir_fd=from_fd, dst_dir_fd=to_fd, follow_symlinks=False)
    os.unlink(source, dir_fd=from_fd)


def exists(folder: Folder, name: bytes) -> bool:
    """Whether anything at all stands under that name."""
    try:
        os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def examine(folder: Folder, name: bytes) -> Standing | None:
    """The regular, readable file under that name; None for anything else, or nothing."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(name, flags, dir_fd=folder.fd)
    except OSError as error:
        if error.errno in _PASSING:
            raise
        return None
    information = os.fstat(fd)
    if not stat.S_ISREG(information.st_mode):
        os.close(fd)  # fdopen refuses folders with an error
        return None
    with os.fdopen(fd, "rb", buffering=0) as file:
        head = file.read(HEADER_MAX_BYTES)
        header = parse_header(head)
        text_start = head.index(b"\n") + 1 if header is not None else 0
        whole, text = hashlib.sha256(head), hashlib.sha256(head[text_start:])
        while chunk := file.read(CHUNK_BYTES):
            whole.update(chunk)
            text.update(chunk)
    return Standing(information.st_size, whole.hexdigest(), text.hexdigest(), header)


def file_chunks(path: Path) -> Iterator[bytes]:
    """A work file's content, one MiB at a time.

    Raises:
        SourceBusy: It cannot be read (the work folder was cleared).
    """
    try:
        with path.open("rb", buffering=0) as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    except OSError as error:
        raise SourceBusy(f"The work file {path} cannot be read: {error.strerror}.") from error
