"""When is a file complete? Pure: clock and probes are passed in.

Three signs have to agree: it has been quiet (device, inode, size and times), nobody
holds it open for writing, and its tail is whole. Where a sign is missing the quiet
time is long; while somebody writes it never ends.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from daemon.job import Arrival

_BUSY_AGAIN_S = 1.0
"""How soon a file that somebody holds open is looked at again."""


class Sign(StrEnum):
    """What writer and tail say together."""

    COMPLETE = "complete"
    """Closed by its writer, and whole (or of a kind whose tail cannot tell)."""
    DOUBTFUL = "doubtful"
    WRITTEN = "written"
    """Somebody holds it open for writing."""


@dataclass(slots=True)
class _Waiting:
    arrival: Arrival
    quiet_since_s: float
    due_s: float


class SettleTracker:
    """Holds files until they are complete."""

    def __init__(
        self, short_s: float, long_s: float, probe: Callable[[Arrival], Sign | None]
    ) -> None:
        """Wait `short_s` with all signs, else `long_s`.

        Args:
            short_s: Quiet seconds of a file that is surely complete.
            long_s: Quiet seconds of one of which that cannot be told.
            probe: Looks at a quiet file; None: it is gone or changed.
        """
        self._short_s = short_s
        self._long_s = long_s
        self._probe = probe
        self._waiting: dict[bytes, _Waiting] = {}
        self._heap: list[tuple[float, bytes]] = []

    def __len__(self) -> int:
        """How many files are waiting."""
        return len(self._waiting)

    def observe(self, arrival: Arrival, now_s: float, *, age_s: float = 0.0) -> None:
        """A file was seen; a change begins its quiet time anew.

        Args:
            arrival: The file as it is now.
            now_s: Monotonic seconds.
            age_s: How long it is known to have been quiet (start-up: its ctime).
        """
        known = self._waiting.get(arrival.path)
        if known is not None and known.arrival.signature == arrival.signature:
            return
        since_s = now_s - max(0.0, age_s)
        self._schedule(_Waiting(arrival, since_s, max(now_s, since_s + self._short_s)))

    def forget(self, path: bytes) -> None:
        """The file is gone."""
        self._waiting.pop(path, None)

    def next_due_s(self) -> float | None:
        """When `due` has something to look at, monotonic seconds; None: never."""
        while self._heap:
            due_s, path = self._heap[0]
            waiting = self._waiting.get(path)
            if waiting is not None and waiting.due_s == due_s:
                return due_s
            heapq.heappop(self._heap)
        return None

    def due(self, now_s: float) -> list[Arrival]:
        """The files that are complete now; they are no longer waited for."""
        complete = []
        while (due_s := self.next_due_s()) is not None and due_s <= now_s:
            waiting = self._waiting[heapq.heappop(self._heap)[1]]
            sign = self._probe(waiting.arrival)
            if sign is None:
                del self._waiting[waiting.arrival.path]
            elif sign is Sign.COMPLETE or (
                sign is Sign.DOUBTFUL
                and waiting.arrival.signature.size > 0
                and now_s >= waiting.quiet_since_s + self._long_s
            ):
                del self._waiting[waiting.arrival.path]
                complete.append(waiting.arrival)
            else:
                self._wait_on(waiting, sign, now_s)
        return complete

    def _wait_on(self, waiting: _Waiting, sign: Sign, now_s: float) -> None:
        if sign is Sign.WRITTEN:
            # Quiet is counted from the moment the writer lets go.
            waiting.quiet_since_s = now_s
            waiting.due_s = now_s + min(_BUSY_AGAIN_S, self._short_s)
        elif waiting.arrival.signature.size == 0:
            # A placeholder: its content is still to come, and shows as a change.
            waiting.due_s = now_s + self._long_s
        else:
            waiting.due_s = max(waiting.quiet_since_s + self._long_s, now_s + 0.01)
        self._schedule(waiting)

    def _schedule(self, waiting: _Waiting) -> None:
        self._waiting[waiting.arrival.path] = waiting
        heapq.heappush(self._heap, (waiting.due_s, waiting.arrival.path))
