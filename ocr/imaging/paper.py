"""Makes paper white and ink dark where light, colour or copying took that away.

Readers cope with much, so every step is taken only on a page that measures badly:
shadows and dark paper, faint ink, and the specks of fax machines and dithering.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAP_PX = 256
"""Long side at which the paper's brightness is mapped."""
_UNEVEN = 60.0
"""Levels between bright and shaded paper from which shadows are evened out."""
_DARK_PAPER = 150.0
_FAINT = 60.0
"""Levels between paper and ink below which the ink is darkened."""
_SPECKS = 8.0
"""Specks for each larger mark from which a page counts as noisy: clean scans of small
print reach 4, fax lines with errors 16, ordered dither over 100."""
_BLUR_PX = 1.2
"""Radius that joins the dots of dither and fax noise and keeps letters apart."""


@dataclass(frozen=True, slots=True)
class PaperState:
    """What was measured, in grey levels 0..255 where not said otherwise.

    Args:
        paper: Brightness of the paper in its middle range.
        unevenness: Difference between its bright and its shaded parts.
        contrast: By how much the ink is darker than the paper around it.
        specks: Single dots for each larger mark, 0 and up.
    """

    paper: float
    unevenness: float
    contrast: float
    specks: float

    @property
    def needs_light(self) -> bool:
        """Whether shadows, colour or faint ink call for flattening."""
        return self.unevenness > _UNEVEN or self.paper < _DARK_PAPER or 0 < self.contrast < _FAINT

    @property
    def is_noisy(self) -> bool:
        """Whether specks call for smoothing."""
        return self.specks > _SPECKS


def paper_state(image: NDArray[np.uint8]) -> PaperState:
    """Measures an RGB page, uint8, shape (height, width, 3)."""
    grey = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)
    paper = _paper_map(grey)
    dark, middle, bright = np.percentile(paper, (5, 50, 95))
    small = cv2.resize(grey, (paper.shape[1] * 4, paper.shape[0] * 4), interpolation=cv2.INTER_AREA)
    depth = cv2.resize(paper, (small.shape[1], small.shape[0])).astype(np.int16) - small
    ink = depth[depth > 20]
    contrast = float(np.percentile(ink, 90)) if ink.size > 100 else 0.0
    return PaperState(float(middle), float(bright - dark), contrast, _speck_ratio(grey))


def clean(image: NDArray[np.uint8], state: PaperState) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    """The page with the steps that its state calls for, and their names.

    Args:
        image: uint8 RGB, shape (height, width, 3); not changed.
        state: By `paper_state`.
    """
    steps: list[str] = []
    if state.is_noisy:
        image = np.asarray(cv2.GaussianBlur(image, (0, 0), _BLUR_PX), np.uint8)
        steps.append("smoothed specks")
    if state.needs_light:
        image = _flattened(image, state)
        steps.append("evened out the paper")
    return image, tuple(steps)


def _paper_map(grey: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Brightness of the paper, shape at most (256, 256); ink is closed over."""
    scale = _MAP_PX / max(grey.shape)
    size = (max(1, round(grey.shape[1] * scale)), max(1, round(grey.shape[0] * scale)))
    small = cv2.resize(grey, size, interpolation=cv2.INTER_AREA)
    closed = cv2.morphologyEx(small, cv2.MORPH_CLOSE, np.ones((13, 13), np.uint8))
    return np.asarray(cv2.GaussianBlur(closed, (0, 0), 5), np.uint8)


def _flattened(image: NDArray[np.uint8], state: PaperState) -> NDArray[np.uint8]:
    """Each channel divided by the paper's, ink stretched to black, faint marks to white."""
    gain = 160.0 / state.contrast if 0 < state.contrast < 160.0 else 1.0
    gain = min(gain, 3.0)
    result = np.empty_like(image)
    for channel in range(3):
        plane = np.ascontiguousarray(image[:, :, channel])
        paper = cv2.resize(_paper_map(plane), (image.shape[1], image.shape[0]))
        even = cv2.divide(plane, np.maximum(paper, 1), scale=245)
        result[:, :, channel] = cv2.convertScaleAbs(
            np.maximum(0, (even.astype(np.float32) - 245) * gain + 250)
        )
    return result


def _speck_ratio(grey: NDArray[np.uint8]) -> float:
    """Dots of at most three pixels for each larger mark, on a middle piece of the page."""
    height, width = grey.shape
    side = 1200
    top, left = max(0, (height - side) // 2), max(0, (width - side) // 2)
    piece = grey[top : top + side, left : left + side]
    ink = cv2.adaptiveThreshold(
        piece, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY_INV, 31, 25
    )
    _, _, stats, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    area = stats[1:, cv2.CC_STAT_AREA]
    return float(np.count_nonzero(area <= 3)) / max(10, int(np.count_nonzero(area > 8)))
