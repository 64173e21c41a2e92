"""The systemd drop-in that opens the configured folders to the hardened service."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from daemon.settings import AfterDelivery, Inbox, Settings

DROPIN_PATH = "/etc/systemd/system/scanmd.service.d/10-folders.conf"
_HOMES = tuple(Path(name) for name in ("/home", "/root", "/run/user"))
_TEMPORARY = tuple(Path(name) for name in ("/tmp", "/var/tmp"))  # noqa: S108 - recognised, not used
_OWN = tuple(Path(name) for name in ("/var/lib/scanmd", "/var/cache/scanmd"))
_MOUNTINFO = Path("/proc/self/mountinfo")
_FSTAB = Path("/etc/fstab")


def systemd_dropin(
    settings: Settings, *, user: str = "scanmd", fstab: Path = _FSTAB, mountinfo: Path = _MOUNTINFO
) -> str:
    """The text of the drop-in for these settings, to be put at `DROPIN_PATH`.

    Folders that are missing now are named all the same ("-": no error), so that a
    share may mount late. For the same reason shares are `Wants=`, not
    `RequiresMountsFor=`: a share that fails pauses its inbox, and must not keep the
    service from starting. State and cache are required.

    Args:
        settings: The settings in force.
        user: The user that the unit runs as; decides which groups it lacks.
        fstab: Mounts that are promised.
        mountinfo: Mounts that are there.
    """
    written, read = _folders(settings)
    # Left at their defaults, they are StateDirectory= and CacheDirectory= of the unit.
    chosen = settings.model_fields_set & {"state_dir", "cache_dir"}
    own = [
        path for path in (getattr(settings, name) for name in sorted(chosen)) if path not in _OWN
    ]
    everything = [*written, *read, *own]
    mounts = _mount_units(everything, fstab, mountinfo)
    lines = [
        "# Made by: scanmd systemd-dropin",
        "# Make it again after changing a folder in the settings, then:",
        "#   systemctl daemon-reload && systemctl restart scanmd",
        "[Unit]",
    ]
    lines += [f"RequiresMountsFor={_quoted(path)}" for path in own]
    lines += [line for unit in mounts for line in (f"Wants={unit}", f"After={unit}")]
    lines += ["", "[Service]"]
    lines += [f"ReadWritePaths={_quoted(path, '-')}" for path in (*written, *own)]
    lines += [f"ReadOnlyPaths={_quoted(path, '-')}" for path in read]
    lines += [f"SupplementaryGroups={name}" for name in _groups(settings, written, read, user)]
    lines += _relaxations(settings, everything)
    return "\n".join(lines) + "\n"


def _folders(settings: Settings) -> tuple[list[Path], list[Path]]:
    """The folders that are written to, and those that are only read."""
    written: dict[Path, None] = {}
    for inbox in settings.inboxes:
        if _writes_into(inbox):
            written[inbox.path] = None
        written |= dict.fromkeys(path for path in (inbox.outbox, inbox.archive) if path)
    read = {inbox.path: None for inbox in settings.inboxes if inbox.path not in written}
    return list(written), list(read)


def _writes_into(inbox: Inbox) -> bool:
    return inbox.outbox is None or inbox.after is not AfterDelivery.KEEP


def _quoted(path: Path, prefix: str = "") -> str:
    r"""`path` as one word of a unit file: quotes, `\` and `%` escaped.

    Source: systemd.syntax(7) "Quoting", systemd.unit(5) "Specifiers".
    """
    text = os.fspath(path).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{prefix}{text}"'


def _groups(
    settings: Settings, written: Iterable[Path], read: Iterable[Path], user: str
) -> list[str]:
    """Groups through which the service reaches the folders, and those it must give."""
    names = {inbox.group: None for inbox in settings.inboxes if inbox.group}
    for path, need in (
        *((path, 0o030) for path in written),
        *((path, 0o050) for path in read),
    ):
        name = _helpful_group(path, need, user)
        if name:
            names[name] = None
    return [name for name in names if name and name != user]


def _helpful_group(path: Path, need: int, user: str) -> str | None:
    """The folder's group, if belonging to it is what gives the right `need`.

    Args:
        path: The folder.
        need: Bits of the group in the mode, such as 0o030 (write and enter).
        user: The service's user.
    """
    try:
        status = path.stat()
        owner = pwd.getpwuid(status.st_uid).pw_name
    except (OSError, KeyError):
        owner = ""
        if not path.is_dir():
            return None
        status = path.stat()
    others_may = stat.S_IMODE(status.st_mode) & (need >> 3) == need >> 3
    if owner == user or others_may or status.st_gid == 0 or status.st_mode & need != need:
        return None
    try:
        return grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        return str(status.st_gid)


def _relaxations(settings: Settings, paths: list[Path]) -> Iterator[str]:
    """Hardening that these settings cannot live with, and why."""
    if any(inbox.group for inbox in settings.inboxes):
        yield "# Results are given to a group (setting group)."
        yield "SystemCallFilter=@chown"
    if any(path.is_relative_to(home) for path in paths for home in _HOMES):
        yield "# A folder lies below /home, /root or /run/user."
        yield "ProtectHome=read-only"
    if any(path.is_relative_to(temporary) for path in paths for temporary in _TEMPORARY):
        yield "# A folder lies below /tmp or /var/tmp, of which the service has its own."
        yield "PrivateTmp=no"


def _mount_units(paths: Iterable[Path], fstab: Path, mountinfo: Path) -> list[str]:
    """The mount units that hold the folders, root file system and /var excepted."""
    points = {*_mount_points(fstab, 1), *_mount_points(mountinfo, 4)} - {Path("/")}
    units: dict[str, None] = {}
    for path in paths:
        holding = [point for point in points if path.is_relative_to(point)]
        if holding:
            deepest = max(holding, key=lambda point: len(point.parts))
            units[mount_unit_name(deepest)] = None
    return list(units)


def _mount_points(table: Path, column: int) -> Iterator[Path]:
    r"""The mount points of fstab or mountinfo; both write a space as `\040`."""
    try:
        lines = table.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        fields = line.split()
        if len(fields) > column and not line.lstrip().startswith(b"#"):
            raw = fields[column].replace(b"\\040", b" ").replace(b"\\011", b"\t")
            path = Path(os.fsdecode(raw.replace(b"\\134", b"\\")))
            if path.is_absolute():
                yield path


def mount_unit_name(path: Path) -> str:
    r"""`/srv/my scans` → `srv-my\x20scans.mount`.

    Source: systemd.unit(5) "String escaping for inclusion in unit names".
    """
    raw = os.fsencode(path).strip(b"/")
    out = []
    for index, byte in enumerate(raw):
        char = chr(byte)
        if char == "/":
            out.append("-")
        elif (char.isascii() and char.isalnum()) or char in ":_" or (char == "." and index):
            out.append(char)
        else:
            out.append(f"\\x{byte:02x}")
    return "".join(out) + ".mount"
