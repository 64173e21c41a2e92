"""Report 44: blank pages are marked, and a faint word is never taken for nothing."""

import dataclasses

import numpy as np
import pytest
from PIL import Image

import ocr.pipeline
from ocr import PageImage, PageStatus, ReadOptions, SourceKind, read_document
from tests.engines import EchoEngine
from tests.samples import degrade, page_image


class BlindEngine(EchoEngine):
    """Finds no block on any page."""

    def read(self, image, options, progress=None):
        return dataclasses.replace(super().read(image, options, progress), blocks=())


@pytest.fixture
def read(monkeypatch):
    """A function that reads an image as a document of one page."""

    def read_image(image, engine=None):
        class OnePage:
            kind = SourceKind.TIFF
            page_count = 1

            def page(self, index):
                return PageImage(index, image.size, np.asarray(image.convert("RGB")), 200.0)

            def close(self):
                pass

        monkeypatch.setattr(ocr.pipeline, "open_source", lambda path, options: OnePage())
        (page,) = read_document("scan.tif", engine or EchoEngine(), ReadOptions())
        return page

    return read_image


@pytest.mark.parametrize("seed", range(4))
def test_an_empty_sheet_from_a_scanner_is_blank(read, seed):
    assert read(degrade(page_image(""), seed)).status is PageStatus.BLANK


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("text", ["Paid.", "7"])
def test_a_sheet_with_one_word_is_not_blank(read, seed, text):
    assert read(degrade(page_image(text), seed)).status is PageStatus.OK


def test_a_hairline_in_pencil_is_not_blank(read):
    sheet = np.asarray(page_image("").convert("RGB")).copy()
    sheet[1000:1001, 300:500] -= 40
    assert read(Image.fromarray(sheet)).status is PageStatus.OK


def test_an_image_smaller_than_a_cell_is_no_error(read):
    assert read(Image.new("RGB", (3, 3))).status is PageStatus.BLANK


def test_an_engine_that_finds_nothing_on_a_page_with_ink_says_so(read):
    page = read(page_image("Paid."), BlindEngine())
    assert page.status is PageStatus.OK
    assert "nothing was found to read" in page.notes[-1]
    assert page.engine == "echo"
