"""How an inbox is watched, and what a vanished one looks like."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from daemon.settings import Inbox
from daemon.watching import InboxWatcher, filesystem_of, has_remote_mount, must_poll

_MOUNTINFO = (
    "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
    "40 22 0:50 / {inbox} rw,relatime shared:1 - {kind} //server/scans rw\n"
    "41 22 0:51 / {other}\\040folder rw - cifs //server/x rw\n"
)


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "ceph"])
def test_network_file_systems_are_polled(kind: str) -> None:
    assert must_poll(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "zfs", "fuseblk", "overlay"])
def test_local_file_systems_are_watched(kind: str) -> None:
    assert not must_poll(kind)


def test_the_innermost_mount_decides(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(_MOUNTINFO.format(inbox=tmp_path / "in", kind="cifs", other=tmp_path / "a"))
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "a folder").mkdir()
    assert filesystem_of(bytes(tmp_path / "in" / "sub"), str(table)) == "cifs"
    assert filesystem_of(bytes(tmp_path / "a folder"), str(table)) == "cifs"
    assert filesystem_of(bytes(tmp_path), str(table)) == "ext4"


def test_a_share_mounted_below_a_local_inbox_is_noticed(tmp_path: Path) -> None:
    # paperless-ngx#13146
    table = tmp_path / "mountinfo"
    table.write_text(_MOUNTINFO.format(inbox=tmp_path / "in/nas", kind="nfs4", other="/x"))
    assert has_remote_mount(Inbox(path=tmp_path / "in"), str(table))
    assert not has_remote_mount(Inbox(path=tmp_path / "elsewhere"), str(table))


def test_a_vanished_inbox_pauses_and_comes_back(tmp_path: Path) -> None:
    # syncthing#762: an unmounted disk looks like an empty folder
    folder = tmp_path / "in"
    folder.mkdir()
    reasons: list[str] = []
    watcher = InboxWatcher(Inbox(path=folder), lambda _: None, reasons.append)
    try:
        watcher.check_root()
        assert watcher.paused is None
        assert watcher.mode == "native"
        shutil.rmtree(folder)
        watcher.check_root()
        assert watcher.paused is not None
        assert str(folder) in watcher.paused
        folder.mkdir()
        watcher.check_root()
        assert watcher.paused is None
        assert len(reasons) >= 2, "a folder that came back must be searched"
    finally:
        watcher.stop()


def test_polling_can_be_asked_for(tmp_path: Path) -> None:
    watcher = InboxWatcher(Inbox(path=tmp_path, watch="polling"), lambda _: None, lambda _: None)
    watcher.check_root()
    assert (watcher.mode, watcher.mode_reason) == ("polling", "set in the settings")
