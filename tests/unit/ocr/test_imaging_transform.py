"""Boxes come back to the pixels of the scan, whatever was done to the page."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocr.document import BBox
from ocr.imaging.transform import Transform

_SIZES = st.tuples(st.integers(200, 3000), st.integers(200, 3000))


def _grow(draw: st.DrawFn, chain: Transform) -> Transform:
    width, height = chain.size_px
    match draw(st.sampled_from(["turn", "tilt", "resize", "crop", "flatten"])):
        case "turn":
            return chain.turn(draw(st.integers(-3, 3)))
        case "tilt":
            return chain.tilt(draw(st.floats(-12, 12)))
        case "resize":
            factor = draw(st.floats(0.4, 2.5))
            return chain.resize((max(50, round(width * factor)), max(50, round(height * factor))))
        case "crop":
            left, top = draw(st.floats(0, 0.2)) * width, draw(st.floats(0, 0.2)) * height
            return chain.crop(BBox(left, top, width - left / 2, height - top / 2))
    jitter = [
        (
            draw(st.floats(-0.08, 0.08)) * width,
            draw(st.floats(-0.08, 0.08)) * height,
        )
        for _ in range(4)
    ]
    square = [(0, 0), (width, 0), (width, height), (0, height)]
    corners = [(x + dx, y + dy) for (x, y), (dx, dy) in zip(square, jitter, strict=True)]
    return chain.flatten(corners, (width, height))


@st.composite
def chains(draw: st.DrawFn) -> Transform:
    chain = Transform.identity(draw(_SIZES))
    for _ in range(draw(st.integers(0, 6))):
        chain = _grow(draw, chain)
    return chain


@settings(max_examples=150, deadline=None)
@given(chains(), st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=8))
def test_points_come_back_to_where_they_were_on_the_scan(
    chain: Transform, shares: list[tuple[float, float]]
) -> None:
    width, height = chain.size_px
    points = np.array([(x * width, y * height) for x, y in shares])
    back = chain.from_scan(chain.to_scan(points))
    assert np.abs(back - points).max() < 0.01
    assert len(chain.steps) <= 6


@settings(max_examples=25, deadline=None)
@given(chains(), st.floats(0.25, 0.75), st.floats(0.25, 0.75))
def test_a_mark_on_the_scan_is_found_where_the_chain_says(
    chain: Transform, across: float, down: float
) -> None:
    """The pixels move exactly as the points do, error under 1.5 px of the scan."""
    width, height = chain.source_size_px
    scan = np.full((height, width), 255, np.uint8)
    centre = (width * across, height * down)
    radius = max(6, min(width, height) // 30)
    cv2.circle(scan, (round(centre[0] - 0.5), round(centre[1] - 0.5)), radius, 0, -1)
    drawn = (round(centre[0] - 0.5) + 0.5, round(centre[1] - 0.5) + 0.5)
    image = chain.apply(scan)
    assert image.shape == (chain.size_px[1], chain.size_px[0])
    rows, columns = np.nonzero(image < 128)
    margin = 3
    inside = (
        len(rows) > 0
        and rows.min() > margin
        and columns.min() > margin
        and rows.max() < image.shape[0] - margin
        and columns.max() < image.shape[1] - margin
    )
    if not inside:
        return
    # By weight of ink: whole pixels alone are five scan pixels wide after a reduction to
    # a fifth, too coarse a ruler for the 1.5 px that are promised.
    ink = 255.0 - image
    down_px, across_px = np.indices(ink.shape) + 0.5
    mark = ((across_px * ink).sum() / ink.sum(), (down_px * ink).sum() / ink.sum())
    seen = chain.to_scan([mark])[0]
    assert math.dist(seen, drawn) < 1.5


@pytest.mark.parametrize(
    ("turns", "corner"), [(0, (0, 0)), (1, (1, 0)), (2, (1, 1)), (3, (0, 1)), (-1, (0, 1))]
)
def test_turning_moves_the_top_left_corner_clockwise(turns: int, corner: tuple[int, int]) -> None:
    scan = np.full((40, 60), 255, np.uint8)
    scan[:5, :5] = 0
    chain = Transform.identity((60, 40)).turn(turns)
    image = chain.apply(scan)
    dark = np.argwhere(image == 0)
    assert len(dark) == 25
    row, column = dark.mean(axis=0) / image.shape > 0.5
    assert (int(column), int(row)) == corner
    box = chain.box_to_scan(chain.box_from_scan(BBox(3, 4, 20, 30)))
    assert box == BBox(3, 4, 20, 30)


def test_a_clockwise_tilt_lowers_the_right_end_of_a_line() -> None:
    chain = Transform.identity((400, 300)).tilt(5)
    left, right = chain.from_scan([(50, 150), (350, 150)])
    assert right[1] - left[1] == pytest.approx(300 * math.sin(math.radians(5)))
    assert chain.size_px[0] >= 400
    assert chain.size_px[1] >= 300


def test_boxes_never_leave_the_scan() -> None:
    chain = Transform.identity((500, 700)).tilt(-8)
    box = chain.box_to_scan(BBox(-20, -20, chain.size_px[0] + 20, chain.size_px[1] + 20))
    assert box == BBox(0, 0, 500, 700)


def test_a_chain_without_steps_hands_back_the_very_pixels() -> None:
    scan = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert Transform.identity((4, 3)).apply(scan) is scan
