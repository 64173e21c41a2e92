from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from daemon.job import Job, JobState, Signature
from daemon.ledger import Ledger
from tests.ledgers import READ_KEY, Clock, made_up, read_pages, sha256, started, states

A, B = b"/in/a.pdf", b"/in/b.pdf"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reopened(tmp_path: Path, clock: Clock) -> Iterator[Callable[[], Ledger]]:
    """Opens the ledger as after a kill: the one before is not closed properly."""
    with ExitStack() as stack:

        def opened() -> Ledger:
            ledger = Ledger.open(tmp_path / "state" / "ledger.sqlite3", clock=clock)
            return stack.enter_context(closing(ledger))

        yield opened


@pytest.fixture
def ledger(reopened: Callable[[], Ledger]) -> Ledger:
    return reopened()


def claim(ledger: Ledger) -> Job:
    job = ledger.claim()
    assert job is not None
    return job


# Arriving


def test_the_same_file_is_queued_once_however_often_it_is_seen(ledger: Ledger) -> None:
    assert ledger.enqueue([made_up(A), made_up(B), made_up(A)]) == 2
    assert ledger.enqueue([made_up(A)]) == 0
    assert ledger.known(A, made_up(A).signature)
    assert not ledger.known(A, made_up(A, version=2).signature)
    assert states(ledger) == {JobState.QUEUED: 2}


def test_a_share_mounted_again_under_another_device_number_is_not_read_again(
    ledger: Ledger,
) -> None:
    ledger.enqueue([made_up(A, device=40)])
    assert ledger.enqueue([made_up(A, device=53)]) == 0


@pytest.mark.parametrize(
    "name", [b"r\xe9sum\xe9.pdf", "🧾 Rechnung.pdf".encode(), b"two\nlines.pdf", b"x" * 255]
)
def test_any_name_comes_back_as_it_was(ledger: Ledger, name: bytes) -> None:
    huge = Signature((1 << 64) - 1, (1 << 63) + 5, 1 << 40, 3, 4)
    ledger.enqueue([made_up(b"/in/" + name)])
    ledger.enqueue([type(made_up(A))("in", b"/in/" + name, huge)])
    assert list(ledger.known_signatures()) == [(b"/in/" + name, huge)]
    assert claim(ledger).signature == huge


def test_a_waiting_job_takes_the_newer_version_of_its_file(ledger: Ledger) -> None:
    ledger.enqueue([made_up(A)])
    assert ledger.enqueue([made_up(A, version=2)]) == 1
    assert states(ledger) == {JobState.QUEUED: 1}
    assert claim(ledger).signature == made_up(A, version=2).signature


def test_a_file_that_changes_while_it_is_read_is_read_again_afterwards(ledger: Ledger) -> None:
    ledger.enqueue([made_up(A)])
    first = claim(ledger)
    assert ledger.enqueue([made_up(A, version=2)]) == 1
    assert ledger.claim() is None, "two versions of one file must not be delivered out of order"
    ledger.finish(first.id, JobState.DONE, output=b"/in/a.mmd")
    assert claim(ledger).signature == made_up(A, version=2).signature


def test_a_changed_file_takes_its_old_failure_off_the_list(ledger: Ledger) -> None:
    ledger.enqueue([made_up(A)])
    ledger.finish(claim(ledger).id, JobState.FAILED, reason="cut off")
    ledger.enqueue([made_up(A, version=2)])
    assert ledger.failures(10) == []
    assert states(ledger) == {JobState.QUEUED: 1, JobState.GONE: 1}


def test_a_vanished_source_is_marked_and_counts_as_new_when_it_is_back(ledger: Ledger) -> None:
    ledger.enqueue([made_up(A)])
    assert ledger.mark_gone(A)
    assert not ledger.mark_gone(A)
    assert ledger.claim() is None
    assert ledger.recent(1)[0].state is JobState.GONE
    assert not ledger.known(A, made_up(A).signature)
    assert list(ledger.known_signatures()) == []
    assert ledger.enqueue([made_up(A)]) == 1


def test_a_job_that_ended_as_gone_does_not_hide_the_same_file(ledger: Ledger) -> None:
    ledger.enqueue([made_up(A)])
    ledger.finish(claim(ledger).id, JobState.GONE, reason="the share was away")
    assert ledger.enqueue([made_up(A)]) == 1


# Claiming


