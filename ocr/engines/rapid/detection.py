"""Where the lines of text stand: PP-OCR's detector and differentiable binarization."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocr.engines.rapid.network import Network

_GRID_PX = 32
"""The network halves its input five times."""
_INK = 0.3
"""Probability from which a pixel counts as text."""
_SURE = 0.4
"""Mean probability that a box must have to be kept."""
_UNCLIP = 1.6
"""The network marks shrunken lines; area × this ÷ perimeter grows them back."""
_MAX_BOXES = 3000
_TEXT_PX = 12.0
"""Height of small letters (x-height) that the detector sees best for its cost."""
_LEAST_PX = 1280
_MOST_PX = 1850
_MOST_MPX = 2.0
"""Size of a searched page: smaller merges columns, larger costs time and memory."""
_LARGEST_SCALE = 2.5
_FAST_SHARE = 0.65


@dataclass(frozen=True, slots=True)
class TextBox:
    """One detected line, tilted or not.

    Args:
        corners: float32, shape (4, 2), pixels of the image that was searched,
            clockwise from the text's top left.
        score: Mean text probability inside, 0..1.
    """

    corners: NDArray[np.float32]
    score: float


def search_scale(size_px: tuple[int, int], text_px: float | None, *, fast: bool = False) -> float:
    """The scale at which a page is searched: small text enlarged, large text shrunk.

    Args:
        size_px: Width and height of the page.
        text_px: Usual height of its letters (x-height), None when unknown.
        fast: Two thirds of the resolution.
    """
    longest = max(size_px)
    share = _FAST_SHARE if fast else 1.0
    scale = share if text_px is None else share * _TEXT_PX / text_px
    scale = max(scale, min(1.0, share * _LEAST_PX / longest))
    area = math.sqrt(_MOST_MPX * 1e6 / (size_px[0] * size_px[1]))
    return min(scale, _LARGEST_SCALE, _MOST_PX / longest, area)


def find_text(network: Network, image: NDArray[np.uint8], *, scale: float) -> list[TextBox]:
    """The boxes of all lines, in no particular order.

    Args:
        network: The detection model.
        image: uint8 RGB, shape (height, width, 3).
        scale: Of the image that the network sees, by `search_scale`.
    """
    height, width = image.shape[:2]
    size = tuple(
        max(_GRID_PX, round(side * scale / _GRID_PX) * _GRID_PX) for side in (width, height)
    )
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    small = cv2.resize(image, size, interpolation=how)
    # The network was trained on BGR.
    batch = cv2.dnn.blobFromImage(small, 1 / 127.5, mean=(127.5, 127.5, 127.5), swapRB=True)
    probability = network(batch)[0][0, 0]
    return boxes_from_map(probability, (width, height))


def boxes_from_map(probability: NDArray[np.float32], size_px: tuple[int, int]) -> list[TextBox]:
    """Boxes around the connected areas of a text probability map.

    Args:
        probability: float32 0..1, shape (rows, columns).
        size_px: Width and height of the image that the boxes are wanted for.

    Source: Liao et al., Real-time Scene Text Detection with Differentiable
        Binarization, section 3.5; PaddleOCR db_postprocess.py.
    """
    rows, columns = probability.shape
    stretch = np.array([size_px[0] / columns, size_px[1] / rows])
    mask = cv2.dilate((probability > _INK).astype(np.uint8), np.ones((2, 2), np.uint8))
    contours, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    boxes = []
    for contour in contours[:_MAX_BOXES]:
        (x, y), (w, h), angle = cv2.minAreaRect(contour)
        if min(w, h) < 3:
            continue
        score = _mean_inside(probability, cv2.boxPoints(((x, y), (w, h), angle)))
        if score < _SURE:
            continue
        grow = w * h * _UNCLIP / (w + h)
        corners = cv2.boxPoints(((x, y), (w + grow, h + grow), angle))
        ordered = _clockwise(corners * stretch)
        boxes.append(TextBox(np.clip(ordered, 0, size_px).astype(np.float32), score))
    return boxes


def _mean_inside(probability: NDArray[np.float32], corners: NDArray[np.float32]) -> float:
    rows, columns = probability.shape
    left, top = np.clip(np.floor(corners.min(axis=0)).astype(int), 0, (columns - 1, rows - 1))
    right, bottom = np.clip(np.ceil(corners.max(axis=0)).astype(int), 0, (columns - 1, rows - 1))
    mask = np.zeros((bottom - top + 1, right - left + 1), np.uint8)
    cv2.fillPoly(mask, [(corners - (left, top)).astype(np.int32)], 1)
    return float(cv2.mean(probability[top : bottom + 1, left : right + 1], mask)[0])


def _clockwise(corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """Top left, top right, bottom right, bottom left, for text tilted less than 45°."""
    by_x = corners[np.argsort(corners[:, 0], kind="stable")]
    left, right = by_x[:2], by_x[2:]
    left, right = left[np.argsort(left[:, 1])], right[np.argsort(right[:, 1])]
    return np.array([left[0], right[0], right[1], left[1]])
