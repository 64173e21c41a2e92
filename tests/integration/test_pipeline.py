"""Real files through the real sources, page by page, into pages and Markdown."""

import json

import pytest

from daemon.reader_pool import Reader
from ocr import (
    DamagedSource,
    MarkdownOptions,
    PageStatus,
    ReadOptions,
    TextLayer,
    UnsupportedSource,
    page_to_dict,
    read_document,
)
from tests.engines import EchoEngine
from tests.samples import LETTER, degrade, page_image, write_pdf, write_text_pdf, write_tiff


def read_all(path, **options):
    return list(read_document(path, EchoEngine(), ReadOptions(**options)))


@pytest.fixture(scope="module")
def sheets():
    """A letter, an empty sheet and a note, as a scanner delivers them."""
    return [degrade(page_image(text, dpi=100), 3) for text in (LETTER, "", "Paid.")]


@pytest.mark.parametrize("write", [write_pdf, write_tiff])
def test_every_page_of_a_scan_is_read_and_empty_sheets_are_marked(sheets, tmp_path, write):
    path = write(tmp_path / "scan.bin", sheets)
    assert [page.status for page in read_all(path)] == ["ok", "blank", "ok"]


def test_the_text_layer_reaches_the_engine_unless_it_is_not_wanted(tmp_path):
    path = write_text_pdf(tmp_path / "letter.pdf", [LETTER.splitlines()])
    (page,) = read_all(path)
    assert "Hartley" in page.blocks[0].text
    (page,) = read_all(path, text_layer=TextLayer.FORCE_OCR)
    assert "pixels" in page.blocks[0].text


def test_report_34_a_broken_page_is_damaged_and_the_others_are_read(sheets, tmp_path):
    path = write_tiff(tmp_path / "scan.tif", sheets[::2] * 2, "group4")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - 2000])
    pages = read_all(path)
    assert pages[0].status is PageStatus.OK
    assert pages[-1].status is PageStatus.DAMAGED
    assert pages[-1].reason


@pytest.mark.parametrize(
    ("content", "error"),
    [(b"", DamagedSource), (b"%PDF-1.7\ncut off", DamagedSource), (b"MZ\0\0", UnsupportedSource)],
)
def test_what_is_no_document_is_refused_with_our_error(tmp_path, content, error):
    path = tmp_path / "scan.pdf"
    path.write_bytes(content)
    with pytest.raises(error):
        read_all(path)


def test_the_embedded_engine_reads_a_scan_in_the_reader_process(tmp_path):
    """The whole way: scan, process, engine, journal, Markdown."""
    scan = write_pdf(tmp_path / "scan.pdf", [degrade(page_image(LETTER), seed=5)])
    journal, target = tmp_path / "pages.jsonl", tmp_path / "scan.mmd"
    with Reader("rapid") as reader:
        assert reader.open(scan, ReadOptions()).page_count == 1
        page = reader.read_page(0)
        journal.write_text(json.dumps(page_to_dict(page)) + "\n")
        assert reader.render(journal, target, MarkdownOptions()).gaps == ()
    text = target.read_text()
    assert text.startswith("<!-- page 1 -->")
    assert "Thank you for your order of 3 March." in text
    assert page.engine == "rapid"