def test_jobs_come_oldest_first_and_inboxes_take_turns(ledger: Ledger) -> None:
    ledger.enqueue(made_up(b"/big/%d" % n, inbox="big") for n in range(1000))
    ledger.enqueue(made_up(b"/small/%d" % n, inbox="small") for n in range(2))
    order = [claim(ledger).path for _ in range(5)]
    assert order == [b"/big/0", b"/small/0", b"/big/1", b"/small/1", b"/big/2"]


def test_jobs_of_a_paused_inbox_wait(ledger: Ledger) -> None:
    ledger.enqueue([made_up(A, inbox="away"), made_up(B, inbox="here")])
    assert ledger.claim(skip={"away", "here"}) is None
    first = ledger.claim(skip={"away"})
    assert first is not None and first.path == B
    assert claim(ledger).path == A


def test_two_threads_never_get_the_same_job(ledger: Ledger) -> None:
    ledger.enqueue(made_up(b"/in/%d" % n) for n in range(200))
    got: list[int] = []

    def work() -> None:
        while (job := ledger.claim()) is not None:
            got.append(job.id)
            ledger.finish(job.id, JobState.DONE)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == list(range(1, 201))


def test_a_delayed_job_waits_and_lets_others_go_first(ledger: Ledger, clock: Clock) -> None:
    ledger.enqueue([made_up(A), made_up(B)])
    assert ledger.retry_later(claim(ledger).id, 30, "the share was busy")
    assert ledger.next_retry_s() == clock.now_s + 30
    assert claim(ledger).path == B
    assert ledger.claim() is None
    clock.now_s += 30
    again = claim(ledger)
    assert (again.path, again.attempts) == (A, 1)
    assert ledger.next_retry_s() is None


def test_a_clock_that_is_set_back_does_not_strand_a_delayed_job(
    ledger: Ledger, clock: Clock
) -> None:
    ledger.enqueue([made_up(A)])
    ledger.retry_later(claim(ledger).id, 30, "busy")
    clock.now_s -= 365 * 86400
    assert claim(ledger).path == A


def test_attempts_are_capped(ledger: Ledger) -> None:
    ledger.enqueue([made_up(A)])
    assert ledger.retry_later(claim(ledger).id, 0, "engine error")
    assert ledger.retry_later(claim(ledger).id, 0, "disk full", count_attempt=False)
    assert ledger.retry_later(claim(ledger).id, 0, "engine error")
    job = claim(ledger)
    assert not ledger.retry_later(job.id, 0, "engine error")
    ledger.finish(job.id, JobState.FAILED, reason="engine error")
    assert [(job.reason, job.attempts) for job in ledger.failures(5)] == [("engine error", 3)]


# Reading


def test_after_a_kill_reading_goes_on_at_the_next_unread_page(
    ledger: Ledger, reopened: Callable[[], Ledger]
) -> None:
    ledger.enqueue([made_up(A)])
    job = claim(ledger)
    fingerprint = sha256(b"content")
    ledger.set_fingerprint(job.id, fingerprint, READ_KEY, 5)
    read_pages(ledger, job, range(3))
    ledger.page_started(job.id, 3)

    after = reopened()
    assert [job.path for job in after.recover()] == [A]
    again = claim(after)
    assert again.attempts == 0, "a killed daemon is not the document's fault"
    assert after.set_fingerprint(again.id, fingerprint, READ_KEY, 5)
    assert after.journaled_pages(fingerprint, READ_KEY) == {0, 1, 2}
    assert after.complete_page_count(fingerprint, READ_KEY) is None
    read_pages(after, again, [4, 3])
    assert list(after.page_json(fingerprint, READ_KEY)) == [
        f'{{"page_index": {index}}}' for index in range(5)
    ]
    assert after.complete_page_count(fingerprint, READ_KEY) == 5
    current = after.job(again.id)
    assert current is not None and (current.pages_read, current.page_count) == (5, 5)


def test_a_page_in_flight_at_two_crashes_is_known_as_such(
    ledger: Ledger, reopened: Callable[[], Ledger]
) -> None:
    ledger.enqueue([made_up(A)])
    for crashes in range(3):
        ledger.recover()
        job = claim(ledger)
        ledger.set_fingerprint(job.id, sha256(b"poison"), READ_KEY, 2)
        assert ledger.page_started(job.id, 1) == crashes
        ledger = reopened()
    ledger.recover()
    ledger.enqueue([made_up(B)])
    ledger.finish(claim(ledger).id, JobState.FAILED)
    duplicate = claim(ledger)
    ledger.set_fingerprint(duplicate.id, sha256(b"poison"), READ_KEY, 2)
    assert ledger.page_started(duplicate.id, 1) == 3, "a copy of the document is as poisonous"
    assert ledger.page_started(duplicate.id, 0) == 0


