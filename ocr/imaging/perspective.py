"""Finds the sheet on a photograph, so that it can be pulled flat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SIDE_PX = 600
_SMALLEST_SHARE = 0.25
_LARGEST_SHARE = 0.95
_BRIGHTER = 45
"""Levels by which the sheet must be brighter than what it lies on."""
_OUT_OF_SQUARE = 0.015
"""Share of the side by which a corner must stray from a rectangle's."""


def sheet_corners(grey: NDArray[np.uint8]) -> NDArray[np.float64] | None:
    """The sheet's corners when it is surely one seen at a slant, else None.

    A bright quadrilateral on a darker ground; sheets that are only shifted or
    tilted are left to the deskewing.

    Args:
        grey: uint8, shape (height, width).

    Returns:
        float64, shape (4, 2), in pixels of `grey`, clockwise from the corner at
        the top left.
    """
    scale = min(1.0, _SIDE_PX / max(grey.shape))
    small = cv2.resize(grey, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    smooth = cv2.morphologyEx(small, cv2.MORPH_CLOSE, np.ones((9, 9), np.uint8))
    _, bright = cv2.threshold(smooth, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    contours, _ = cv2.findContours(bright, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    if not contours:
        return None
    hull = cv2.convexHull(max(contours, key=cv2.contourArea))
    quad = cv2.approxPolyDP(hull, 0.02 * cv2.arcLength(hull, True), True)[:, 0]
    share = cv2.contourArea(quad) / bright.size
    if len(quad) != 4 or not _SMALLEST_SHARE < share < _LARGEST_SHARE:
        return None
    corners = _from_top_left(quad.astype(np.float64))
    if not _slanted(corners) or not _stands_out(smooth, quad):
        return None
    return np.asarray(corners / scale, np.float64)


def sheet_size(corners: NDArray[np.float64]) -> tuple[int, int]:
    """Width and height that the flat sheet gets: its longer opposite sides."""
    top, right, bottom, left = _sides(corners)
    return max(1, round(max(top, bottom))), max(1, round(max(left, right)))


def _sides(corners: NDArray[np.float64]) -> tuple[float, float, float, float]:
    lengths = np.linalg.norm(np.roll(corners, -1, axis=0) - corners, axis=1)
    return float(lengths[0]), float(lengths[1]), float(lengths[2]), float(lengths[3])


def _from_top_left(quad: NDArray[np.float64]) -> NDArray[np.float64]:
    middle = quad.mean(axis=0)
    turns = np.arctan2(quad[:, 1] - middle[1], quad[:, 0] - middle[0])
    clockwise = quad[np.argsort(turns)]
    return np.roll(clockwise, -int(np.argmin(clockwise.sum(axis=1))), axis=0)


def _slanted(corners: NDArray[np.float64]) -> bool:
    """Whether the corners are off any rectangle: opposite sides that differ."""
    error = np.linalg.norm(corners[0] - corners[1] + corners[2] - corners[3])
    return bool(error > 2 * _OUT_OF_SQUARE * max(_sides(corners)))


def _stands_out(grey: NDArray[np.uint8], quad: NDArray[np.int32]) -> bool:
    mask = np.zeros(grey.shape, np.uint8)
    cv2.fillPoly(mask, [quad], 255)
    inside, outside = cv2.mean(grey, mask)[0], cv2.mean(grey, 255 - mask)[0]
    return bool(inside - outside > _BRIGHTER)
