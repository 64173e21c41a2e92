"""What is measured on a page: text height, tilt, paper, the sheet on a photograph."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from ocr.imaging.measure import text_height
from ocr.imaging.paper import clean, paper_state
from ocr.imaging.perspective import sheet_corners, sheet_size
from ocr.imaging.skew import skew_deg
from ocr.imaging.transform import Transform
from tests.samples import degrade, page_image


def _grey(size_pt: float = 11.0, dpi: int = 150) -> np.ndarray:
    return np.asarray(degrade(page_image(dpi=dpi, size_pt=size_pt), seed=3).convert("L"))


@pytest.mark.parametrize("size_pt", [8.0, 11.0, 16.0])
def test_letters_are_as_high_as_they_were_set(size_pt: float) -> None:
    measured = text_height(_grey(size_pt))
    assert measured is not None
    x_height = 0.547 * size_pt * 150 / 72
    assert measured.usual_px == pytest.approx(x_height, rel=0.35)
    assert measured.smallest_px <= measured.usual_px


def test_specks_and_rules_are_no_text() -> None:
    chance = np.random.default_rng(5)
    page = np.full((800, 600), 250, np.uint8)
    page[chance.integers(0, 800, 300), chance.integers(0, 600, 300)] = 0
    cv2.rectangle(page, (50, 50), (550, 750), 0, 3)
    assert text_height(page) is None


@pytest.mark.parametrize("tilt", [-10.0, -4.0, -0.6, 0.0, 1.0, 5.0, 10.0])
@pytest.mark.parametrize("upside_down", [False, True])
def test_the_tilt_of_a_page_is_found(tilt: float, upside_down: bool) -> None:
    page = np.asarray(page_image(dpi=120).convert("L"))
    if upside_down:
        page = np.ascontiguousarray(page[::-1, ::-1])
    tilted = Transform.identity((page.shape[1], page.shape[0])).tilt(tilt).apply(page)
    assert skew_deg(tilted) == pytest.approx(-tilt, abs=0.15)


def test_an_empty_page_is_not_tilted() -> None:
    assert skew_deg(np.full((900, 700), 240, np.uint8)) == 0.0


def test_a_good_scan_is_left_as_it_is() -> None:
    page = np.asarray(degrade(page_image(dpi=150), seed=2))
    cleaned, steps = clean(page, paper_state(page))
    assert steps == ()
    assert cleaned is page


def test_a_shadow_is_evened_out() -> None:
    page = np.asarray(page_image(dpi=150)).astype(np.float32)
    page *= np.linspace(1.0, 0.3, page.shape[1])[None, :, None]
    shaded = page.astype(np.uint8)
    cleaned, steps = clean(shaded, paper_state(shaded))
    assert steps == ("evened out the paper",)
    assert np.percentile(cleaned[:, -200:], 50) > 230
    assert cleaned.min() < 60


def test_faint_ink_is_darkened() -> None:
    page = np.asarray(page_image(dpi=150)).astype(np.float32)
    faint = (215 + (page - 255) * 0.2).clip(0, 255).astype(np.uint8)
    state = paper_state(faint)
    cleaned, steps = clean(faint, state)
    assert steps == ("evened out the paper",)
    assert paper_state(cleaned).contrast > 2 * state.contrast


def test_dither_is_smoothed() -> None:
    grey = np.asarray(page_image(dpi=150).convert("L")) * 0.75
    cell = np.array([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]]) * 16 + 8
    rows, columns = np.indices(grey.shape)
    screen = cell[rows % 4, columns % 4]
    dithered = np.repeat(np.where(grey > screen, 255, 0).astype(np.uint8)[..., None], 3, axis=2)
    assert clean(dithered, paper_state(dithered))[1][0] == "smoothed specks"


def _photographed(page: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    height, width = page.shape[:2]
    corners = np.float32([[150, 180], [900, 120], [980, 1300], [90, 1240]])
    flat = np.float32([[0, 0], [width, 0], [width, height], [0, height]])
    matrix = cv2.getPerspectiveTransform(flat, corners)
    desk = (70, 60, 50)[: 1 if page.ndim == 2 else 3]
    photo = cv2.warpPerspective(page, matrix, (1080, 1440), borderValue=desk)
    return photo, corners


def test_the_sheet_on_a_photograph_is_found_and_pulled_flat() -> None:
    page = np.asarray(page_image(dpi=120).convert("L"))
    photo, corners = _photographed(page)
    found = sheet_corners(photo)
    assert found is not None
    assert np.abs(found - corners).max() < 12
    chain = Transform.identity((1080, 1440)).flatten(found, sheet_size(found))
    flat = chain.apply(photo)
    assert flat.mean() > 200
    assert abs(skew_deg(flat)) < 1.0


def test_scans_and_tilted_sheets_are_no_photographs() -> None:
    page = _grey()
    assert sheet_corners(page) is None
    framed = cv2.copyMakeBorder(page, 90, 90, 90, 90, cv2.BORDER_CONSTANT, value=60)
    assert sheet_corners(framed) is None
    tilted = Transform.identity((framed.shape[1], framed.shape[0])).tilt(4).apply(framed, border=60)
    assert sheet_corners(tilted) is None