def test_a_dead_reader_is_blamed_on_the_page_it_held_exactly_once(ledger: Ledger) -> None:
    ledger.enqueue([made_up(A)])
    job = claim(ledger)
    ledger.set_fingerprint(job.id, sha256(b"x"), READ_KEY, 1)
    assert ledger.page_started(job.id, 0) == 0
    assert ledger.page_crashed(job.id, 0) == 1
    assert ledger.page_started(job.id, 0) == 1
    assert ledger.page_started(job.id, 0) == 2, "started again without an end: it crashed"
    ledger.retry_later(job.id, 0, "hung")
    again = claim(ledger)
    assert ledger.page_started(again.id, 0) == 3


@pytest.mark.parametrize("how", ["page_stopped", "retry_later"])
def test_a_shutdown_in_the_middle_of_a_page_is_not_blamed_on_it(ledger: Ledger, how: str) -> None:
    ledger.enqueue([made_up(A)])
    job = claim(ledger)
    ledger.set_fingerprint(job.id, sha256(b"x"), READ_KEY, 1)
    ledger.page_started(job.id, 0)
    if how == "page_stopped":
        ledger.page_stopped(job.id)
    else:
        ledger.retry_later(job.id, 0, None, count_attempt=False)
    ledger.recover()
    assert ledger.page_started(claim(ledger).id, 0) == 0


def test_a_page_needs_a_content_to_belong_to(ledger: Ledger) -> None:
    ledger.enqueue([made_up(A)])
    with pytest.raises(LookupError, match="set_fingerprint"):
        ledger.page_started(claim(ledger).id, 0)


def test_the_same_content_twice_is_read_once(ledger: Ledger) -> None:
    ledger.enqueue([made_up(A), made_up(B)])
    first = started(ledger, b"same", pages=3)
    ledger.finish(first.id, JobState.DONE, output=b"/in/a.mmd")
    second = claim(ledger)
    assert ledger.set_fingerprint(second.id, sha256(b"same"), READ_KEY)
    assert ledger.complete_page_count(sha256(b"same"), READ_KEY) == 3
    current = ledger.job(second.id)
    assert current is not None and (current.page_count, current.pages_read) == (3, 3)


def test_a_copy_of_what_is_being_read_waits_for_it(ledger: Ledger) -> None:
    ledger.enqueue([made_up(A), made_up(B)])
    first, second = claim(ledger), claim(ledger)
    assert ledger.set_fingerprint(first.id, sha256(b"same"), READ_KEY, 1)
    assert not ledger.set_fingerprint(second.id, sha256(b"same"), READ_KEY)
    assert ledger.claim() is None
    read_pages(ledger, first, [0])
    ledger.finish(first.id, JobState.DONE, output=b"/in/a.mmd")
    assert claim(ledger).id == second.id
    assert ledger.set_fingerprint(second.id, sha256(b"same"), READ_KEY)
    assert ledger.journaled_pages(sha256(b"same"), READ_KEY) == {0}


def test_a_copy_waits_no_longer_when_the_first_has_to(ledger: Ledger) -> None:
    ledger.enqueue([made_up(A), made_up(B)])
    first, second = claim(ledger), claim(ledger)
    ledger.set_fingerprint(first.id, sha256(b"same"), READ_KEY)
    ledger.set_fingerprint(second.id, sha256(b"same"), READ_KEY)
    ledger.retry_later(first.id, 3600, "busy")
    assert claim(ledger).id == second.id


def test_other_reading_options_are_another_reading(ledger: Ledger) -> None:
    ledger.enqueue([made_up(A)])
    job = started(ledger, b"x", pages=2)
    ledger.set_fingerprint(job.id, sha256(b"x"), "deepseek")
    assert ledger.journaled_pages(sha256(b"x"), "deepseek") == set()
    assert ledger.journaled_pages(sha256(b"x"), READ_KEY) == {0, 1}


