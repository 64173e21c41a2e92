"""The service as an administrator meets it: started, used, stopped, set wrongly."""

from __future__ import annotations

import pytest

from tests.samples import page_image, write_pdf
from tests.system.container import wait_for

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]
INBOX = "/srv/my scans"
SETTINGS = f"inboxes:\n  - path: {INBOX}\nengine: rapid\nsettle_short_s: 1\n"


@pytest.fixture(scope="module")
def service(container):
    """The service, set up with the commands that the README names."""
    inbox = container.path(INBOX)
    inbox.mkdir()
    inbox.chmod(0o777)
    container.path("/etc/scanmd/scanmd.yaml").write_text(SETTINGS)
    folder = container.path("/etc/systemd/system/scanmd.service.d")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "10-folders.conf").write_text(container.run("scanmd", "systemd-dropin"))
    container.run("systemctl", "daemon-reload")
    container.run("systemctl", "reset-failed", "scanmd", check=False)
    container.run("systemctl", "restart", "scanmd")
    return container


def test_it_is_ready_and_says_what_it_does(service):
    assert service.show("scanmd", "ActiveState") == "active"
    assert service.show("scanmd", "StatusText")


def test_a_scan_becomes_markdown(service):
    inbox = service.path(INBOX)
    write_pdf(inbox / "invoice.pdf", [page_image("Invoice number 4711\n\nThank you very much.")])
    wait_for((inbox / "invoice.mmd").exists, 120, "invoice.mmd")
    assert "4711" in (inbox / "invoice.mmd").read_text()
    assert (inbox / "invoice.pdf").exists()


def test_it_stops_cleanly(service):
    service.run("systemctl", "stop", "scanmd")
    assert service.show("scanmd", "Result") == "success"
    assert service.show("scanmd", "ExecMainStatus") == "0"
    service.run("systemctl", "start", "scanmd")


def test_a_killed_daemon_is_started_again(service):
    before = service.show("scanmd", "MainPID")
    service.run("kill", "-KILL", before)
    wait_for(
        lambda: service.show("scanmd", "ActiveState") == "active"
        and service.show("scanmd", "MainPID") != before,
        60, "the restart",
    )  # fmt: skip


def test_wrong_settings_end_it_for_good(service):
    settings = service.path("/etc/scanmd/scanmd.yaml")
    settings.write_text(f"{SETTINGS}engin: rapid\n")
    service.run("systemctl", "restart", "scanmd", check=False)
    wait_for(lambda: service.show("scanmd", "ActiveState") == "failed", 60, "the failure")
    assert service.show("scanmd", "ExecMainStatus") == "78"
    assert service.show("scanmd", "NRestarts") == "0"
    log = service.run("journalctl", "--unit=scanmd", "--no-pager", "--output=cat", "-n", "20")
    assert "did you mean engine?" in log
    settings.write_text(SETTINGS)
