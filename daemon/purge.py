"""The work folder: private, one folder per live job, and nothing old in it."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from daemon.errors import NoSpace, StateUnusable

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEPTH_MAX = 64
"""Deeper than anything made here; keeps a hostile tree from using up descriptors."""


@dataclass(slots=True)
class Purged:
    """What a purge removed, and what it could not."""

    entries: int = 0
    """Files and folders directly in the work folder."""
    size_bytes: int = 0
    failed: int = 0
    """Entries that could not be removed (mount points, rights)."""


class WorkDir:
    """The folder in which documents are copied and cut into pages.

    A job's folder is held with `flock` while the job is live: that is what keeps
    this purge, and the one of systemd-tmpfiles, away from it, however old it gets.
    """

    def __init__(self, root: Path) -> None:
        """Use `root`; it is made, private (0700), whenever it is missing."""
        self._root = root

    @contextmanager
    def job(self, job_id: int) -> Iterator[Path]:
        """An empty private folder for one job, deleted in the end.

        Raises:
            NoSpace: The disk is full.
            StateUnusable: The state directory cannot be written to.
        """
        name, fd = self._make_locked(job_id)
        try:
            yield self._root / name
        finally:
            with suppress(OSError):  # what is left is purged later
                _empty(fd, os.fstat(fd).st_dev, Purged())
                self._remove_own(name, fd)
            os.close(fd)

    def purge(self, max_age_s: float, now_s: float) -> Purged:
        """Remove what is older and belongs to no live job.

        Symbolic links are removed, never followed; other file systems mounted in
        here are left alone.

        Args:
            max_age_s: 0 removes everything that is not live: right at start, when
                nothing can be.
            now_s: Seconds since 1970.

        Raises:
            StateUnusable: The work folder cannot be opened.
        """
        purged = Purged()
        with _plain_errors(self._root):
            root_fd = self._open_root()
        try:
            for name in _names(root_fd):
                try:
                    self._purge_entry(root_fd, name, now_s - max_age_s, now_s + max_age_s, purged)
                except FileNotFoundError:
                    continue  # its job has just ended
                except OSError:
                    purged.failed += 1
        finally:
            os.close(root_fd)
        return purged

    def _open_root(self) -> int:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self._root, _OPEN_FOLDER)
        if stat.S_IMODE(os.fstat(fd).st_mode) & 0o077:
            os.fchmod(fd, 0o700)
        return fd

    def _make_locked(self, job_id: int) -> tuple[str, int]:
        """A new folder for the job, open and locked: its name and descriptor."""
        with _plain_errors(self._root):
            while True:
                # `scanmd once` numbers its jobs too, and may share the work folder.
                name = f"job-{job_id}-{secrets.token_hex(4)}"
                root_fd = self._open_root()
                try:
                    os.mkdir(name, 0o700, dir_fd=root_fd)
                    with suppress(FileNotFoundError):
                        fd = os.open(name, _OPEN_FOLDER, dir_fd=root_fd)
                        if _lock(fd) and _is_entry(root_fd, name, fd):
                            return name, fd
                        # A purge took it between two of these calls.
                        os.close(fd)
                finally:
                    os.close(root_fd)

    def _remove_own(self, name: str, fd: int) -> None:
        root_fd = os.open(self._root, _OPEN_FOLDER)
        try:
            if _is_entry(root_fd, name, fd):
                os.rmdir(name, dir_fd=root_fd)
        finally:
            os.close(root_fd)

    def _purge_entry(
        self, root_fd: int, name: str, oldest_s: float, newest_s: float, purged: Purged
    ) -> None:
        information = os.stat(name, dir_fd=root_fd, follow_symlinks=False)
        if not stat.S_ISDIR(information.st_mode):
            # A time in the future comes from a clock that was wrong.
            if not oldest_s < information.st_mtime < newest_s:
                os.unlink(name, dir_fd=root_fd)
                purged.entries += 1
                purged.size_bytes += information.st_size
            return
        device = os.fstat(root_fd).st_dev
        if information.st_dev != device:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), name)
        fd = os.open(name, _OPEN_FOLDER, dir_fd=root_fd)
        try:
            live = not _lock(fd)
            if not live and not oldest_s < _newest_s(fd) < newest_s:
                _empty(fd, device, purged)
                os.rmdir(name, dir_fd=root_fd)
                purged.entries += 1
        finally:
            os.close(fd)


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_entry(root_fd: int, name: str, fd: int) -> bool:
    """Whether the open folder is still the one under that name."""
    mine = os.fstat(fd)
    try:
        there = os.stat(name, dir_fd=root_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)


def _names(fd: int) -> list[str]:
    with os.scandir(fd) as entries:
        return [entry.name for entry in entries]


def _newest_s(fd: int) -> float:
    """The last change to a folder or to anything directly in it."""
    times = [os.fstat(fd).st_mtime]
    with os.scandir(fd) as entries:
        times += [entry.stat(follow_symlinks=False).st_mtime for entry in entries]
    return max(times)


def _empty(fd: int, device: int, purged: Purged, depth: int = 0) -> None:
    """Remove everything in a folder, on its own file system only."""
    for name in _names(fd):
        information = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if not stat.S_ISDIR(information.st_mode):
            os.unlink(name, dir_fd=fd)
            purged.size_bytes += information.st_size
            continue
        if information.st_dev != device or depth >= _DEPTH_MAX:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), name)
        below = os.open(name, _OPEN_FOLDER, dir_fd=fd)
        try:
            _empty(below, device, purged, depth + 1)
        finally:
            os.close(below)
        os.rmdir(name, dir_fd=fd)


@contextmanager
def _plain_errors(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise NoSpace(f"The disk with the work folder {root} is full. Free some.") from error
        raise StateUnusable(
            f"The work folder {root} cannot be used: {error.strerror}. Check that state_dir is "
            "on a working disk and belongs to the user that scanmd runs as."
        ) from error
