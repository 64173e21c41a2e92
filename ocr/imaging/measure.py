"""How high the text of a page is, measured on its connected components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LONGEST_PX = 3000
"""Larger pages are measured at this size: their text is never too small."""
_LOWEST_PX = 3
"""Lower specks are dots and noise."""
_ENOUGH = 12
"""Letters that a page must show before it is said to have a text height."""


@dataclass(frozen=True, slots=True)
class TextHeight:
    """Heights of the letters of a page in its own pixels.

    Args:
        smallest_px: Height that only a tenth of the letters stay below.
        usual_px: Median; for Latin text close to the x-height.
        letters: How many letters it rests on.
    """

    smallest_px: float
    usual_px: float
    letters: int


def text_height(grey: NDArray[np.uint8]) -> TextHeight | None:
    """The height of the letters, None when there are too few to tell.

    Only components that have a neighbour of like height beside them count, so
    that specks, frames and pictures do not.

    Args:
        grey: uint8, shape (height, width), text upright or upside down.
    """
    scale = min(1.0, _LONGEST_PX / max(grey.shape))
    small = grey
    if scale < 1:
        small = np.asarray(
            cv2.resize(grey, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA), np.uint8
        )
    heights = _letter_heights(_letter_boxes(small))
    if len(heights) < _ENOUGH:
        return None
    tenth, middle = np.percentile(heights, (10, 50))
    return TextHeight(float(tenth) / scale, float(middle) / scale, len(heights))


def _letter_boxes(grey: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Left, top, width, height of what could be letters, shape (n, 4)."""
    mean = cv2.ADAPTIVE_THRESH_MEAN_C
    ink = cv2.adaptiveThreshold(grey, 255, mean, cv2.THRESH_BINARY_INV, 31, 12)
    _, _, stats, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    boxes = stats[1:]
    width, height, area = boxes[:, 2], boxes[:, 3], boxes[:, 4]
    tallest = max(40, min(grey.shape) // 8)
    like_letters = (
        (height >= _LOWEST_PX)
        & (height <= tallest)
        & (width <= 4 * height)
        & (height <= 8 * width)
        & (area >= 0.12 * width * height)
    )
    return np.asarray(boxes[like_letters, :4], np.int32)


def _letter_heights(boxes: NDArray[np.int32]) -> NDArray[np.int32]:
    """Heights of the boxes with a neighbour of like height on the same line."""
    if len(boxes) < 2:
        return np.asarray(boxes[:, 3], np.int32)
    line = float(np.median(boxes[:, 3]))
    paired = np.zeros(len(boxes), bool)
    middles = boxes[:, 1] + boxes[:, 3] / 2
    for shift in (0.0, 0.5):
        rows = np.floor(middles / line + shift).astype(np.int64)
        order = np.lexsort((boxes[:, 0], rows))
        here, following = order[:-1], order[1:]
        gap = boxes[following, 0] - boxes[here, 0] - boxes[here, 2]
        low = np.minimum(boxes[here, 3], boxes[following, 3])
        high = np.maximum(boxes[here, 3], boxes[following, 3])
        near = (rows[here] == rows[following]) & (gap < high) & (gap > -high) & (high <= 2 * low)
        paired[here[near]] = True
        paired[following[near]] = True
    return np.asarray(boxes[paired, 3], np.int32)