def test_figures_are_journaled_with_their_page(ledger: Ledger, tmp_path: Path) -> None:
    ledger.enqueue([made_up(A)])
    job = started(ledger, b"x", pages=0)
    figure = tmp_path / "page-0001-figure-1.png"
    figure.write_bytes(b"old")
    ledger.page_done(job.id, 0, "{}", 0.1, assets=[figure])
    figure.write_bytes(b"PNG")
    ledger.page_done(job.id, 0, "{}", 0.1, assets=[figure])
    target = tmp_path / "assets"
    target.mkdir()
    assert ledger.restore_assets(sha256(b"x"), READ_KEY, target) == 1
    assert (target / figure.name).read_bytes() == b"PNG"


# Ending


def test_only_a_final_state_ends_a_job(ledger: Ledger) -> None:
    ledger.enqueue([made_up(A)])
    with pytest.raises(ValueError, match="queued"):
        ledger.finish(claim(ledger).id, JobState.QUEUED)


def test_the_seconds_of_all_pages_are_summed_over_a_crash(ledger: Ledger) -> None:
    ledger.enqueue([made_up(A)])
    started(ledger, b"x", pages=2)
    ledger.recover()
    job = claim(ledger)
    ledger.page_done(job.id, 2, "{}", 0.3)
    ledger.finish(job.id, JobState.DONE, output=b"/in/a.mmd", engine="rapid")
    done = ledger.recent(1)[0]
    assert done.seconds == pytest.approx(0.5)
    assert done.engine == "rapid"


def test_retry_reads_only_the_gaps_again(ledger: Ledger) -> None:
    ledger.enqueue([made_up(A), made_up(B)])
    job = claim(ledger)
    ledger.set_fingerprint(job.id, sha256(b"x"), READ_KEY, 3)
    read_pages(ledger, job, [0, 2])
    ledger.page_started(job.id, 1)
    ledger.page_crashed(job.id, 1)
    ledger.page_done(job.id, 1, "{}", 0.1, good=False)
    assert ledger.bad_pages(sha256(b"x"), READ_KEY) == [1]
    ledger.finish(job.id, JobState.FAILED, reason="gaps")
    ledger.finish(claim(ledger).id, JobState.DONE)

    assert ledger.retry() == 1, "all that failed, nothing else"
    again = claim(ledger)
    assert (again.id, again.attempts, again.forced) == (job.id, 0, True)
    ledger.set_fingerprint(again.id, sha256(b"x"), READ_KEY, 3)
    assert ledger.journaled_pages(sha256(b"x"), READ_KEY) == {0, 2}
    assert ledger.page_started(again.id, 1) == 0
    ledger.finish(again.id, JobState.DONE)
    assert ledger.recent(1)[0].forced is False


def test_retry_by_number_takes_any_ended_job_but_never_an_outdated_one(ledger: Ledger) -> None:
    ledger.enqueue([made_up(A)])
    old = claim(ledger)
    ledger.finish(old.id, JobState.DONE)
    assert ledger.retry([old.id]) == 1
    assert ledger.retry([old.id, 999]) == 0, "queued already"
    ledger.finish(claim(ledger).id, JobState.DONE)
    ledger.enqueue([made_up(A, version=2)])
    assert ledger.retry([old.id]) == 0


def test_a_source_to_dispose_of_is_remembered_over_a_crash(
    ledger: Ledger, reopened: Callable[[], Ledger]
) -> None:
    ledger.enqueue([made_up(A)])
    job = claim(ledger)
    ledger.finish(job.id, JobState.DONE, output=b"/out/a.mmd", dispose=True)
    after = reopened()
    assert [job.path for job in after.to_dispose()] == [A]
    after.disposed(job.id)
    assert after.to_dispose() == []


# Looking


def test_status_says_what_stands_where_and_what_came_last(ledger: Ledger, clock: Clock) -> None:
    ledger.enqueue(made_up(b"/in/%d" % n, inbox="in" if n else "other") for n in range(4))
    for state in (JobState.DONE, JobState.FAILED):
        clock.now_s += 1
        ledger.finish(claim(ledger).id, state, reason=f"{state}")
    claim(ledger)
    assert states(ledger) == {
        JobState.QUEUED: 1,
        JobState.READING: 1,
        JobState.DONE: 1,
        JobState.FAILED: 1,
    }
    assert set(ledger.counts()) == set(JobState)
    assert sum(ledger.counts_by_inbox()["in"].values()) == 3
    assert [job.state for job in ledger.recent(5)] == [JobState.FAILED, JobState.DONE]
    assert [job.reason for job in ledger.failures(5)] == ["failed"]
    assert len(ledger.reading()) == 1
    assert ledger.job(999) is None


