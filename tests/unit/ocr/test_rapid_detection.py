"""Boxes from a text probability map, and the scale at which a page is searched."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from ocr.engines.rapid.detection import boxes_from_map, search_scale


def test_every_mark_of_text_becomes_one_box_in_page_pixels() -> None:
    probability = np.zeros((320, 640), np.float32)
    probability[100:110, 50:450] = 0.9
    probability[200:210, 100:300] = 0.8
    probability[300:310, 100:300] = 0.35
    boxes = sorted(boxes_from_map(probability, (1280, 640)), key=lambda box: box.corners[0, 1])
    assert len(boxes) == 2, "the faint mark is not sure enough"
    assert boxes[0].score > boxes[1].score > 0.5
    left, top = boxes[0].corners.min(axis=0)
    right, bottom = boxes[0].corners.max(axis=0)
    assert left < 100
    assert right > 900
    assert top < 200
    assert bottom > 220


def test_a_tilted_line_keeps_its_corners_in_order() -> None:
    probability = np.zeros((400, 400), np.float32)
    quad = cv2.boxPoints(((200, 200), (300, 12), 8)).astype(np.int32)
    cv2.fillPoly(probability, [quad], 0.9)
    (box,) = boxes_from_map(probability, (400, 400))
    top_left, top_right, bottom_right, bottom_left = box.corners
    assert top_left[0] < top_right[0]
    assert bottom_left[1] > top_left[1]
    assert bottom_right[1] > top_right[1]
    assert top_right[1] > top_left[1]


@pytest.mark.parametrize(
    ("size", "text_px", "least", "most"),
    [
        ((1700, 2200), 14.0, 0.7, 0.9),
        ((5100, 6600), 45.0, 0.18, 0.3),
        ((480, 300), 6.0, 1.8, 2.2),
        ((4000, 3000), 3.0, 0.4, 0.47),
        ((800, 600), None, 1.0, 1.0),
    ],
)
def test_small_print_is_enlarged_and_large_print_shrunk(
    size: tuple[int, int], text_px: float | None, least: float, most: float
) -> None:
    assert least <= search_scale(size, text_px) <= most
    assert search_scale(size, text_px, fast=True) <= search_scale(size, text_px)
