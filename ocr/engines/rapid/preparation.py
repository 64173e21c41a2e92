"""From the scan to an upright, level, clean page, and the transform in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

from ocr.engines.rapid.orientation import turn_scores
from ocr.imaging.paper import clean, paper_state
from ocr.imaging.perspective import sheet_corners, sheet_size
from ocr.imaging.skew import skew_deg
from ocr.imaging.transform import Transform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocr.engines.rapid.network import Network

_SURE_TURN = 0.55
"""A page is turned only when the orientation model is this sure."""
_SMALLEST_TILT_DEG = 0.15
_LOOK_PX = 1400
"""Long side at which turn, tilt and sheet are looked for."""
_MOST_MPX = 12.0
"""Pixels of the upright page: A4 at 350 dpi, more adds memory and no words."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The page as it is read.

    Args:
        upright: uint8 RGB, shape (height, width, 3).
        transform: From the scan to `upright`.
        notes: What was done, for a person.
    """

    upright: NDArray[np.uint8]
    transform: Transform
    notes: tuple[str, ...]


def prepare(orientation: Network, scan: NDArray[np.uint8], *, correct: bool) -> Prepared:
    """The page upright, level and flat, each step only when it is surely needed.

    Args:
        orientation: The page orientation model.
        scan: uint8 RGB, shape (height, width, 3).
        correct: False: the page is only brought down to a bearable size.
    """
    transform = Transform.identity((scan.shape[1], scan.shape[0]))
    if correct:
        transform = _corrected(orientation, scan, transform)
    transform = _bearable(transform)
    upright = transform.apply(scan)
    steps: tuple[str, ...] = ()
    if correct:
        upright, steps = clean(upright, paper_state(upright))
    return Prepared(upright, transform, (*transform.steps, *steps))


def _corrected(orientation: Network, scan: NDArray[np.uint8], transform: Transform) -> Transform:
    """Flat, upright and level, judged on one small copy of the page."""
    look = _look(transform, scan)
    corners = sheet_corners(np.asarray(cv2.cvtColor(look, cv2.COLOR_RGB2GRAY), np.uint8))
    if corners is not None:
        corners = corners * (transform.size_px[0] / look.shape[1])
        transform = transform.flatten(corners, sheet_size(corners))
        look = _look(transform, scan)
    scores = turn_scores(orientation, look)
    if scores.max() > _SURE_TURN:
        turns = -int(scores.argmax())
        transform = transform.turn(turns)
        look = np.ascontiguousarray(np.rot90(look, -turns))
    tilt = skew_deg(np.asarray(cv2.cvtColor(look, cv2.COLOR_RGB2GRAY), np.uint8))
    return transform.tilt(tilt) if abs(tilt) >= _SMALLEST_TILT_DEG else transform


def _look(transform: Transform, scan: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The page so far, small enough to be examined quickly."""
    return _fitted(transform, _LOOK_PX / max(transform.size_px)).apply(scan)


def _fitted(transform: Transform, scale: float) -> Transform:
    if scale >= 1:
        return transform
    width, height = transform.size_px
    return transform.resize((max(1, round(width * scale)), max(1, round(height * scale))))


def _bearable(transform: Transform) -> Transform:
    width, height = transform.size_px
    return _fitted(transform, float(np.sqrt(_MOST_MPX * 1e6 / (width * height))))
