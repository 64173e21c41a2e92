"""Folders: what `config check` reports, and what the daemon waits for."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.settings import Settings, check_folders
from daemon.settings_folders import may_be_mounted


def settings_for(tmp_path, *inboxes):
    return Settings(inboxes=inboxes, state_dir=tmp_path / "state", cache_dir=tmp_path / "cache")


def test_usable_folders_have_no_problem(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    inbox = {"path": tmp_path / "in", "outbox": tmp_path / "out"}
    assert check_folders(settings_for(tmp_path, inbox)) == []


def test_a_folder_that_nothing_can_mount_is_a_mistake(tmp_path, monkeypatch):
    monkeypatch.setattr("daemon.settings_folders.may_be_mounted", lambda path: False)
    (problem,) = check_folders(settings_for(tmp_path, {"path": tmp_path / "in"}))
    assert problem.fatal
    assert problem.key == "inboxes[0].path"
    assert "does not exist; make it" in problem.reason


def test_a_share_that_mounts_late_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("daemon.settings_folders.may_be_mounted", lambda path: True)
    (problem,) = check_folders(settings_for(tmp_path, {"path": tmp_path / "in"}))
    assert not problem.fatal
    assert "waited for" in problem.reason


def test_a_file_in_place_of_a_folder_is_fatal(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").write_text("")
    inbox = {"path": tmp_path / "in", "outbox": tmp_path / "out"}
    (problem,) = check_folders(settings_for(tmp_path, inbox))
    assert (problem.key, problem.fatal) == ("inboxes[0].outbox", True)


def test_one_inbox_under_two_names_is_fatal(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "in")
    inboxes = ({"path": tmp_path / "in"}, {"path": tmp_path / "alias"})
    (problem,) = check_folders(settings_for(tmp_path, *inboxes))
    assert problem.fatal
    assert "same folder as inboxes[0].path" in problem.reason


def test_an_outbox_that_is_an_inbox_by_symlink_is_fatal(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "in")
    inbox = {"path": tmp_path / "in", "outbox": tmp_path / "out"}
    (problem,) = check_folders(settings_for(tmp_path, inbox))
    assert problem.fatal
    assert "taken for scans" in problem.reason


@pytest.mark.parametrize(
    ("rights", "rest", "said"),
    [
        (0o5, {}, "without an outbox the results go there"),
        (0o5, {"outbox": "/", "after": "delete"}, "which after: delete needs"),
        (0o0, {"outbox": "/"}, "cannot be read"),
    ],
)
def test_missing_rights_are_named_but_wait(tmp_path, monkeypatch, rights, rest, said):
    (tmp_path / "in").mkdir()
    # Root may do everything, so the kernel's answer is replaced.
    monkeypatch.setattr(
        "os.access",
        lambda path, mode: path != tmp_path / "in" or mode & rights == mode,
    )
    problems = check_folders(settings_for(tmp_path, {"path": tmp_path / "in", **rest}))
    assert problems
    assert not any(problem.fatal for problem in problems)
    assert any(said in problem.reason for problem in problems)


def test_fstab_promises_a_mount(tmp_path):
    fstab = tmp_path / "fstab"
    fstab.write_text("# comment\n//nas/scans /srv/my\\040scans cifs nofail 0 0\nUUID=1 / ext4\n")
    assert may_be_mounted(Path("/srv/my scans/in"), fstab)
    assert not may_be_mounted(Path("/srv/other"), fstab)
    assert not may_be_mounted(Path("/srv/other"), tmp_path / "none")
