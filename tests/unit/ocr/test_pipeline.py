"""One bad page never costs the others, and no library's exception gets out."""

import dataclasses
import threading
import tracemalloc

import numpy as np
import pytest

import ocr.pipeline
from ocr import (
    BBox,
    DamagedSource,
    DocumentReader,
    EngineError,
    EngineOutOfMemory,
    EngineUnavailable,
    Line,
    PageError,
    PageImage,
    PageStatus,
    ReadOptions,
    SourceError,
    SourceKind,
    Step,
    read_document,
)
from tests.engines import EchoEngine, FaultEngine


class MemorySource:
    """Pages with a black bar each; `broken` raises instead."""

    kind = SourceKind.TIFF

    def __init__(self, page_count=5, *, broken=None, size_px=(100, 200)):
        self.page_count = page_count
        self.broken = broken or {}
        self.size_px = size_px
        self.decoded = []
        self.threads = set()
        self.closed = False

    def page(self, index):
        self.threads.add(threading.get_ident())
        self.decoded.append(index)
        if index in self.broken:
            raise self.broken[index]
        width, height = self.size_px
        pixels = np.full((height, width, 3), 255, np.uint8)
        pixels[40:80, 20:80] = 0
        return PageImage(index, self.size_px, pixels, 200.0, notes=("scaled",))

    def close(self):
        self.closed = True


@pytest.fixture
def source(monkeypatch):
    """A function that makes `open_source` give a source out of memory."""

    def use(made):
        monkeypatch.setattr(ocr.pipeline, "open_source", lambda path, options: made)
        return made

    return use


def read_all(tmp_path, engine=None, **options):
    return list(read_document(tmp_path, engine or EchoEngine(), ReadOptions(), **options))


def test_pages_come_in_order_with_what_the_source_noted(source, tmp_path):
    made = source(MemorySource(3))
    pages = read_all(tmp_path)
    assert [page.page_index for page in pages] == [0, 1, 2]
    assert pages[2].blocks[0].text == "page 3, 100 x 200 pixels"
    assert pages[0].notes == ("scaled",)
    assert made.closed


def test_reading_can_start_in_the_middle(source, tmp_path):
    made = source(MemorySource(5))
    assert [page.page_index for page in read_all(tmp_path, start_page=3)] == [3, 4]
    assert made.decoded == [3, 4]


def test_report_34_a_damaged_page_is_reported_as_damaged_not_as_empty(source, tmp_path):
    source(MemorySource(3, broken={1: PageError("The image is cut off.")}))
    pages = read_all(tmp_path)
    assert [page.status for page in pages] == ["ok", "damaged", "ok"]
    assert pages[1].reason == "The image is cut off."


@pytest.mark.parametrize(
    "error", [OSError("broken data stream"), SyntaxError("not a TIFF"), MemoryError(), IndexError()]
)
def test_a_library_that_fails_on_a_page_makes_it_damaged(source, tmp_path, error):
    source(MemorySource(2, broken={0: error}))
    pages = read_all(tmp_path)
    assert [page.status for page in pages] == ["damaged", "ok"]
    assert pages[0].reason.startswith("The page's image cannot be decoded")


@pytest.mark.parametrize("fault", ["error", "out-of-memory", "library"])
def test_report_46_a_page_that_the_engine_fails_on_does_not_end_the_document(
    source, tmp_path, fault
):
    source(MemorySource(5))
    pages = read_all(tmp_path, FaultEngine(faults={"3": fault}))
    assert [page.status for page in pages] == ["ok", "ok", "ok", "failed", "ok"]
    assert pages[3].reason


def test_a_reason_never_quotes_the_document(source, tmp_path):
    source(MemorySource(1))
    (page,) = read_all(tmp_path, FaultEngine(faults={"0": "library"}))
    assert page.reason.startswith("The engine failed on this page: KeyError at engines.py:")
    assert "Confidential" not in page.reason


def test_an_engine_that_cannot_work_ends_the_reading_and_closes_the_source(source, tmp_path):
    made = source(MemorySource(3))
    with pytest.raises(EngineUnavailable, match="driver is gone"):
        read_all(tmp_path, FaultEngine(faults={"1": "unavailable"}))
    assert made.closed


def test_memory_that_runs_out_is_told_apart(source, tmp_path):
    class Greedy(EchoEngine):
        def read(self, image, options, progress=None):
            raise MemoryError

    source(MemorySource(1))
    with (
        DocumentReader(tmp_path, ReadOptions()) as document,
        pytest.raises(EngineOutOfMemory, match="out of memory"),
    ):
        document.read_page(0, Greedy())


