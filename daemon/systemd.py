"""What the daemon tells systemd: READY, STATUS, WATCHDOG, more time.

Own lines instead of the `sdnotify` package: that one encodes Latin-1 and swallows
the error, so a STATUS with "€" or an emoji in a file name would silently be lost.

Source: sd_notify(3), systemd.service(5).
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

_STATUS_MAX = 512
_UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


class Notifier:
    """Speaks to the service manager; does nothing where there is none."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the socket and the watchdog's time from `environ` (default: ours)."""
        environ = os.environ if environ is None else environ
        self._address = environ.get("NOTIFY_SOCKET", "")
        self._monotonic = monotonic
        self._last_status: str | None = None
        self.watchdog_s = _watchdog_s(environ)
        """The watchdog's limit in seconds; None without one. Ping at half of it."""

    @property
    def active(self) -> bool:
        """Whether a service manager listens."""
        return self._address.startswith(("/", "@"))

    def ready(self, status: str = "") -> None:
        """Starting (or reloading) is over."""
        self._send("READY=1", *self._status_lines(status))

    def status(self, text: str) -> None:
        """One line for `systemctl status`; sent only when it changed."""
        lines = self._status_lines(text)
        if lines and lines[0] != self._last_status:
            self._last_status = lines[0]
            self._send(*lines)

    def watchdog(self) -> None:
        """Work advances. The caller decides that: never send this from a blind timer."""
        if self.watchdog_s is not None:
            self._send("WATCHDOG=1")

    def watchdog_trigger(self) -> None:
        """Work is stuck for good: be aborted and started again now."""
        self._send("WATCHDOG=trigger")

    def extend_timeout(self, seconds: float) -> None:
        """More time for starting, stopping or the watchdog, counted from now.

        Repeat it before `seconds` are over, as long as work advances.
        """
        self._send(f"EXTEND_TIMEOUT_USEC={round(seconds * 1e6)}")

    def stopping(self, status: str = "") -> None:
        """Stopping has begun."""
        self._send("STOPPING=1", *self._status_lines(status))

    def reloading(self) -> None:
        """The settings are being read again; `ready` ends it."""
        # Type=notify-reload compares the time stamp with that of its request.
        usec = round(self._monotonic() * 1e6)
        self._send("RELOADING=1", f"MONOTONIC_USEC={usec}")

    def _status_lines(self, text: str) -> tuple[str, ...]:
        """File names can hold anything; a line break would begin another message."""
        return (f"STATUS={_UNPRINTABLE.sub('�', text)[:_STATUS_MAX]}",) if text else ()

    def _send(self, *lines: str) -> None:
        if not self.active:
            return
        # "@" stands for the null byte that begins an abstract address.
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        # A manager that is restarting must not end the service, nor a full queue stop it.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.settimeout(1)
            channel.sendto("\n".join(lines).encode(), address)


def _watchdog_s(environ: Mapping[str, str]) -> float | None:
    """The limit, if it is meant for this process."""
    pid = environ.get("WATCHDOG_PID", "")
    if pid and pid != str(os.getpid()):
        return None
    try:
        usec = int(environ.get("WATCHDOG_USEC", "0"))
    except ValueError:
        return None
    return usec / 1e6 if usec > 0 else None
