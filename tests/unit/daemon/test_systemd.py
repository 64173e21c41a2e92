"""What systemd is told, over real sockets."""

from __future__ import annotations

import os
import secrets
import socket

import pytest

from daemon.systemd import Notifier


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path):
    """A socket as systemd holds it; yields (address, receive)."""
    address = str(tmp_path / "notify") if request.param == "path" else f"@{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address.replace("@", "\0", 1) if address[0] == "@" else address)
        listener.settimeout(5)
        yield address, lambda: listener.recv(4096).decode().split("\n")


def test_every_message_arrives_whole(manager):
    address, receive = manager
    environ = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "30000000"}
    notifier = Notifier(environ, monotonic=lambda: 12.5)
    notifier.ready("watching 2 folders")
    assert receive() == ["READY=1", "STATUS=watching 2 folders"]
    notifier.watchdog()
    assert receive() == ["WATCHDOG=1"]
    notifier.watchdog_trigger()
    assert receive() == ["WATCHDOG=trigger"]
    notifier.extend_timeout(30.5)
    assert receive() == ["EXTEND_TIMEOUT_USEC=30500000"]
    notifier.reloading()
    assert receive() == ["RELOADING=1", "MONOTONIC_USEC=12500000"]
    notifier.stopping()
    assert receive() == ["STOPPING=1"]


def test_a_file_name_cannot_forge_a_message_nor_get_lost(manager):
    address, receive = manager
    notifier = Notifier({"NOTIFY_SOCKET": address})
    notifier.status("page 1/2 Größe 5 € 📄\nREADY=1\x1b[31m\udcff.pdf · 3 queued")
    assert receive() == ["STATUS=page 1/2 Größe 5 € 📄�READY=1�[31m�.pdf · 3 queued"]


def test_a_status_is_sent_once(manager):
    address, receive = manager
    notifier = Notifier({"NOTIFY_SOCKET": address})
    notifier.status("idle")
    notifier.status("idle")
    notifier.status("page 1")
    assert [receive(), receive()] == [["STATUS=idle"], ["STATUS=page 1"]]


@pytest.mark.parametrize("address", ["", "vsock:1:2", "/nonexistent/socket"])
def test_without_a_manager_nothing_happens(address):
    notifier = Notifier({"NOTIFY_SOCKET": address})
    notifier.ready("x")
    notifier.watchdog()
    assert notifier.watchdog_s is None


@pytest.mark.parametrize(
    ("pid", "usec", "limit_s"),
    [(None, "2000000", 2.0), (os.getpid(), "2000000", 2.0), (1, "2000000", None),
     (None, "0", None), (None, "soon", None)],
)  # fmt: skip
def test_the_watchdog_counts_only_if_it_is_meant_for_us(pid, usec, limit_s):
    environ = {"WATCHDOG_USEC": usec} | ({"WATCHDOG_PID": str(pid)} if pid else {})
    assert Notifier(environ).watchdog_s == limit_s
