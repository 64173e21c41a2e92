"""A reader process starts, is left alone, ends on request, and never outlives the daemon."""

import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from PIL import Image

import daemon
from daemon.errors import ReaderError, ReaderStopped
from daemon.reader_pool import Reader, ReaderLimits, ReaderState
from ocr import Page, ReadOptions
from tests.engines import ECHO, FAULTS

ROOT = Path(daemon.__file__).parent.parent


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    """Two small pages with ink, as a TIFF."""
    path = tmp_path_factory.mktemp("scans") / "two.tif"
    page = Image.new("L", (200, 300), "white")
    page.paste(0, (20, 20, 180, 60))
    page.save(path, save_all=True, append_images=[page], dpi=(200, 200))
    return path


class Reading(threading.Thread):
    """Reads page 0 of a document in a thread of its own, as the service does."""

    def __init__(self, reader, scan):
        super().__init__()
        self.reader, self.scan, self.outcome = reader, scan, None
        self.begun = threading.Event()

    def run(self):
        try:
            self.reader.open(self.scan, ReadOptions())
            self.reader.load()
            self.begun.set()
            self.outcome = self.reader.read_page(0)
        except ReaderStopped as error:
            self.outcome = error

    def wait_until_reading(self):
        assert self.begun.wait(60)
        while self.reader.state is not ReaderState.READING:
            time.sleep(0.01)


