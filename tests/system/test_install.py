"""The installer: again without harm, away without a trace."""

from __future__ import annotations

import os

import pytest

from tests.system import container as box

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]
OURS = (
    "opt/scanmd", "usr/local/bin/scanmd", "usr/local/lib/systemd/system/scanmd.service",
    "usr/local/lib/tmpfiles.d/scanmd.conf", "usr/local/lib/sysusers.d/scanmd.conf",
)  # fmt: skip


@pytest.fixture
def system(installed):
    """(root, install again): an installed system that is not running."""
    _, lock, wheels, _ = installed
    folder = box.CACHE / "offline"
    box.unmount(folder)
    root = box.overlay([box.CACHE / "installed/upper", box.CACHE / "rootfs"], folder)
    try:
        yield root, lambda *options: box.install(root, lock, wheels, *options)
    finally:
        box.unmount(folder)


def test_everything_is_in_place(system):
    root, _ = system
    for name in OURS:
        assert os.path.lexists(root / name), name
    settings = root / "etc/scanmd/scanmd.yaml"
    assert settings.stat().st_mode & 0o777 == 0o640
    assert "scanmd:" in (root / "etc/passwd").read_text()
    wanted = root / "etc/systemd/system/multi-user.target.wants/scanmd.service"
    assert wanted.is_symlink()


def test_installing_again_keeps_edited_settings_and_own_dropins(system):
    root, install = system
    settings = root / "etc/scanmd/scanmd.yaml"
    settings.write_text("inboxes: [{path: /srv/mine}]\n")
    own = root / "etc/systemd/system/scanmd.service.d/50-own.conf"
    own.write_text("[Service]\nNice=10\n")
    done = install()
    assert done.returncode == 0, done.stderr
    assert settings.read_text() == "inboxes: [{path: /srv/mine}]\n"
    assert own.exists()
    assert (root / "opt/scanmd/share/scanmd.yaml").exists()


def test_uninstalling_keeps_settings_and_ledger_until_purged(system):
    root, install = system
    ledger = root / "var/lib/scanmd/ledger.sqlite3"
    ledger.parent.mkdir(exist_ok=True)
    ledger.touch()
    done = install("--uninstall")
    assert done.returncode == 0, done.stderr
    assert [name for name in OURS if os.path.lexists(root / name)] == []
    assert ledger.exists()
    assert (root / "etc/scanmd/scanmd.yaml").exists()
    done = install("--uninstall", "--purge")
    assert done.returncode == 0, done.stderr
    assert not ledger.exists()
    assert not (root / "etc/scanmd").exists()
    assert "scanmd:" not in (root / "etc/passwd").read_text()


def test_a_missing_lock_file_is_named(system):
    root, _ = system
    done = box.install(root, "/none.lock", box.CACHE / "wheels")
    assert done.returncode == 1
    assert "there is no lock file /none.lock" in done.stderr
