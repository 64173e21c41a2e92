"""Boxes taller than wide: text that runs up or down, or characters set one below the other."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import cv2
import numpy as np

from ocr.engines.rapid.recognition import HEIGHT_PX

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocr.engines.rapid.detection import TextBox

_TALL = 1.6
"""Height over width from which a box is looked at from the side as well."""
_MARGIN = 0.12


def is_upended(box: TextBox) -> bool:
    """Whether the box is so tall that its text may not run from left to right."""
    width, height = np.ptp(box.corners, axis=0)
    return bool(height > _TALL * width)


def sideways(image: NDArray[np.uint8], box: TextBox) -> list[NDArray[np.uint8]]:
    """Crops 48 px high, uint8 RGB, one for each way the text may run.

    Args:
        image: uint8 RGB, shape (height, width, 3).
        box: For which `is_upended` is true.

    Returns:
        Text running up, text running down, characters stacked.
    """
    left, top = np.floor(box.corners.min(axis=0)).astype(int)
    right, bottom = np.ceil(box.corners.max(axis=0)).astype(int)
    patch = image[top:bottom, left:right]
    up = cv2.rotate(patch, cv2.ROTATE_90_CLOCKWISE)
    down = cv2.rotate(patch, cv2.ROTATE_90_COUNTERCLOCKWISE)
    return [_as_line(up), _as_line(down), _laid_out(patch)]


def _as_line(patch: NDArray[np.uint8]) -> NDArray[np.uint8]:
    width = max(8, round(patch.shape[1] * HEIGHT_PX / patch.shape[0]))
    how = cv2.INTER_AREA if patch.shape[0] > HEIGHT_PX else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(patch, (width, HEIGHT_PX), interpolation=how), np.uint8)


def _laid_out(patch: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Stacked characters side by side: cut into squares and put in a row."""
    height, width = patch.shape[:2]
    count = max(1, round(height / _pitch(patch, width)))
    edges = np.linspace(0, height, count + 1).round().astype(int)
    margin = round(width * _MARGIN)
    cells = []
    for top, bottom in itertools.pairwise(edges):
        cell = patch[top:bottom, margin : width - margin]
        cells.append(cv2.resize(cell, (HEIGHT_PX, HEIGHT_PX), interpolation=cv2.INTER_CUBIC))
    return np.asarray(np.concatenate(cells, axis=1), np.uint8)


def _pitch(patch: NDArray[np.uint8], width: int) -> float:
    """Distance from one stacked character to the next, by the rhythm of the ink."""
    grey = cv2.cvtColor(patch, cv2.COLOR_RGB2GRAY).astype(np.float64)
    profile = np.abs(grey - np.median(grey)).mean(axis=1)
    profile -= profile.mean()
    shifts = range(max(4, round(0.7 * width)), min(len(profile) - 4, round(2.0 * width)))
    if not shifts:
        return float(width)
    rhythm = [float((profile[s:] * profile[:-s]).mean()) for s in shifts]
    return float(shifts[int(np.argmax(rhythm))])
