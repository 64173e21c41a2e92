from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from daemon import ledger_database
from daemon.errors import (
    LedgerBusy,
    LedgerDamaged,
    LedgerTooNew,
    NoSpace,
    StateUnusable,
)
from daemon.job import JobState
from daemon.ledger import Ledger
from daemon.ledger_schema import STEPS, migrate, version_of
from tests.ledgers import READ_KEY, claimed, made_up, sha256, states

# A ledger as version 1 left it, with one document read and one waiting.
VERSION_1 = """
INSERT INTO inboxes VALUES ('in', 1);
INSERT INTO sources
    VALUES (x'2f696e2f612e706466', 1, 7, 100, 1, 1, 1, 0, x'2f696e2f612e6d6d64', NULL);
INSERT INTO sources VALUES (x'2f696e2f622e706466', 1, 7, 100, 1, 1, 2, 0, NULL, NULL);
INSERT INTO jobs (inbox, path, device, inode, size, mtime_ns, ctime_ns, state, created_s, updated_s)
    VALUES ('in', x'2f696e2f612e706466', 1, 7, 100, 1, 1, 'done', 1, 2),
           ('in', x'2f696e2f622e706466', 1, 7, 100, 1, 1, 'queued', 1, 2);
INSERT INTO readings VALUES (1, 'f1', 'k', 1, 2);
INSERT INTO pages VALUES (1, 0, 1, 0.5, x'789cabae0500017500f9');
PRAGMA user_version = 1;
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "ledger.sqlite3"


def test_an_older_ledger_is_brought_up_to_date_with_all_it_knows(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as old:
        for statement in STEPS[0]:
            old.execute(statement)
        old.executescript(VERSION_1)

    with closing(Ledger.open(path)) as ledger:
        assert states(ledger) == {JobState.DONE: 1, JobState.QUEUED: 1}
        assert ledger.known(b"/in/a.pdf", made_up(b"/in/a.pdf").signature)
        assert list(ledger.page_json("f1", "k")) == ["{}"]
        job = ledger.claim()
        assert job is not None and job.path == b"/in/b.pdf"
        ledger.finish(job.id, JobState.DONE)
        assert states(ledger) == {JobState.DONE: 2}


def test_a_step_that_fails_leaves_the_older_ledger_whole(path: Path) -> None:
    Ledger.open(path).close()
    broken = (*STEPS, ("CREATE TABLE halfway (x)", "CREATE TABLE jobs (x)"))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        with pytest.raises(sqlite3.OperationalError, match="jobs already exists"):
            migrate(connection, path, broken)
        assert version_of(connection) == len(STEPS)
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
    assert "halfway" not in tables
    Ledger.open(path).close()


@pytest.mark.parametrize("read_only", [False, True])
def test_a_ledger_of_a_newer_version_is_refused_and_not_touched(
    path: Path, read_only: bool
) -> None:
    Ledger.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(LedgerTooNew, match="newer scanmd") as error:
        Ledger.open(path, read_only=read_only)
    assert error.value.exit_code == 78
    assert path.read_bytes() == before


@pytest.mark.parametrize("what", ["no database", "header", "inside"])
def test_a_damaged_ledger_is_reported_with_what_to_do(path: Path, what: str) -> None:
    with closing(Ledger.open(path)) as ledger:
        ledger.enqueue(made_up(b"/in/%d" % n) for n in range(2000))
    if what == "no database":
        path.write_bytes(b"%PDF-1.7 not a ledger" * 500)
    else:
        with path.open("r+b") as file:
            file.seek(0 if what == "header" else 4096)
            file.write(b"\xff" * (16 if what == "header" else path.stat().st_size - 8192))

    def use() -> None:
        with closing(Ledger.open(path)) as ledger:
            ledger.check()

    with pytest.raises(LedgerDamaged, match=r"out of .*start it again") as error:
        use()
    assert str(path) in str(error.value)


def test_state_is_private(path: Path) -> None:
    with closing(Ledger.open(path)) as ledger:
        ledger.enqueue([made_up(b"/in/a.pdf")])
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) & 0o027 == 0, file


def test_status_looks_while_the_daemon_writes(path: Path) -> None:
    with closing(Ledger.open(path)) as daemon:
        daemon.enqueue([made_up(b"/in/a.pdf")])
        with closing(Ledger.open(path, read_only=True)) as status:
            with daemon._writing(durable=True) as connection:
                connection.execute("UPDATE jobs SET state = 'failed'")
                assert states(status) == {JobState.QUEUED: 1}, "not committed yet"
            assert states(status) == {JobState.FAILED: 1}
            with pytest.raises(StateUnusable, match="readonly"):
                status.set_note("x", "y")


def test_status_without_a_ledger_says_that_nothing_ran_yet(path: Path) -> None:
    with pytest.raises(StateUnusable, match="has not run"):
        Ledger.open(path, read_only=True)
    assert not path.exists()


def test_a_ledger_that_is_a_link_or_in_the_way_is_refused(tmp_path: Path, path: Path) -> None:
    path.parent.mkdir()
    (tmp_path / "elsewhere").write_bytes(b"")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateUnusable, match="cannot be opened"):
        Ledger.open(path)
    with pytest.raises(StateUnusable):
        Ledger.open(tmp_path / "elsewhere" / "ledger.sqlite3")


def test_a_locked_ledger_is_reported_as_busy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_database, "BUSY_TIMEOUT_S", 0.0)
    with closing(Ledger.open(path)) as ledger, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerBusy, match="fuser"):
            ledger.enqueue([made_up(b"/in/a.pdf")])
        other.rollback()
        assert ledger.enqueue([made_up(b"/in/a.pdf")]) == 1


def test_a_full_disk_undoes_the_step_and_nothing_else(path: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.pdf"
    source.write_bytes(b"x")
    with closing(Ledger.open(path)) as ledger:
        job = claimed(ledger, source)
        pages = ledger._connection.execute("PRAGMA page_count").fetchone()[0]
        ledger._connection.execute(f"PRAGMA max_page_count = {pages}")
        figure = tmp_path / "figure.png"
        figure.write_bytes(bytes(1 << 20))
        with pytest.raises(NoSpace, match="full"):
            ledger.page_done(job.id, 1, "{}", 1.0, assets=[figure])
        ledger._connection.execute("PRAGMA max_page_count = 1000000")
        assert ledger.journaled_pages(sha256(b"x"), READ_KEY) == {0}
        ledger.page_done(job.id, 1, "{}", 1.0, assets=[figure])
        assert ledger.journaled_pages(sha256(b"x"), READ_KEY) == {0, 1}


def test_nothing_in_the_queue_is_searched_by_going_through_it(path: Path) -> None:
    """What the daemon asks all day long uses an index, whatever the ledger has grown to."""
    with closing(Ledger.open(path)) as ledger:
        seen: list[str] = []
        ledger.enqueue([made_up(b"/in/a.pdf"), made_up(b"/in/b.pdf")])
        ledger._connection.set_trace_callback(seen.append)
        job = ledger.claim()
        assert job is not None
        ledger.set_fingerprint(job.id, "f", "k", 1)
        ledger.page_started(job.id, 0)
        ledger.page_done(job.id, 0, "{}", 1.0)
        ledger.known(b"/in/a.pdf", job.signature)
        ledger.finish(job.id, JobState.DONE, output=b"/in/a.mmd")
        ledger.claim()
        ledger.finish(2, JobState.GONE)
        ledger.recover()
        ledger.retry_later(2, 5, "busy")
        ledger.next_retry_s()
        ledger.counts()
        ledger.recent(5)
        ledger.mark_gone(b"/in/a.pdf")
        ledger._connection.set_trace_callback(None)
        scans = [
            f"{plan[3]}: {statement}"
            for statement in seen
            if statement.split()[0] in {"SELECT", "UPDATE", "DELETE"}
            for plan in ledger._connection.execute(f"EXPLAIN QUERY PLAN {statement}")
            if plan[3].startswith("SCAN")
            and not any(table in plan[3] for table in ("inboxes", "counters"))
            and "USING" not in plan[3]
        ]
    assert seen
    assert scans == []
