"""By how much the lines of a page are tilted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SIDE_PX = 900
LARGEST_DEG = 12.0
"""Steeper tilts than this are not looked for."""


def skew_deg(grey: NDArray[np.uint8]) -> float:
    """The clockwise tilt that makes the lines level, -12..12; 0 when there are none.

    The projection of the ink on the vertical axis is sharpest when lines are
    level; the sharpness is the sum of squared steps from row to row.

    Args:
        grey: uint8, shape (height, width), text upright or upside down.

    Source: Postl, Detection of linear oblique structures and skew scan in
        digitized documents, 1986.
    """
    scale = _SIDE_PX / max(grey.shape)
    small = grey
    if scale < 1:
        small = np.asarray(
            cv2.resize(grey, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA), np.uint8
        )
    ink = _ink(small)
    if np.count_nonzero(ink) < 50:
        return 0.0
    rows, columns = np.nonzero(ink)
    angles = np.arange(-LARGEST_DEG, LARGEST_DEG + 0.01, 0.5)
    sharp = [_sharpness(rows, columns, angle) for angle in angles]
    best = float(angles[int(np.argmax(sharp))])
    for step in (0.1, 0.02):
        near = best + np.arange(-5, 6) * step
        best = float(near[int(np.argmax([_sharpness(rows, columns, angle) for angle in near]))])
    if _sharpness(rows, columns, best) < 1.08 * _sharpness(rows, columns, 0.0):
        return 0.0
    return best


def _ink(grey: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Strokes as 1, paper and large dark areas as 0."""
    block = 31
    return np.asarray(
        cv2.adaptiveThreshold(
            grey, 1, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY_INV, block, 15
        ),
        np.uint8,
    )


def _sharpness(rows: NDArray[np.intp], columns: NDArray[np.intp], angle_deg: float) -> float:
    angle = np.deg2rad(angle_deg)
    heights = rows * np.cos(angle) + columns * np.sin(angle)
    profile = np.bincount((heights - heights.min()).astype(np.int64)).astype(np.float64)
    return float(np.square(np.diff(profile)).sum())
