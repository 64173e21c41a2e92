"""The real daemon as a process: what people at the folder and at the terminal see."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import samples
from tests.engines import ECHO

ROOT = Path(__file__).parents[2]
LIMIT_S = 40.0


class Office:
    """An inbox, a state directory, and a daemon to be started on them."""

    def __init__(self, root: Path) -> None:
        self.inbox = root / "in"
        self.inbox.mkdir()
        self.state = root / "state"
        self.config = root / "scanmd.yaml"
        self.log = root / "log"
        self._root = root
        self._daemon: subprocess.Popen[bytes] | None = None
        self.configure()

    def configure(self, *, engine: str = ECHO, inbox: str = "", **settings: object) -> None:
        values = {"settle_short_s": 0.4, "settle_long_s": 1.5, "retry_delay_s": 0.2,
                  "min_free_gb": 0, "log_format": "json", "engine": engine,
                  "state_dir": str(self.state), "cache_dir": str(self._root / "cache"),
                  **settings}  # fmt: skip
        lines = [f"{key}: {json.dumps(value)}" for key, value in values.items()]
        self.config.write_text(
            "\n".join(lines) + f"\ninboxes:\n  - path: {self.inbox}\n{inbox}", encoding="utf-8"
        )

    def command(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "daemon", *arguments, "--config", str(self.config)],
            env=self._environ(environ), capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip

    def start(self, **environ: str) -> int:
        with self.log.open("ab") as log:
            self._daemon = subprocess.Popen(
                [sys.executable, "-m", "daemon", "run", "--config", str(self.config)],
                env=self._environ(environ), stdout=log, stderr=log,
            )  # fmt: skip
        started = self.events("ready")
        self.wait_for(lambda: len(self.events("ready")) > len(started) or self._ended())
        return self._daemon.pid

    def stop(self) -> int:
        assert self._daemon is not None
        self._daemon.terminate()
        return self._daemon.wait(LIMIT_S)

    def wait_for_end(self) -> int:
        assert self._daemon is not None
        return self._daemon.wait(LIMIT_S)

    def kill(self) -> None:
        if self._daemon is not None and self._daemon.poll() is None:
            self._daemon.kill()
            self._daemon.wait()

    def events(self, name: str) -> list[dict[str, Any]]:
        if not self.log.exists():
            return []
        found = [json.loads(x) for x in self.log.read_text().splitlines() if x.startswith("{")]
        return [event for event in found if event["event"] == name]

    def wait_for(self, condition: Callable[[], object]) -> None:
        deadline_s = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < deadline_s, self.log.read_text()[-3000:]
            time.sleep(0.05)

    def ended(self, count: int) -> bool:
        names = ("delivered", "failed", "known", "gone")
        return sum(len(self.events(name)) for name in names) >= count

    def _ended(self) -> bool:
        return self._daemon is not None and self._daemon.poll() is not None

    def _environ(self, more: dict[str, str]) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT), **more}


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    office = Office(tmp_path)
    yield office
    office.kill()


def _text_pdf(path: Path, *pages: str) -> bytes:
    samples.write_text_pdf(path, [[page] for page in pages])
    return path.read_bytes()


def _body(path: Path) -> str:
    return path.read_text(encoding="utf-8").split("\n", 1)[1]


def test_a_dropped_scan_becomes_its_text(office: Office) -> None:
    office.configure(engine="rapid")
    samples.write_pdf(
        office.inbox / "letter.pdf", [samples.degrade(samples.page_image(samples.LETTER), 3)]
    )
    told = office.command("run", "--once")
    assert told.returncode == 0, told.stderr[-2000:]
    text = (office.inbox / "letter.mmd").read_text(encoding="utf-8")
    assert "Thank you for your order" in text
    assert "1,284.50" in text
    assert (office.inbox / "letter.pdf").exists()


def test_a_half_written_file_waits_for_its_writer(office: Office, tmp_path: Path) -> None:
    # paperless-ngx#14219: the writer pauses for longer than the quiet time
    whole = _text_pdf(tmp_path / "whole.pdf", "First page of it", "Second page of it")
    office.start()
    with (office.inbox / "slow.pdf").open("wb") as scanner:
        scanner.write(whole[: len(whole) // 2])
        scanner.flush()
        time.sleep(3)  # well past both quiet times: only the open file tells
        assert not office.ended(1)
        scanner.write(whole[len(whole) // 2 :])
    office.wait_for(lambda: office.ended(1))
    assert "Second page" in _body(office.inbox / "slow.mmd")
    assert not office.events("failed")


def test_renamed_into_place_and_in_fresh_folders(office: Office, tmp_path: Path) -> None:
    # notify#124: files in folders that were just made
    office.start()
    _text_pdf(office.inbox / "a.pdf.part", "Renamed")
    (office.inbox / "a.pdf.part").rename(office.inbox / "a.pdf")
    deep = office.inbox / "x" / "y" / "z"
    deep.mkdir(parents=True)
    _text_pdf(deep / "b.pdf", "Deep down")
    moved = tmp_path / "moved"
    moved.mkdir()
    _text_pdf(moved / "c.pdf", "Moved in")
    moved.rename(office.inbox / "moved")
    office.wait_for(lambda: office.ended(3))
    assert "Renamed" in _body(office.inbox / "a.mmd")
    assert "Deep down" in _body(deep / "b.mmd")
    assert "Moved in" in _body(office.inbox / "moved" / "c.mmd")


def test_the_same_content_is_read_once_and_delivered_twice(office: Office, tmp_path: Path) -> None:
    content = _text_pdf(tmp_path / "one.pdf", "Twice the same")
    for name in ("first.pdf", "second.pdf"):
        (office.inbox / name).write_bytes(content)
    told = office.command("run", "--once")
    assert told.returncode == 0
    assert _body(office.inbox / "first.mmd") == _body(office.inbox / "second.mmd")
    assert told.stderr.count('"event": "page"') == 1


def test_a_changed_source_is_read_again_and_a_known_one_is_not(office: Office) -> None:
    source = office.inbox / "scan.pdf"
    _text_pdf(source, "The first version")
    office.start()
    office.wait_for(lambda: office.ended(1))
    source.touch()
    office.wait_for(lambda: office.ended(2))
    assert len(office.events("page")) == 1
    _text_pdf(source, "The second version")
    office.wait_for(lambda: office.ended(3))
    assert "second version" in _body(office.inbox / "scan.mmd")
    assert [p.name for p in office.inbox.glob("*.mmd")] == ["scan.mmd"]


def test_what_cannot_be_read_gets_a_note_and_stays(office: Office) -> None:
    # paperless-ng#176, Stirling-PDF#2893
    (office.inbox / "page.pdf").write_bytes(b"<!DOCTYPE html><html><body>no PDF</body></html>")
    _text_pdf(office.inbox / "good.pdf", "A good one")
    (office.inbox / "link.pdf").symlink_to("/etc/passwd")
    os.mkfifo(office.inbox / "pipe.pdf")
    assert office.command("run", "--once").returncode == 0
    note = (office.inbox / "page.error.txt").read_text(encoding="utf-8")
    assert "HTML" in note
    assert (office.inbox / "page.pdf").exists()
    assert "A good one" in _body(office.inbox / "good.mmd")
    assert not list(office.inbox.glob("link.[me]*")) + list(office.inbox.glob("pipe.[me]*"))

    report = json.loads(office.command("status", "--json").stdout)
    assert report["running"] is False
    assert report["counts"]["failed"] == 1
    assert report["failures"][0]["path"].endswith("page.pdf")
    assert "HTML" in report["failures"][0]["reason"]

    _text_pdf(office.inbox / "page.pdf", "Mended now")
    assert office.command("run", "--once").returncode == 0
    assert "Mended now" in _body(office.inbox / "page.mmd")
    assert not (office.inbox / "page.error.txt").exists()


@pytest.mark.parametrize(
    "point",
    ["after-copy", "after-page-commit:2", "before-fsync", "before-rename", "after-rename",
     "before-ledger-commit"],
)  # fmt: skip
def test_killed_at_any_step_nothing_is_lost_or_doubled(
    office: Office, tmp_path: Path, point: str
) -> None:
    # paperless-ngx#872: a killed worker takes the document with it
    pages = ("Page the first", "Page the second", "Page the third")
    content = _text_pdf(tmp_path / "doc.pdf", *pages)
    (office.inbox / "doc.pdf").write_bytes(content)
    office.start(SCANMD_TEST_KILL_AT=point)
    assert office.wait_for_end() == -signal.SIGKILL
    read_before = len(office.events("page"))
    told = office.command("run", "--once")
    assert told.returncode == 0, told.stderr[-2000:]
    assert [path.name for path in sorted(office.inbox.iterdir())] == ["doc.mmd", "doc.pdf"]
    text = _body(office.inbox / "doc.mmd")
    assert all(text.count(page) == 1 for page in pages)
    assert not list((office.state / "work").iterdir())
    # The page whose commit the kill followed at once was journaled but never logged.
    assert read_before + told.stderr.count('"event": "page"') <= len(pages)


def test_an_ending_daemon_says_goodbye_in_good_order(office: Office) -> None:
    _text_pdf(office.inbox / "scan.pdf", "Some text")
    office.start()
    office.wait_for(lambda: office.ended(1))
    assert office.stop() == 0
    assert office.events("stopped")


def test_the_daemon_itself_stays_free_of_the_heavy_libraries(office: Office) -> None:
    pid = office.start()
    maps = Path(f"/proc/{pid}/maps").read_text()
    for library in ("cv2", "onnxruntime", "openvino", "torch", "numpy"):
        assert f"/{library}" not in maps


def test_a_second_daemon_is_turned_away(office: Office) -> None:
    office.start()
    told = office.command("run")
    assert told.returncode == 75
    assert "already" in told.stderr


def test_bad_settings_are_one_sentence_and_exit_78(office: Office) -> None:
    office.configure(settle_shrot_s=3)
    told = office.command("run")
    assert told.returncode == 78
    assert "settle_shrot_s" in told.stderr
    assert "Traceback" not in told.stderr
    assert len(told.stderr.strip().splitlines()) == 1


def test_archived_sources_leave_the_inbox_after_delivery(office: Office, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    office.configure(inbox=f"    after: archive\n    archive: {archive}\n")
    _text_pdf(office.inbox / "scan.pdf", "The first")
    assert office.command("run", "--once").returncode == 0
    assert (archive / "scan.pdf").exists()
    # naps2#823: the scanner counts from the beginning again
    _text_pdf(office.inbox / "scan.pdf", "Another document")
    assert office.command("run", "--once").returncode == 0
    assert "The first" in _body(office.inbox / "scan.mmd")
    (other,) = office.inbox.glob("scan~*.mmd")
    assert "Another document" in _body(other)


def test_retry_reads_a_failed_document_again(office: Office) -> None:
    (office.inbox / "bad.pdf").write_bytes(b"%PDF-1.7\nnothing else\n%%EOF\n")
    office.command("run", "--once")
    assert office.command("retry").returncode == 2
    told = office.command("retry", "--failed")
    assert told.returncode == 0
    assert told.stdout.startswith("1 document")
    office.command("run", "--once")
    assert json.loads(office.command("status", "--json").stdout)["counts"]["failed"] == 1


def test_once_reads_named_files_and_says_which_failed(office: Office, tmp_path: Path) -> None:
    folder = tmp_path / "loose"
    folder.mkdir()
    _text_pdf(folder / "good.pdf", "Loose sheet")
    assert office.command("once", str(folder / "good.pdf")).returncode == 0
    assert "Loose sheet" in _body(folder / "good.mmd")
    (folder / "bad.pdf").write_bytes(b"GIF87 no, it is not")
    told = office.command("once", str(folder), str(tmp_path / "missing.pdf"))
    assert told.returncode == 1
    assert "bad.pdf" in told.stderr
    assert "missing.pdf" in told.stderr


def test_the_layout_is_drawn_when_asked_for(office: Office) -> None:
    office.configure(enable_visualization=True)
    _text_pdf(office.inbox / "scan.pdf", "First", "Second")
    assert office.command("run", "--once").returncode == 0
    told = subprocess.run(
        ["pdfinfo", office.inbox / "scan.layout.pdf"], capture_output=True, text=True, check=True
    )
    assert "Pages:           2" in told.stdout
    assert office.command("run", "--once").returncode == 0
    assert len(list(office.inbox.iterdir())) == 3, "the drawing is no document to read"


def test_an_engine_that_cannot_work_makes_documents_wait(office: Office) -> None:
    office.configure(engine="tests.engines:NoSuchEngine")
    _text_pdf(office.inbox / "scan.pdf", "Waits")
    office.start()
    office.wait_for(lambda: office.events("paused") and office.events("queued"))
    report = json.loads(office.command("status", "--json").stdout)
    assert report["counts"]["failed"] == 0
    assert office.stop() == 0
    office.configure()
    assert office.command("run", "--once").returncode == 0
    assert "Waits" in _body(office.inbox / "scan.mmd")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")
def test_a_full_disk_pauses_and_room_ends_the_pause_by_itself(office: Office) -> None:
    # paperless-ngx#8329, paperless-gpt#1016: after the outage nothing goes on
    office.state.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", office.state], check=False
    )
    if mounted.returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        filler = office.state / "filler"
        filler.write_bytes(b"x" * 50_000_000)
        office.configure(min_free_gb=0.03)
        _text_pdf(office.inbox / "scan.pdf", "Waits for room")
        office.start()
        office.wait_for(lambda: office.events("paused"))
        assert not office.events("page")
        filler.unlink()
        office.wait_for(lambda: office.events("going on"))
        office.wait_for(lambda: office.ended(1))
        assert "Waits for room" in _body(office.inbox / "scan.mmd")
        assert office.stop() == 0
    finally:
        office.kill()
        subprocess.run(["umount", "-l", office.state], check=True)


def test_naming_a_file_reads_nothing_else_beside_it(office: Office, tmp_path: Path) -> None:
    folder = tmp_path / "loose"
    (folder / "sub").mkdir(parents=True)
    for name in ("named.pdf", "other.pdf", "sub/deep.pdf"):
        _text_pdf(folder / name, f"Text of {name}")
    assert office.command("once", str(folder / "named.pdf"), str(folder / "sub")).returncode == 0
    assert sorted(p.name for p in folder.rglob("*.mmd")) == ["deep.mmd", "named.mmd"]


def test_a_vanished_inbox_pauses_and_nothing_counts_as_deleted(
    office: Office, tmp_path: Path
) -> None:
    _text_pdf(office.inbox / "scan.pdf", "Read once")
    office.start()
    office.wait_for(lambda: office.ended(1))
    office.inbox.rename(tmp_path / "elsewhere")
    office.wait_for(lambda: office.events("inbox paused"))
    (tmp_path / "elsewhere").rename(office.inbox)
    office.wait_for(lambda: len(office.events("watching")) == 2)
    _text_pdf(office.inbox / "next.pdf", "Read after it")
    office.wait_for((office.inbox / "next.mmd").exists)
    assert len(office.events("page")) == 2


def test_the_settings_can_be_checked_and_shown(office: Office) -> None:
    told = office.command("config", "check")
    assert told.returncode == 0
    assert "ok" in told.stdout
    shown = office.command("config", "show", COLUMNS="200", SCANMD_MAX_PAGES="77")
    row = next(line for line in shown.stdout.splitlines() if line.startswith("max_pages"))
    assert "77" in row
    assert "SCANMD_MAX_PAGES" in row
    assert f"{office.config}:1" in shown.stdout
    dropin = office.command("systemd-dropin")
    assert f"ReadWritePaths=-{office.inbox}" in dropin.stdout.replace('"', "")


def test_a_missing_inbox_is_named(office: Office) -> None:
    office.inbox.rmdir()
    for command in (("config", "check"), ("run",)):
        told = office.command(*command)
        assert told.returncode == 78
        assert str(office.inbox) in told.stderr
        assert "Traceback" not in told.stderr


def test_the_doctor_finds_what_is_wrong(office: Office) -> None:
    told = office.command("doctor")
    assert told.returncode == 0, told.stdout
    assert "poppler" in told.stdout
    assert "echo" in told.stdout
    office.configure(engine="tests.engines:NoSuchEngine")
    told = office.command("doctor")
    assert told.returncode == 1
    assert "PROBLEM engine" in told.stdout


def test_old_work_files_are_purged(office: Office) -> None:
    old = office.state / "work" / "job-9-dead"
    old.mkdir(parents=True)
    (old / "source").write_bytes(b"x" * 1000)
    young = office.state / "work" / "job-10-young"
    young.mkdir()
    four_days_ago_s = time.time() - 4 * 86400
    for path in (old / "source", old):
        os.utime(path, (four_days_ago_s, four_days_ago_s))
    told = office.command("purge")
    assert told.stdout.startswith("1 ")
    assert not old.exists()
    assert young.exists()