def test_notes_keep_their_last_value(ledger: Ledger) -> None:
    assert ledger.note("watch") is None
    ledger.set_note("watch", "1")
    ledger.set_note("watch", '{"mode": "native"}')
    assert ledger.note("watch") == '{"mode": "native"}'


# Forgetting


def test_what_is_forgotten_is_not_read_again(ledger: Ledger, clock: Clock) -> None:
    ledger.enqueue([made_up(A), made_up(B)])
    job = started(ledger, b"x")
    ledger.intend_output(job.id, b"/in/a.mmd", sha256=sha256(b"text"))
    ledger.finish(job.id, JobState.DONE, output=b"/in/a.mmd")
    clock.now_s += 100 * 86400
    assert ledger.compact(365 * 86400) == 0
    assert ledger.compact(30 * 86400) == 1
    assert ledger.job(job.id) is None
    assert ledger.journaled_pages(sha256(b"x"), READ_KEY) == set()
    assert ledger.enqueue([made_up(A)]) == 0
    previous = ledger.previous_output(A)
    assert previous is not None and previous.output == b"/in/a.mmd"
    assert states(ledger) == {JobState.QUEUED: 1}, "what still waits is never forgotten"


def test_a_source_that_is_gone_is_forgotten_altogether(ledger: Ledger, clock: Clock) -> None:
    ledger.enqueue([made_up(A)])
    job = started(ledger, b"x")
    ledger.intend_output(job.id, b"/in/a.mmd", sha256=sha256(b"text"))
    ledger.finish(job.id, JobState.DONE, output=b"/in/a.mmd")
    ledger.mark_gone(A)
    clock.now_s += 100
    ledger.compact(50)
    assert ledger.output_owner(b"/in/a.mmd") is None
    ledger.enqueue([made_up(A)])
    assert claim(ledger).lineage == 0


def test_the_journal_may_be_forgotten_earlier_but_never_under_a_reader(
    ledger: Ledger, clock: Clock
) -> None:
    ledger.enqueue([made_up(A), made_up(B)])
    done = started(ledger, b"done")
    ledger.finish(done.id, JobState.DONE)
    started(ledger, b"live")
    clock.now_s += 100
    assert ledger.compact(1000, journal_older_than_s=50) == 0
    assert ledger.job(done.id) is not None
    assert ledger.journaled_pages(sha256(b"done"), READ_KEY) == set()
    assert ledger.journaled_pages(sha256(b"live"), READ_KEY) == {0}


# Whose output


def test_an_output_is_known_as_its_sources_own_from_before_the_rename(ledger: Ledger) -> None:
    ledger.enqueue([made_up(A)])
    job = started(ledger, b"x")
    assert ledger.intend_output(job.id, b"/in/a.mmd", sha256="new", extras=["a.json"])
    assert ledger.previous_output(A) is None, "not delivered yet"
    owner = ledger.output_owner(b"/in/a.mmd")
    assert owner is not None and owner.digests == {"new"}
    ledger.finish(job.id, JobState.DONE, output=b"/in/a.mmd")
    previous = ledger.previous_output(A)
    assert previous is not None and (previous.sha256, previous.extras) == ("new", ("a.json",))


def test_two_sources_cannot_be_about_to_write_one_output(ledger: Ledger) -> None:
    ledger.enqueue([made_up(A), made_up(B)])
    first, second = started(ledger, b"1"), started(ledger, b"2")
    assert ledger.intend_output(first.id, b"/out/x.mmd", sha256="1")
    assert not ledger.intend_output(second.id, b"/out/x.mmd", sha256="2")
    ledger.withdraw_output(first.id, b"/out/x.mmd")
    assert ledger.intend_output(second.id, b"/out/x.mmd", sha256="2")


def test_a_new_document_under_an_old_name_does_not_inherit_its_output(ledger: Ledger) -> None:
    ledger.enqueue([made_up(A)])
    job = started(ledger, b"x")
    ledger.intend_output(job.id, b"/in/a.mmd", sha256="1")
    ledger.finish(job.id, JobState.DONE, output=b"/in/a.mmd")
    ledger.mark_gone(A)
    ledger.enqueue([made_up(A, version=2)])
    assert ledger.previous_output(A) is None
    owner = ledger.output_owner(b"/in/a.mmd")
    assert owner is not None and owner.lineage != claim(ledger).lineage
