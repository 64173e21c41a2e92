"""Named points at which a test may kill this process, to prove that nothing is lost.

Outside such a test `reached` compares one environment variable and returns.
"""

from __future__ import annotations

import os
import signal

KILL_AT = "SCANMD_TEST_KILL_AT"
"""Environment variable: a point's name, or `name:3` for the third time it is reached."""

_counts: dict[str, int] = {}


def reached(name: str) -> None:
    """Kill this process with SIGKILL if the test asked for it at this point."""
    wanted = os.environ.get(KILL_AT)
    if wanted is None:
        return
    point, _, times = wanted.partition(":")
    if point != name:
        return
    _counts[name] = _counts.get(name, 0) + 1
    if _counts[name] >= int(times or 1):
        os.kill(os.getpid(), signal.SIGKILL)
