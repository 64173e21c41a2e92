"""The unit's hardening, in force in a booted Debian (issue reports 25 and 27 among them)."""

from __future__ import annotations

import json
import os
import time

import pytest

from tests.samples import page_image, write_pdf
from tests.system.container import wait_for

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]
SETTINGS = "inboxes:\n  - path: /srv/my scans 100%\n"
INBOX = "/srv/my scans 100%"
DROPIN = "/etc/systemd/system/scanmd.service.d"


@pytest.fixture(scope="module")
def probed(container):
    """What the probe found, run in place of the daemon under the real unit."""
    inbox = container.path(INBOX)
    inbox.mkdir()
    container.path("/srv/other").mkdir()
    container.path("/srv/other").chmod(0o777)
    inbox.chmod(0o777)
    write_pdf(inbox / "page.pdf", [page_image("Invoice number 4711\n\nThank you very much.")])
    os.chown(inbox / "page.pdf", 12345, 12345)
    container.path("/etc/scanmd/scanmd.yaml").write_text(SETTINGS)
    folder = container.path(DROPIN)
    folder.mkdir(parents=True, exist_ok=True)
    python = "/opt/scanmd/venv/bin/python"
    text = container.run(
        python, "-c",
        "from pathlib import Path; from daemon.dropin import systemd_dropin;"
        "from daemon.settings import load_settings;"
        "print(systemd_dropin(load_settings(Path('/etc/scanmd/scanmd.yaml')).settings))",
    )  # fmt: skip
    (folder / "10-folders.conf").write_text(text)
    quoted = INBOX.replace("%", "%%")
    (folder / "99-probe.conf").write_text(
        f'[Service]\nExecStart=\nExecStart={python} /src/tests/system/probe.py "{quoted}"\n'
        "Environment=PYTHONDONTWRITEBYTECODE=1\n"
    )
    container.run("systemctl", "daemon-reload")
    container.run("systemctl", "start", "scanmd")
    result = json.loads((inbox / "result.json").read_text())
    yield result
    container.run("systemctl", "stop", "scanmd")
    (folder / "99-probe.conf").unlink()
    container.run("systemctl", "daemon-reload")


def test_the_engine_reads_under_the_hardened_unit(probed, container):
    log = container.run("journalctl", "--unit=scanmd", "--no-pager", "--output=cat")
    assert "4711" in probed["text"], log


def test_only_configured_folders_can_be_written(probed):
    assert probed["write_inbox"] == probed["write_state"] == "ok"
    assert probed["write_etc"] == probed["write_usr"] == "OSError"
    assert probed["write_other_folder"] == "OSError"


def test_there_is_no_network(probed):
    assert probed["interfaces"] == ["lo"]
    assert probed["inet"] == probed["netlink"] == "OSError"


def test_writers_of_other_owners_can_be_asked_for(probed):
    assert probed["uid"] != 0
    assert probed["lease_of_other_owner"] == "ok"


def test_no_homes_no_namespaces_no_disks(probed):
    assert probed["home"] == "PermissionError"
    assert probed["unshare"] == -1
    assert not [name for name in probed["devices"] if name.startswith(("vd", "sd", "nvidia"))]


def test_the_status_arrives_with_every_character(probed, container):
    assert container.show("scanmd", "ActiveState") == "active"
    assert container.show("scanmd", "StatusText") == "probed · größer €"


def test_tmpfiles_removes_old_work_but_no_live_job(container, probed):
    work = container.path("/var/lib/scanmd/work")
    assert work.stat().st_mode & 0o777 == 0o700
    for name in ("live", "dead", "new"):
        (work / name).mkdir()
        (work / name / "page.png").write_bytes(b"x")
    container.run("sh", "-c", "cp -a /var/lib/scanmd/work/dead /var/lib/scanmd/work/live /tmp")
    holder = container.run(
        "sh", "-c",
        "flock /var/lib/scanmd/work/live sleep 120 >/dev/null 2>&1 & echo $!",
    ).strip()  # fmt: skip
    # Age by birth and inode change cannot be set, so the rule's age is shortened instead.
    rule = container.path("/usr/local/lib/tmpfiles.d/scanmd.conf").read_text()
    assert "bcm:3d" in rule
    container.run("systemd-tmpfiles", "--clean", "/usr/local/lib/tmpfiles.d/scanmd.conf")
    assert {path.name for path in work.iterdir()} == {"live", "dead", "new"}
    container.path("/tmp/short.conf").write_text(rule.replace("bcm:3d", "bcm:1s"))
    time.sleep(2.1)
    (work / "fresh").mkdir()
    container.run("systemd-tmpfiles", "--clean", "/tmp/short.conf")
    left = {path.name for path in work.iterdir()}
    container.run("kill", holder, check=False)
    assert left == {"live", "fresh"}
    assert (work / "live/page.png").exists()


def test_stopping_is_quick_and_clean(container, probed):
    container.run("systemctl", "stop", "scanmd")
    wait_for(lambda: container.show("scanmd", "ActiveState") in ("inactive", "failed"), 20, "stop")