def ends_within(pid, seconds):
    """Whether the process is gone, or goes, in that time."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def test_stop_finishes_the_page_and_then_ends_the_process(scan):
    reader = Reader(ECHO, {"seconds": 0.6})
    reading = Reading(reader, scan)
    reading.start()
    reading.wait_until_reading()
    pid = reader.pid
    reader.stop()
    reading.join(60)
    assert isinstance(reading.outcome, Page)
    assert ends_within(pid, 20)
    assert reader.state is ReaderState.STOPPED
    with pytest.raises(ReaderStopped):
        reader.read_page(1)


def test_a_second_stop_does_not_wait_for_the_page(scan):
    reader = Reader(FAULTS, {"faults": {"0": "hang"}})
    reading = Reading(reader, scan)
    reading.start()
    reading.wait_until_reading()
    reader.stop()
    reader.stop()
    reading.join(60)
    assert isinstance(reading.outcome, ReaderStopped)
    assert reader.pid is None


def test_kill_ends_the_page_but_not_the_reader(scan):
    with Reader(FAULTS, {"faults": {"0": "hang"}}) as reader:
        reading = Reading(reader, scan)
        reading.start()
        reading.wait_until_reading()
        reader.kill()
        reading.join(60)
        assert isinstance(reading.outcome, ReaderStopped)
        assert reader.read_page(1).blocks


def test_signals_to_the_whole_unit_do_not_end_a_page(scan):
    """systemd and Ctrl+C signal every process; the daemon decides what happens."""
    with Reader(ECHO, {"seconds": 0.5}) as reader:
        reading = Reading(reader, scan)
        reading.start()
        reading.wait_until_reading()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(reader.pid, number)
        reading.join(60)
        assert isinstance(reading.outcome, Page)


def test_an_idle_reader_gives_all_memory_back_and_comes_again(scan):
    ahead_s = 0.0
    limits = ReaderLimits(idle_unload_s=600)
    settings = {"weights_bytes": 100_000_000}
    with Reader(ECHO, settings, limits=limits, clock=lambda: time.monotonic() + ahead_s) as reader:
        reader.open(scan, ReadOptions())
        reader.read_page(0)
        pid = reader.pid
        assert reader.memory_gb() > 0.1
        ahead_s = 599.0
        assert not reader.unload_if_idle()
        ahead_s = 601.0 + 599.0
        assert reader.unload_if_idle()
        assert reader.memory_gb() == 0
        assert ends_within(pid, 0)
        assert not reader.unload_if_idle()
        assert reader.read_page(1).blocks


def test_progress_and_state_can_be_watched(scan):
    seen = []
    with Reader(ECHO, {"seconds": 0.5}, on_progress=lambda: seen.append(reader.state)) as reader:
        before_s = reader.last_progress_s
        reader.open(scan, ReadOptions())
        reader.read_page(0)
        assert reader.last_progress_s > before_s
        assert reader.engine_info.name == "echo"
    assert list(dict.fromkeys(seen)) == ["opening", "loading", "reading"]


def test_the_process_is_the_first_to_go_and_cannot_reach_out(scan, monkeypatch, tmp_path):
    monkeypatch.setenv("SCANMD_PDF_PASSWORDS", '["geheim"]')
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/systemd/notify")
    limits = ReaderLimits(niceness=5, work_dir=tmp_path)
    with Reader(ECHO, limits=limits) as reader:
        reader.load()
        proc = Path(f"/proc/{reader.pid}")
        environment = proc.joinpath("environ").read_bytes()
        assert b"HF_HUB_OFFLINE=1" in environment
        assert b"TMPDIR=" + os.fsencode(tmp_path) + b"/scanmd-reader-" in environment
        assert b"geheim" not in environment
        assert b"NOTIFY_SOCKET" not in environment
        assert int(proc.joinpath("oom_score_adj").read_text()) >= 500
        limits = proc.joinpath("limits").read_text()
        assert [line.split()[4] for line in limits.splitlines() if "core file" in line] == ["0"]
        assert os.getsid(reader.pid) == os.getpgid(reader.pid) == reader.pid
        assert str((proc / "fd" / "0").readlink()) == "/dev/null"
        assert os.getpriority(os.PRIO_PROCESS, reader.pid) == os.getpriority(os.PRIO_PROCESS, 0) + 5


def test_the_process_dies_with_the_daemon_even_when_it_hangs(scan):
    script = (
        "import sys; from pathlib import Path; from daemon.reader_pool import Reader\n"
        "from ocr import ReadOptions\n"
        f"reader = Reader({FAULTS!r}, {{'faults': {{'0': 'hang-with-the-lock'}}}})\n"
        "reader.open(Path(sys.argv[1]), ReadOptions()); reader.load()\n"
        "print(reader.pid, flush=True)\n"
        "reader.read_page(0)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(scan)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        pid = int(parent.stdout.readline())
        assert not ends_within(pid, 0.3)
        parent.kill()
        assert ends_within(pid, 20)


def test_nothing_is_imported_from_the_folder_the_daemon_was_started_in(tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('imported from the working directory')")
    (tmp_path / "ocr.py").write_text("raise SystemExit('imported from the working directory')")
    script = (
        "from daemon.reader_pool import Reader\n"
        f"with Reader({ECHO!r}) as reader: print(reader.load().name)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "echo\n"


def test_poppler_gets_no_copy_of_the_connection():
    """A renderer that outlived the reader would keep the daemon waiting for its end."""
    with Reader(FAULTS, {"faults": {}}) as reader:
        reader.load()
        sockets = [
            entry
            for entry in Path(f"/proc/{reader.pid}/fd").iterdir()
            if str(entry.readlink()).startswith("socket:")
        ]
        assert len(sockets) == 1
        flags = Path(f"/proc/{reader.pid}/fdinfo/{sockets[0].name}").read_text()
        (octal,) = [line.split()[1] for line in flags.splitlines() if line.startswith("flags:")]
        assert int(octal, 8) & os.O_CLOEXEC


def test_temporary_files_go_with_the_process_however_it_ends(scan, tmp_path):
    work = tmp_path / "work"
    limits = ReaderLimits(work_dir=work)
    with Reader(FAULTS, {"faults": {"0": "sigkill"}}, limits=limits) as reader:
        reader.open(scan, ReadOptions())
        (folder,) = work.iterdir()
        (folder / "page.ppm").write_bytes(b"half a page")
        with pytest.raises(ReaderError):
            reader.read_page(0)
        assert not list(work.iterdir())


def test_folders_of_readers_that_died_with_their_daemon_are_removed(tmp_path):
    (tmp_path / "scanmd-reader-old").mkdir()
    (tmp_path / "scanmd-reader-old" / "page.ppm").touch()
    (tmp_path / "42").mkdir()
    limits = ReaderLimits(work_dir=tmp_path)
    with Reader(ECHO, limits=limits) as one, Reader(ECHO, limits=limits) as other:
        one.start()
        other.start()
        names = {folder.name for folder in tmp_path.iterdir()}
        assert len(names) == 3
        assert "42" in names
        assert "scanmd-reader-old" not in names


def test_report_25_the_work_folder_may_be_removed_while_running(scan, tmp_path):
    work = tmp_path / "work"
    with Reader(ECHO, limits=ReaderLimits(work_dir=work)) as reader:
        reader.open(scan, ReadOptions())
        reader.read_page(0)
        shutil.rmtree(work)
        assert reader.read_page(1).blocks
        assert len(list(work.iterdir())) == 1
