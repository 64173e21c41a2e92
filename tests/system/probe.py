"""Run as the service, inside of its unit: tries what must fail, and what must work.

Writes what happened to `result.json` in the inbox.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import socket
import sys
from pathlib import Path

from daemon.reader_pool import Reader
from daemon.systemd import Notifier
from ocr import ReadOptions


def outcome(action):
    """ "ok", or the name of the error."""
    try:
        return action() or "ok"
    except OSError as error:
        return type(error).__name__


def leases(path):
    """Whether a lease on another owner's file is given."""
    fd = os.open(path, os.O_RDONLY)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    os.close(fd)


def main():
    """Probe, report, then tell systemd that we are ready and wait for the end."""
    inbox, notifier = Path(sys.argv[1]), Notifier()
    notifier.extend_timeout(120)
    libc = ctypes.CDLL(None, use_errno=True)
    result = {
        "write_etc": outcome(lambda: Path("/etc/scanmd/x").write_text("x") and None),
        "write_usr": outcome(lambda: Path("/usr/x").write_text("x") and None),
        "write_other_folder": outcome(lambda: Path("/srv/other/x").write_text("x") and None),
        "write_inbox": outcome(lambda: (inbox / "x").write_text("x") and None),
        "write_state": outcome(lambda: Path("/var/lib/scanmd/x").write_text("x") and None),
        "inet": outcome(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()),
        "netlink": outcome(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close()),
        "interfaces": sorted(
            line.split(":")[0].strip()
            for line in Path("/proc/net/dev").read_text().splitlines()[2:]
        ),
        "home": outcome(lambda: next(Path("/home").iterdir(), None)),
        "lease_of_other_owner": outcome(lambda: leases(inbox / "page.pdf")),
        "unshare": libc.unshare(0x10000000),
        "devices": sorted(path.name for path in Path("/dev").iterdir()),
        "uid": os.getuid(),
    }
    try:
        with Reader(engine="rapid") as reader:
            reader.load()
            reader.open(inbox / "page.pdf", ReadOptions())
            page = reader.read_page(0)
            result["text"] = " ".join(block.text for block in page.blocks)
    except Exception as error:  # noqa: BLE001 - whatever it was, the test wants to see it
        result["text"] = f"{type(error).__name__}: {error}"
    (inbox / "result.json").write_text(json.dumps(result))
    notifier.ready("probed · größer €")
    signal.pause()


if __name__ == "__main__":
    main()