def test_a_full_disk_is_not_the_page_s_fault(source, tmp_path):
    source(MemorySource(1, broken={0: OSError(28, "No space left on device")}))
    with DocumentReader(tmp_path, ReadOptions()) as document, pytest.raises(EngineError):
        document.read_page(0, EchoEngine())


@pytest.mark.parametrize(
    ("error", "ours"),
    [(PermissionError(13, "Permission denied"), SourceError), (ValueError("x"), DamagedSource)],
)
def test_a_library_that_cannot_open_the_file_raises_our_error(monkeypatch, tmp_path, error, ours):
    def fail(path, options):
        raise error

    monkeypatch.setattr(ocr.pipeline, "open_source", fail)
    with pytest.raises(ours, match="cannot be opened"):
        read_all(tmp_path)


def test_the_next_page_is_decoded_meanwhile_and_never_more_than_one(source, tmp_path):
    made = source(MemorySource(5))
    seen = []
    begun = threading.Event()

    class Watching(EchoEngine):
        def read(self, image, options, progress=None):
            assert image.page_index == 4 or begun.wait(10)
            begun.clear()
            seen.append(len(made.decoded) - len(seen))
            return super().read(image, options, progress)

    reading = made.page

    def page(index):
        if index > 0:
            begun.set()
        return reading(index)

    made.page = page
    read_all(tmp_path, Watching())
    # This page and the next one; the last page has no next one.
    assert max(seen) <= 2
    assert made.decoded == [0, 1, 2, 3, 4]
    assert len(made.threads) == 1


def test_a_page_decoded_in_vain_is_not_mixed_up_with_the_wanted_one(source, tmp_path):
    source(MemorySource(9))
    with DocumentReader(tmp_path, ReadOptions()) as document:
        document.read_page(0, EchoEngine(), ahead=1)
        assert document.read_page(7, EchoEngine(), ahead=8).page_index == 7
        assert document.read_page(2, EchoEngine()).page_index == 2


def test_the_steps_name_the_page_they_belong_to(source, tmp_path):
    source(MemorySource(2))
    steps = []
    with DocumentReader(
        tmp_path, ReadOptions(), on_step=lambda *step: steps.append(step)
    ) as document:
        document.read_page(1, EchoEngine())
    assert steps == [(step, 1) for step in (Step.DECODING, Step.DECODED, Step.READING, Step.READ)]


def test_progress_is_passed_on(source, tmp_path):
    source(MemorySource(1))
    calls = []
    read_all(tmp_path, FaultEngine(seconds=0.01), progress=lambda: calls.append(1))
    assert len(calls) >= 2


def test_leaving_early_closes_the_source(source, tmp_path):
    made = source(MemorySource(5))
    reading = read_document(tmp_path, EchoEngine(), ReadOptions())
    next(reading)
    reading.close()
    assert made.closed


def test_memory_does_not_grow_with_the_document(source, tmp_path):
    def peak(page_count):
        source(MemorySource(page_count, size_px=(600, 800)))
        tracemalloc.start()
        for _ in read_document(tmp_path, EchoEngine(), ReadOptions()):
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak(2)  # what is loaded once
    assert peak(40) < 1.2 * peak(4)


def test_words_of_a_text_layer_need_no_pixels(source, tmp_path):
    class TextSource(MemorySource):
        def page(self, index):
            lines = (Line("Dear Mrs Hartley", BBox(0, 0, 10, 10)),) if index == 0 else ()
            return PageImage(index, self.size_px, None, lines=lines)

    source(TextSource(2))
    pages = read_all(tmp_path)
    assert pages[0].blocks[0].text == "Dear Mrs Hartley"
    assert pages[1].status is PageStatus.BLANK


@pytest.mark.parametrize("ink", [True, False])
def test_a_page_with_a_part_missing_is_read_and_marked(source, tmp_path, ink):
    class Torn(MemorySource):
        def page(self, index):
            image = super().page(index)
            pixels = image.pixels if ink else np.full_like(image.pixels, 255)
            return dataclasses.replace(image, pixels=pixels, damage="The lower half is missing.")

    source(Torn(1))
    (page,) = read_all(tmp_path)
    assert (page.status, page.reason) == (PageStatus.DAMAGED, "The lower half is missing.")
    assert page.blocks
