"""The folders of the settings: none feeds another, and each can be used."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from daemon.settings_models import Inbox, Settings


@dataclass(frozen=True, slots=True)
class FolderProblem:
    """A folder that cannot be used as it stands now."""

    key: str
    """The setting, for example `inboxes[0].outbox`."""
    path: Path
    reason: str
    """One sentence: what is wrong and what to do."""
    fatal: bool
    """Waiting will not help: `scanmd run` refuses to start."""

    def __str__(self) -> str:
        """The setting, its value, and what is wrong with it."""
        return f"{self.key} = {self.path}: {self.reason}."


def refuse_loops(settings: Settings) -> None:
    """Refuse folders of which one would feed another. Looks at no disk.

    Raises:
        ValueError: Saying which two settings contradict each other.
    """
    inboxes = list(enumerate(settings.inboxes))
    for index, inbox in inboxes:
        here = f"inboxes[{index}]"
        for other_index, other in inboxes[:index]:
            _refuse_two_inboxes(inbox, other, here, f"inboxes[{other_index}]")
        for key, own in (("state_dir", settings.state_dir), ("cache_dir", settings.cache_dir)):
            if own.is_relative_to(inbox.path) or inbox.path.is_relative_to(own):
                raise ValueError(
                    f'{key} = "{own}" and {here}.path = "{inbox.path}" overlap; '
                    "our own files would be taken for scans"
                )
        for target_index, target in inboxes:
            _refuse_feeding(inbox, here, target, f"inboxes[{target_index}]")


def _refuse_two_inboxes(inbox: Inbox, other: Inbox, here: str, there: str) -> None:
    if inbox.path == other.path:
        raise ValueError(
            f'{here}.path = "{inbox.path}" is the same folder as {there}.path; '
            "a folder can have one set of rules only"
        )
    for inner, outer, inner_key, outer_key in (
        (inbox, other, here, there),
        (other, inbox, there, here),
    ):
        if outer.recursive and inner.path.is_relative_to(outer.path):
            raise ValueError(
                f'{inner_key}.path = "{inner.path}" lies inside {outer_key}.path = '
                f'"{outer.path}", which is read recursively; every file would be read twice'
            )


def _refuse_feeding(inbox: Inbox, here: str, target: Inbox, there: str) -> None:
    """`target` must not put results or archived sources where `inbox` looks."""
    for name in ("outbox", "archive"):
        folder: Path | None = getattr(target, name)
        if folder is None:
            continue
        watched = folder.is_relative_to(inbox.path) if inbox.recursive else folder == inbox.path
        if watched:
            remedy = "leave it out to write beside the source" if name == "outbox" else "move it"
            raise ValueError(
                f'{there}.{name} = "{folder}" lies inside {here}.path = "{inbox.path}"; '
                f"what is written there would be taken for a new scan: {remedy}"
            )


def check_folders(settings: Settings) -> list[FolderProblem]:
    """What is wrong now with the folders of the settings, the worst first.

    A missing inbox is not fatal: a share may mount late, and then the daemon
    pauses that inbox and says so. It is fatal only where nothing can mount it: no
    such path, and neither fstab nor a running mount covers it or what is above
    it. Two settings that name one folder by two paths (a symbolic link, a bind
    mount) are fatal, for that is a loop or a double reading.
    """
    problems = [
        *_same_folder(settings),
        *(problem for index, inbox in enumerate(settings.inboxes)
          for problem in _check_inbox(inbox, f"inboxes[{index}]")),
    ]  # fmt: skip
    return sorted(problems, key=lambda problem: not problem.fatal)


def _check_inbox(inbox: Inbox, key: str) -> Iterator[FolderProblem]:
    yield from _check(inbox.path, f"{key}.path", os.R_OK | os.X_OK, "read")
    writes = os.W_OK | os.X_OK
    if inbox.outbox is not None:
        yield from _check(inbox.outbox, f"{key}.outbox", writes, "written to")
    else:
        yield from _check_rights(inbox.path, f"{key}.path", writes,
            "written to, and without an outbox the results go there")  # fmt: skip
    if inbox.archive is not None:
        yield from _check(inbox.archive, f"{key}.archive", writes, "written to")
    if inbox.after != "keep" and inbox.outbox is not None:
        yield from _check_rights(inbox.path, f"{key}.path", writes,
            f"written to, which after: {inbox.after} needs")  # fmt: skip


def _check(path: Path, key: str, rights: int, use: str) -> Iterator[FolderProblem]:
    if not os.path.lexists(path):
        reason = (
            "the folder does not exist (yet); it is waited for"
            if may_be_mounted(path)
            else "the folder does not exist; make it, or correct the path"
        )
        yield FolderProblem(key, path, reason, fatal=not may_be_mounted(path))
    elif not path.is_dir():
        yield FolderProblem(key, path, "this is not a folder; name a folder", fatal=True)
    else:
        yield from _check_rights(path, key, rights, use)


def _check_rights(path: Path, key: str, rights: int, use: str) -> Iterator[FolderProblem]:
    if path.is_dir() and not os.access(path, rights):
        yield FolderProblem(
            key, path,
            f"the folder cannot be {use}; give the user {_user()} the right, for "
            'example through a group (see "scanmd systemd-dropin")',
            fatal=False,
        )  # fmt: skip


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _same_folder(settings: Settings) -> Iterator[FolderProblem]:
    """Inboxes that are one folder under two paths."""
    seen: dict[tuple[int, int], str] = {}
    for index, inbox in enumerate(settings.inboxes):
        key = f"inboxes[{index}].path"
        identity = _identity(inbox.path)
        if identity is None:
            continue
        if identity in seen:
            reason = f"this is the same folder as {seen[identity]} under another path"
            yield FolderProblem(key, inbox.path, reason, fatal=True)
        seen[identity] = key
    for index, inbox in enumerate(settings.inboxes):
        identity = _identity(inbox.outbox)
        if inbox.outbox is not None and identity is not None and identity in seen:
            reason = (
                f"this is the inbox {seen[identity]} under another path; results would be "
                "taken for scans"
            )
            yield FolderProblem(f"inboxes[{index}].outbox", inbox.outbox, reason, fatal=True)


def _identity(folder: Path | None) -> tuple[int, int] | None:
    try:
        status = folder.stat() if folder else None
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status else None


def may_be_mounted(path: Path, fstab: Path = Path("/etc/fstab")) -> bool:
    """Whether a mount, present or promised in fstab, covers `path` other than `/`.

    `/media`, `/mnt`, `/net`, `/run/media` count as promises: removable disks and
    automounters appear there without an entry.
    """
    if any(path.is_relative_to(root) for root in ("/media", "/mnt", "/net", "/run/media")):
        return True
    points = {parent for parent in (path, *path.parents) if parent != Path("/")}
    if any(point.is_mount() for point in points):
        return True
    try:
        lines = fstab.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    fields = [line.split() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    promised = {Path(field[1].replace("\\040", " ")) for field in fields if len(field) > 1}
    return bool(points & promised)
