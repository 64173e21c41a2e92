"""The layout picture shows every page with its boxes."""

import subprocess

import numpy as np
import pytest
from PIL import Image

from ocr import BBox, Block, BlockKind, OcrError, Page, PageStatus, write_layout_pdf
from ocr.options import ReadOptions


def page(index, *blocks, **facts):
    return Page(index, (400, 600), 100.0, blocks, **facts)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "scan.tiff"
    sheets = [Image.new("RGB", (400, 600), "white") for _ in range(2)]
    sheets[0].save(path, save_all=True, append_images=sheets[1:], dpi=(100, 100))
    return path


def rendered(pdf, number):
    out = pdf.with_name(f"shown-{number}")
    subprocess.run(
        [
            "pdftoppm",
            "-r",
            "100",
            "-f",
            str(number),
            "-l",
            str(number),
            "-png",
            "-singlefile",
            pdf,
            out,
        ],
        check=True,
    )
    return np.asarray(Image.open(out.with_suffix(".png")).convert("RGB")).astype(int)


def test_boxes_stand_where_the_blocks_are(tmp_path, source):
    target = tmp_path / "scan.layout.pdf"
    table = Block(BlockKind.TABLE, BBox(50, 300, 350, 500))
    assert write_layout_pdf([page(0), page(1, table)], source, target) == 2
    empty, framed = rendered(target, 1), rendered(target, 2)
    assert empty.shape == (600, 400, 3)
    assert empty.min() > 240
    inside = framed[400, 200]
    assert inside[1] > inside[0]  # the tables' green
    assert framed[200, 200].min() > 240


def test_a_page_that_cannot_be_shown_is_still_there(tmp_path, source):
    target = tmp_path / "scan.layout.pdf"
    failed = page(9, status=PageStatus.FAILED, reason="the reader died")
    write_layout_pdf([failed], source, target, ReadOptions())
    assert rendered(target, 1).min() < 120  # the reason is printed


def test_a_target_that_cannot_be_written_is_said(tmp_path, source):
    with pytest.raises(OcrError, match="cannot be written"):
        write_layout_pdf([page(0)], source, tmp_path / "no" / "folder.pdf")
