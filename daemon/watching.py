"""Noticing changes in one inbox. Events are hints; scans are the truth."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress

from watchdog.events import (
    DirCreatedEvent,
    DirMovedEvent,
    FileClosedNoWriteEvent,
    FileOpenedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from daemon.settings import Inbox

_REMOTE = ("nfs", "cifs", "smb", "fuse", "9p", "afs", "ceph", "vboxsf", "virtiofs", "lustre",
           "gfs", "ocfs", "ncp", "davfs", "sshfs", "glusterfs", "prl_fs", "vmhgfs")  # fmt: skip
"""File systems that other machines change without our kernel being told."""
_LOCAL_FUSE = frozenset({"fuseblk"})
"""Local disks (NTFS, exFAT): only this machine writes to them."""
_MOUNTINFO = "/proc/self/mountinfo"
_WATCHES = "fs.inotify.max_user_watches or fs.inotify.max_user_instances"


def filesystem_of(path: bytes, mountinfo: str = _MOUNTINFO) -> str:
    """The type of the file system that a folder lies on ("ext4", "cifs")."""
    target = os.path.realpath(path)
    best, kind = b"", "unknown"
    for point, filesystem in _mounts(mountinfo):
        inside = target == point or target.startswith(point.rstrip(b"/") + b"/")
        if inside and len(point) >= len(best):
            best, kind = point, filesystem
    return kind


def must_poll(filesystem: str) -> bool:
    """Whether changes there can come without an event."""
    return filesystem not in _LOCAL_FUSE and filesystem.startswith(_REMOTE)


def has_remote_mount(inbox: Inbox, mountinfo: str = _MOUNTINFO) -> bool:
    """Whether a network share is mounted somewhere below the inbox."""
    root = os.path.realpath(os.fsencode(inbox.path)).rstrip(b"/") + b"/"
    return any(point.startswith(root) and must_poll(kind) for point, kind in _mounts(mountinfo))


def _mounts(mountinfo: str) -> Iterator[tuple[bytes, str]]:
    """Every mount point with its type; later ones lie over earlier ones."""
    with open(mountinfo, "rb") as table:  # noqa: PTH123 - a bytes path at heart
        for line in table:
            left, _, right = line.partition(b" - ")
            point = left.split()[4].decode("unicode_escape").encode("latin-1")
            yield point, right.split()[0].decode("ascii", "replace")


class _Hints(FileSystemEventHandler):
    def __init__(self, hint: Callable[[bytes], None], rescan: Callable[[str], None]) -> None:
        self._hint = hint
        self._rescan = rescan

    def on_any_event(self, event: FileSystemEvent) -> None:
        if isinstance(event, FileOpenedEvent | FileClosedNoWriteEvent):
            return  # our own reading looks like this
        if isinstance(event, DirCreatedEvent | DirMovedEvent):
            # What was put inside before the watch was there raised no event.
            self._rescan("a folder appeared")
        for path in (event.src_path, event.dest_path):
            if path:
                self._hint(os.fsencode(path))


class InboxWatcher:
    """Watches one inbox, natively where the kernel sees every change, else by polling."""

    def __init__(
        self, inbox: Inbox, on_hint: Callable[[bytes], None], on_rescan: Callable[[str], None]
    ) -> None:
        """Nothing is watched before `check_root`.

        Args:
            inbox: What to watch.
            on_hint: Is given paths that may have changed; called from other threads.
            on_rescan: Called when a full scan is due, with the reason.
        """
        self.inbox = inbox
        self.mode = "polling"
        self.mode_reason = ""
        self.paused: str | None = None
        self._on_hint = on_hint
        self._on_rescan = on_rescan
        self._observer: BaseObserver | None = None
        self._root: tuple[int, int] | None = None

    def check_root(self) -> None:
        """Pause if the folder is gone or unmounted; arm anew when it is back or replaced.

        A folder on the parent's file system where a mount used to be is a mount
        that went away: it looks empty, and nothing in it was deleted.
        """
        try:
            information = self.inbox.path.stat()
            with os.scandir(self.inbox.path):
                pass
        except OSError as error:
            self._pause(f"{self.inbox.path} cannot be read: {error.strerror}.")
            return
        root = (information.st_dev, information.st_ino)
        if self._root is not None and root[0] != self._root[0] and self._is_unmounted(root[0]):
            self._pause(f"{self.inbox.path} is not mounted any more.")
            return
        if self.paused is None and root == self._root and self._alive():
            return
        self.paused = None
        self._root = root
        self._arm()
        self._on_rescan("watching begins")

    def is_same_root(self) -> bool:
        """Whether the folder is still the one being watched: what it lacks is truly gone."""
        try:
            information = self.inbox.path.stat()
        except OSError:
            return False
        return self.paused is None and self._root == (information.st_dev, information.st_ino)

    def stop(self) -> None:
        """End watching."""
        observer, self._observer = self._observer, None
        if observer is not None:
            with suppress(RuntimeError):
                observer.stop()
                observer.join(timeout=5)

    def _alive(self) -> bool:
        return self.mode == "polling" or (self._observer is not None and self._observer.is_alive())

    def _is_unmounted(self, device: int) -> bool:
        return device == self.inbox.path.parent.stat().st_dev

    def _pause(self, reason: str) -> None:
        self.paused = reason
        self.stop()

    def _arm(self) -> None:
        self.stop()
        filesystem = filesystem_of(os.fsencode(self.inbox.path))
        self.mode, self.mode_reason = "native", f"{filesystem} is local"
        if self.inbox.watch == "polling":
            self.mode, self.mode_reason = "polling", "set in the settings"
        elif self.inbox.watch == "auto" and must_poll(filesystem):
            self.mode, self.mode_reason = "polling", f"{filesystem} is a network file system"
        elif self.inbox.watch == "auto" and has_remote_mount(self.inbox):
            self.mode, self.mode_reason = "polling", "a network share is mounted below it"
        if self.mode == "native":
            self._arm_native()

    def _arm_native(self) -> None:
        observer = Observer()
        handler = _Hints(self._on_hint, self._on_rescan)
        try:
            observer.schedule(handler, str(self.inbox.path), recursive=self.inbox.recursive)
            observer.start()
        except OSError as error:
            full = error.errno in {errno.ENOSPC, errno.EMFILE}
            self.mode = "polling"
            self.mode_reason = (
                f"the kernel's limit is reached; raise {_WATCHES}"
                if full
                else f"it cannot be watched: {error.strerror}"
            )
            return
        self._observer = observer
