"""When a file counts as complete. The clock and the signs are passed in."""

from __future__ import annotations

from dataclasses import replace

from daemon.job import Arrival, Signature
from daemon.settling import SettleTracker, Sign

SHORT_S, LONG_S = 3.0, 120.0


def _file(path: bytes = b"/in/scan.pdf", size: int = 1000, ctime_ns: int = 1) -> Arrival:
    return Arrival("/in", path, Signature(1, 2, size, 3, ctime_ns))


class Scanner:
    """A tracker whose signs a test sets."""

    def __init__(self) -> None:
        self.sign: Sign | None = Sign.COMPLETE
        self.tracker = SettleTracker(SHORT_S, LONG_S, lambda _: self.sign)

    def ready_at(self, now_s: float) -> list[bytes]:
        return [arrival.path for arrival in self.tracker.due(now_s)]


def test_a_closed_whole_file_waits_the_short_time_and_no_longer() -> None:
    scanner = Scanner()
    scanner.tracker.observe(_file(), 10.0)
    assert scanner.tracker.next_due_s() == 13.0
    assert scanner.ready_at(12.9) == []
    assert scanner.ready_at(13.0) == [b"/in/scan.pdf"]
    assert len(scanner.tracker) == 0


def test_a_file_that_is_held_open_for_minutes_is_never_handed_over() -> None:
    # docspell#3223: a scanner that appends pages and holds the file meanwhile
    scanner = Scanner()
    scanner.sign = Sign.WRITTEN
    scanner.tracker.observe(_file(), 0.0)
    assert all(scanner.ready_at(now_s) == [] for now_s in range(0, 1000, 5))
    scanner.sign = Sign.COMPLETE
    assert scanner.ready_at(1005) == [b"/in/scan.pdf"]


def test_a_doubtful_file_waits_the_long_time_from_its_last_writer() -> None:
    scanner = Scanner()
    scanner.sign = Sign.WRITTEN
    scanner.tracker.observe(_file(), 0.0)
    assert scanner.ready_at(50.0) == []
    scanner.sign = Sign.DOUBTFUL
    assert scanner.ready_at(60.0) == []
    assert scanner.ready_at(169.0) == []
    assert scanner.ready_at(171.0) == [b"/in/scan.pdf"]


def test_a_writer_that_pauses_longer_than_the_short_time_starts_anew() -> None:
    # paperless-ngx#14219: half a file, a pause, then the rest
    scanner = Scanner()
    scanner.sign = Sign.DOUBTFUL
    scanner.tracker.observe(_file(size=500), 0.0)
    assert scanner.ready_at(6.0) == []
    scanner.tracker.observe(_file(size=1000, ctime_ns=2), 6.5)
    scanner.sign = Sign.COMPLETE
    assert scanner.ready_at(9.0) == []
    whole = scanner.tracker.due(9.5)
    assert [arrival.signature.size for arrival in whole] == [1000]


def test_a_preserved_time_stamp_hides_no_change() -> None:
    scanner = Scanner()
    first = _file()
    scanner.tracker.observe(first, 0.0)
    changed = replace(first, signature=replace(first.signature, ctime_ns=99))
    scanner.tracker.observe(changed, 2.0)
    assert scanner.ready_at(3.0) == []
    assert scanner.ready_at(5.0) == [b"/in/scan.pdf"]


def test_seeing_the_same_file_again_does_not_delay_it() -> None:
    scanner = Scanner()
    for tenth in range(30):
        scanner.tracker.observe(_file(), tenth / 10)
    assert scanner.ready_at(3.0) == [b"/in/scan.pdf"]


def test_an_empty_placeholder_is_held_and_read_once_filled() -> None:
    # paperless-ngx#13969
    scanner = Scanner()
    scanner.sign = Sign.DOUBTFUL
    scanner.tracker.observe(_file(size=0), 0.0)
    assert all(scanner.ready_at(now_s) == [] for now_s in range(0, 5000, 10))
    scanner.sign = Sign.COMPLETE
    scanner.tracker.observe(_file(size=10, ctime_ns=5), 5000.0)
    assert scanner.ready_at(5003.0) == [b"/in/scan.pdf"]


def test_an_old_file_needs_no_quiet_time_after_a_restart() -> None:
    scanner = Scanner()
    scanner.tracker.observe(_file(), 100.0, age_s=3600.0)
    assert scanner.ready_at(100.0) == [b"/in/scan.pdf"]


def test_a_file_that_is_taken_away_is_forgotten() -> None:
    scanner = Scanner()
    scanner.tracker.observe(_file(), 0.0)
    scanner.tracker.forget(b"/in/scan.pdf")
    assert scanner.tracker.next_due_s() is None
    scanner.tracker.observe(_file(), 10.0)
    scanner.sign = None
    assert scanner.ready_at(13.0) == []
    assert len(scanner.tracker) == 0


def test_one_stuck_file_holds_up_no_other() -> None:
    # Stirling-PDF#4169
    stuck = _file(b"/in/stuck.pdf")
    tracker = SettleTracker(
        SHORT_S, LONG_S, lambda a: Sign.WRITTEN if a.path == stuck.path else Sign.COMPLETE
    )
    tracker.observe(stuck, 0.0)
    for number in range(100):
        tracker.observe(_file(b"/in/%d.pdf" % number), 0.0)
    assert len(tracker.due(3.0)) == 100
    assert len(tracker) == 1
