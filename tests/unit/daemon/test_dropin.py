"""The drop-in that opens the configured folders."""

from __future__ import annotations

import grp
import os
from pathlib import Path

import pytest

from daemon.dropin import mount_unit_name, systemd_dropin
from daemon.settings import Settings


def dropin(tmp_path, *inboxes, fstab="", **settings):
    table = tmp_path / "fstab"
    table.write_text(fstab)
    return systemd_dropin(
        Settings(inboxes=inboxes, **settings), fstab=table, mountinfo=tmp_path / "none"
    ).splitlines()


def test_folders_are_opened_as_far_as_needed(tmp_path):
    lines = dropin(
        tmp_path,
        {"path": "/srv/beside"},
        {"path": "/srv/readonly", "outbox": "/srv/texts"},
        {"path": "/srv/moved", "outbox": "/srv/texts", "after": "archive", "archive": "/srv/old"},
    )
    assert {line for line in lines if "Paths=" in line} == {
        'ReadWritePaths="-/srv/beside"',
        'ReadWritePaths="-/srv/texts"',
        'ReadWritePaths="-/srv/moved"',
        'ReadWritePaths="-/srv/old"',
        'ReadOnlyPaths="-/srv/readonly"',
    }
    assert not [line for line in lines if line.startswith(("RequiresMountsFor", "ProtectHome"))]


def test_names_are_escaped_as_unit_files_want_it(tmp_path):
    lines = dropin(tmp_path, {"path": '/srv/100% "ä" \\ $x'})
    assert 'ReadWritePaths="-/srv/100%% \\"ä\\" \\\\ $x"' in lines


def test_a_chosen_state_folder_is_opened_and_required(tmp_path):
    lines = dropin(tmp_path, {"path": "/srv/a"}, state_dir="/data/my state")
    assert 'RequiresMountsFor="/data/my state"' in lines
    assert 'ReadWritePaths="-/data/my state"' in lines


def test_a_share_is_wanted_but_not_required(tmp_path):
    fstab = "//nas/s /srv/my\\040share cifs nofail 0 0\nUUID=1 / ext4 defaults 0 1\n"
    lines = dropin(tmp_path, {"path": "/srv/my share/in"}, {"path": "/srv/local"}, fstab=fstab)
    assert "Wants=srv-my\\x20share.mount" in lines
    assert "After=srv-my\\x20share.mount" in lines
    assert sum(line.startswith("Wants=") for line in lines) == 1


def test_hardening_is_relaxed_only_for_what_is_configured(tmp_path):
    lines = dropin(tmp_path, {"path": "/home/anna/scans", "outbox": "/tmp/out", "group": "office"})
    assert {"ProtectHome=read-only", "PrivateTmp=no", "SystemCallFilter=@chown"} <= set(lines)
    assert "SupplementaryGroups=office" in lines


def test_the_group_of_a_share_is_joined_if_that_gives_the_right(tmp_path):
    if os.geteuid():
        pytest.skip("needs root, to give a folder to a group")
    group = next(entry for entry in grp.getgrall() if entry.gr_gid not in (0, 65534))
    folder = tmp_path / "share"
    folder.mkdir()
    os.chown(folder, 0, group.gr_gid)
    folder.chmod(0o2770)
    assert f"SupplementaryGroups={group.gr_name}" in dropin(tmp_path, {"path": folder})
    folder.chmod(0o2777)
    assert f"SupplementaryGroups={group.gr_name}" not in dropin(tmp_path, {"path": folder})


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("/srv/scans", "srv-scans.mount"),
        ("/srv/my scänß-a/.b%", "srv-my\\x20sc\\xc3\\xa4n\\xc3\\x9f\\x2da-.b\\x25.mount"),
        ("/.hidden", "\\x2ehidden.mount"),
    ],
)
def test_mount_units_are_named_as_systemd_escape_does(path, unit):
    assert mount_unit_name(Path(path)) == unit
