"""What is done to a page before the model sees it, and that boxes find back."""

import cv2
import numpy as np
import pytest

from ocr import BBox
from ocr.engines.deepseek.preprocess import cut
from ocr.engines.deepseek.upstream import image_tokens, tile_grid
from ocr.engines.deepseek.valve import Valve
from tests.samples import page_image

UPRIGHT = np.array([1, 0, 0, 0], np.float32)
LINES = "The quick brown fox jumps over the lazy dog and runs on along the river.\n" * 25


@pytest.fixture(scope="module")
def scan():
    return np.asarray(page_image(LINES).convert("RGB"))


def valve(scores=UPRIGHT):
    return Valve(lambda _: np.asarray(scores, np.float32))


def test_an_upright_page_of_text_takes_all_tiles(scan):
    prepared = valve().prepare(scan, correct=True)
    assert prepared.upright.shape == scan.shape
    assert (prepared.most_tiles, prepared.lean) == (6, False)
    assert cut(prepared.upright, prepared.most_tiles).tokens == 1121


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_turned_page_is_turned_back(scan, turns):
    turned = np.rot90(scan, -turns)
    scores = np.eye(4, dtype=np.float32)[turns]
    prepared = valve(scores).prepare(turned, correct=True)
    assert np.array_equal(prepared.upright, scan)


def test_a_skewed_page_is_levelled_and_its_boxes_return(scan):
    height, width = scan.shape[:2]
    turn = cv2.getRotationMatrix2D((width / 2, height / 2), -3.0, 1.0)
    skewed = cv2.warpAffine(scan, turn, (width, height), borderValue=(255, 255, 255))
    prepared = valve().prepare(skewed, correct=True)
    assert any("tilt" in step for step in prepared.transform.steps)
    points = np.array([[200.0, 300.0], [900.0, 1200.0]])
    back = prepared.transform.to_scan(prepared.transform.from_scan(points))
    assert np.abs(back - points).max() < 0.01


def test_without_correction_nothing_is_turned(scan):
    prepared = valve([0, 1, 0, 0]).prepare(scan, correct=False)
    assert np.array_equal(prepared.upright, scan)
    assert not prepared.sharpen


def test_the_second_scale_keeps_boxes_on_the_scan(scan):
    prepared = valve().prepare(scan, correct=False, margin=0.1)
    width, height = prepared.transform.size_px
    assert width == pytest.approx(scan.shape[1] * 1.2, abs=2)
    whole = prepared.transform.box_to_scan(BBox(0, 0, width, height))
    assert (whole.right, whole.bottom) == (scan.shape[1], scan.shape[0])
    inner = prepared.transform.box_to_scan(BBox(width / 2, height / 2, width, height))
    assert inner.left == pytest.approx(scan.shape[1] / 2, abs=1.5)


def test_a_nearly_empty_page_of_large_letters_takes_few_tiles():
    words = "Chapter two\nof the report\nfor the year"
    page = np.asarray(page_image(words).convert("RGB"))
    ink = np.argwhere(page.min(axis=2) < 128)
    top, left = ink.min(axis=0) - 10
    bottom, right = ink.max(axis=0) + 10
    large = cv2.resize(page[top:bottom, left:right], None, fx=3, fy=3)
    sparse = np.full((2339, 1654, 3), 255, np.uint8)
    sparse[500 : 500 + large.shape[0], 100 : 100 + large.shape[1]] = large
    prepared = valve().prepare(sparse, correct=False)
    assert prepared.lean
    assert prepared.most_tiles == 2
    assert any("fewer tiles" in note for note in prepared.notes)


def test_small_print_on_a_nearly_empty_page_keeps_all_tiles():
    page = np.asarray(page_image("one line of small print at the top of the page").convert("RGB"))
    small = cv2.resize(page, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    prepared = valve().prepare(small, correct=False)
    assert not prepared.lean


def test_text_that_gets_small_is_sharpened(scan):
    large = cv2.resize(scan, None, fx=2, fy=2)
    prepared = valve().prepare(large, correct=True)
    assert prepared.sharpen
    plain, sharp = cut(large), cut(large, sharpen=True)
    assert sharp.tiles.astype(int).std() > plain.tiles.astype(int).std()


def test_small_pages_need_no_tiles():
    assert tile_grid(700, 500) is None
    assert cut(np.full((500, 700, 3), 255, np.uint8)).tokens == image_tokens(0) == 257


@pytest.mark.parametrize(("size", "tiles"), [((1654, 2339), 6), ((2339, 1654), 6), ((900, 900), 4)])
def test_tiles_follow_the_page_s_shape(size, tiles):
    columns, rows = tile_grid(*size)
    assert columns * rows == tiles
