"""Reports 15, 20, 48, 49 and 50: a reader that dies costs one attempt at one page."""

import json
import os
from pathlib import Path

import pytest
from PIL import Image

from daemon.errors import NoSpace, ReaderError
from daemon.reader_pool import Reader, ReaderLimits, ReaderState
from ocr import (
    EngineError,
    EngineOutOfMemory,
    EngineUnavailable,
    MarkdownOptions,
    PageStatus,
    ReadOptions,
    SourceError,
    page_to_dict,
)
from tests.engines import FAULTS

PATIENT = ReaderLimits(page_s=60, load_s=60, memory_gb=0.3)
HASTY = ReaderLimits(page_s=1.5, load_s=1.5)
OPTIONS = ReadOptions()


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    """Six small pages with a bar of ink each, as a TIFF."""
    path = tmp_path_factory.mktemp("scans") / "six.tif"
    pages = []
    for number in range(6):
        page = Image.new("L", (200, 300), "white")
        page.paste(0, (20, 20 + 30 * number, 180, 40 + 30 * number))
        pages.append(page)
    pages[0].save(path, save_all=True, append_images=pages[1:], dpi=(200, 200))
    return path


@pytest.fixture
def reader():
    """A function that makes a reader whose engine fails as told."""
    made = []

    def make(*, limits=PATIENT, **settings):
        made.append(Reader(FAULTS, settings, limits=limits))
        return made[-1]

    yield make
    for each in made:
        each.stop()
        assert each.pid is None


def zombies():
    """Children of this process that ended and were not reaped."""
    children = [
        Path(f"/proc/{pid}/stat").read_text()
        for task in Path("/proc/self/task").iterdir()
        for pid in (task / "children").read_text().split()
    ]
    return [stat for stat in children if stat.rpartition(")")[2].split()[0] == "Z"]


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("sigkill", "the system killed it, most likely because memory ran out"),
        ("segfault", "it crashed (Segmentation fault)"),
        ("exit", "it ended by itself with exit code 3"),
        ("hang", "no result came within 1.5 seconds"),
        ("hang-with-the-lock", "no result came within 1.5 seconds"),
        ("memory", "GB of memory, 0.3 GB are allowed"),
        ("child-memory", "GB of memory, 0.3 GB are allowed"),
    ],
)
def test_report_15_a_lost_process_costs_its_page_only(reader, scan, fault, words):
    reading = reader(faults={"2": fault}, limits=HASTY if "hang" in fault else PATIENT)
    assert reading.open(scan, OPTIONS).page_count == 6
    assert reading.read_page(1).status is PageStatus.OK
    first_pid = reading.pid
    with pytest.raises(ReaderError) as caught:
        reading.read_page(2)
    assert str(caught.value).startswith("The reader process was lost while reading page 3: ")
    assert words in str(caught.value)
    assert (caught.value.during, caught.value.page_index) == ("page", 2)
    assert not is_alive(first_pid)
    # The next page simply works, without opening the document again.
    assert reading.read_page(3).blocks[0].text == "page 4, 200 x 300 pixels"
    assert reading.pid != first_pid
    assert not zombies()


def test_a_second_attempt_at_the_page_can_succeed(reader, scan, tmp_path):
    reading = reader(faults={"0": "segfault"}, once_dir=str(tmp_path))
    reading.open(scan, OPTIONS, pages=[0])  # alone, so that nobody else can be blamed
    with pytest.raises(ReaderError) as caught:
        reading.read_page(0)
    assert any("Segmentation fault" in line for line in caught.value.output)
    assert reading.read_page(0).status is PageStatus.OK


def test_report_20_a_hanging_renderer_dies_with_its_reader(reader, scan):
    reading = reader(faults={"0": "child-hang"}, limits=HASTY)
    reading.open(scan, OPTIONS)
    with pytest.raises(ReaderError):
        reading.read_page(0)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:  # it ended meanwhile
            continue
        assert b"3599.5" not in command


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("error", EngineError, "The model repeats itself."),
        ("out-of-memory", EngineOutOfMemory, "too little memory"),
        ("unavailable", EngineUnavailable, "The driver is gone. Install it."),
        ("library", EngineError, "KeyError at engines.py"),
        ("no-space", NoSpace, "no space left"),
    ],
)
def test_errors_come_back_as_they_were_and_the_process_stays(reader, scan, fault, kind, words):
    reading = reader(faults={"1": fault})
    reading.open(scan, OPTIONS)
    reading.read_page(0)
    pid = reading.pid
    with pytest.raises(kind, match=words) as caught:
        reading.read_page(1)
    assert type(caught.value) is kind
    assert "Confidential" not in str(caught.value)
    assert reading.read_page(2).status is PageStatus.OK
    assert reading.pid == pid


def test_a_page_that_cannot_be_decoded_comes_back_as_damaged(reader, scan):
    reading = reader(decode_faults={"1": "page-error"})
    reading.load()
    reading.open(scan, OPTIONS)
    page = reading.read_page(1)
    assert (page.status, page.reason) == (PageStatus.DAMAGED, "The image is cut off.")


@pytest.mark.parametrize("fault", ["sigkill", "hang-with-the-lock", "memory"])
def test_the_page_before_is_not_blamed_for_a_decoder_that_dies(reader, scan, fault):
    """Page 4 is decoded while page 3 is read: both are in the process when it dies."""
    limits = HASTY if "hang" in fault else PATIENT
    reading = reader(decode_faults={"3": fault}, seconds=0.3, limits=limits)
    reading.load()
    reading.open(scan, OPTIONS)
    outcome = []
    for index in range(6):
        try:
            outcome.append(reading.read_page(index).status)
        except ReaderError as error:
            outcome.append(error.page_index)
    assert outcome == ["ok", "ok", "ok", 3, "ok", "ok"]


def test_a_page_not_wanted_is_never_decoded(reader, scan):
    """A quarantined page must not take the reader down by being decoded ahead."""
    reading = reader(decode_faults={"1": "segfault"}, seconds=0.1)
    reading.load()
    reading.open(scan, OPTIONS, pages=[0, 2, 3])
    pid = reading.pid
    assert [reading.read_page(index).status for index in (0, 2, 3)] == ["ok"] * 3
    assert reading.pid == pid


def test_a_process_killed_between_two_pages_costs_nothing(reader, scan):
    reading = reader()
    reading.open(scan, OPTIONS)
    reading.read_page(0)
    os.kill(reading.pid, 9)
    assert reading.read_page(1).status is PageStatus.OK


@pytest.mark.parametrize("fault", ["sigkill", "hang"])
def test_an_engine_that_dies_at_load_is_no_page_s_fault(reader, scan, fault):
    reading = reader(load_fault=fault, limits=HASTY)
    reading.open(scan, OPTIONS)
    with pytest.raises(ReaderError, match="while loading the engine") as caught:
        reading.read_page(0)
    assert (caught.value.during, caught.value.page_index) == ("load", None)


def test_a_slow_load_that_advances_is_not_a_hang(reader):
    reading = reader(load_fault="progress", limits=ReaderLimits(load_s=1.2))
    assert reading.load().name == "echo"


def test_report_48_an_engine_that_could_not_work_is_tried_again(reader, scan, tmp_path):
    reading = reader(load_fault="unavailable", once_dir=str(tmp_path))
    reading.open(scan, OPTIONS)
    with pytest.raises(EngineUnavailable, match="driver is gone"):
        reading.read_page(0)
    assert reading.read_page(0).status is PageStatus.OK


def test_report_50_a_file_that_is_no_document_leaves_the_reader_usable(reader, scan, tmp_path):
    notes = tmp_path / "notes.tif"
    notes.write_text("not a scan")
    reading = reader()
    with pytest.raises(SourceError):
        reading.open(notes, OPTIONS)
    with pytest.raises(ReaderError, match="No document is open"):
        reading.read_page(0)
    assert reading.open(scan, OPTIONS).kind == "tiff"


def test_names_that_are_no_text_can_be_opened(reader, scan, tmp_path):
    odd = os.fsencode(tmp_path) + b"/r\xe9sum\xe9\n.tif"
    os.link(scan, odd)
    reading = reader()
    assert reading.open(Path(os.fsdecode(odd)), OPTIONS).page_count == 6


def test_what_the_engine_prints_is_logged_bounded_and_clean(scan):
    lines = []
    with Reader(
        FAULTS, {"faults": {"0": "print"}}, limits=PATIENT, on_output=lines.append
    ) as reading:
        reading.open(scan, OPTIONS)
        assert reading.read_page(0).status is PageStatus.OK
    assert lines[0] == "warning 0  [31mred [0m"
    assert len(lines) <= 400


def test_rendering_needs_no_engine_and_marks_the_gaps(reader, scan, tmp_path):
    reading = reader(load_fault="unavailable")
    pages = []
    with Reader("tests.engines:EchoEngine") as other:
        other.open(scan, OPTIONS)
        pages = [page_to_dict(other.read_page(index)) for index in range(3)]
    pages[1] |= {"status": "failed", "reason": "it hung", "blocks": []}
    journal = tmp_path / "pages.jsonl"
    journal.write_text("".join(json.dumps(page) + "\n" for page in pages))
    target = tmp_path / "six.mmd"
    rendered = reading.render(journal, target, MarkdownOptions())
    assert (rendered.page_count, rendered.gaps) == (3, (1,))
    assert "200 x 300 pixels" in target.read_text()
    assert reading.engine_info is None


def test_a_full_disk_while_rendering_is_told_apart(reader, tmp_path):
    journal = tmp_path / "pages.jsonl"
    journal.write_text('{"page_index": 0, "size_px": [9, 9], "dpi": null, "blocks": []}\n')
    with pytest.raises(NoSpace):
        reader().render(journal, Path("/dev/full"), MarkdownOptions())


def test_thirty_restarts_leave_nothing_behind(reader, scan):
    reading = reader(faults={"0": "exit"})
    reading.open(scan, OPTIONS)
    before = open_descriptors()
    for _ in range(30):
        with pytest.raises(ReaderError):
            reading.read_page(0)
    assert reading.state is ReaderState.STOPPED
    # The first open left a process with four descriptors, which is gone now.
    assert open_descriptors() <= before
    assert not zombies()
