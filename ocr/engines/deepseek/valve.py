"""What is done to a page before the model sees it, and what the model is asked to spend.

Turning and deskewing, a second scale for pages that ran away, sharpening where
text gets small, and fewer tiles for pages that hold little. Every step is part of
the transform, so that boxes come back in the pixels of the scan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

from ocr.blankness import ink_cells
from ocr.document import BBox
from ocr.engines.deepseek.upstream import TILE_PX, VIEW_PX, tile_grid
from ocr.errors import EngineUnavailable
from ocr.imaging.measure import text_height
from ocr.imaging.skew import skew_deg
from ocr.imaging.transform import Transform

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

READABLE_PX = 16.0
"""Text lower than this after resizing is sharpened."""
_SURE_TURN = 0.55
_SMALLEST_TILT_DEG = 0.15
_LITTLE_INK = 0.02
"""Share of 4 px cells with ink below which a page counts as mostly blank; a page of
twenty lines has 0.027."""
_LEAN_TILES = 2
_FULL_TILES = 6


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A page as the model will see it.

    Args:
        upright: uint8 RGB (height, width, 3).
        transform: From the scan to `upright`.
        most_tiles: Upper bound of tiles.
        sharpen: Whether the tiles are to be sharpened.
        lean: Mostly blank: a shorter text is expected.
        notes: What was done, for a person.
    """

    upright: NDArray[np.uint8]
    transform: Transform
    most_tiles: int = _FULL_TILES
    sharpen: bool = False
    lean: bool = False
    notes: tuple[str, ...] = ()


class Valve:
    """Prepares pages; holds the small orientation model once it was needed."""

    def __init__(
        self, turn_scores: Callable[[NDArray[np.uint8]], NDArray[np.float32]] | None = None
    ) -> None:
        self._turn_scores = turn_scores

    def prepare(
        self, scan: NDArray[np.uint8], *, correct: bool, margin: float = 0.0, most_tiles: int = 6
    ) -> Prepared:
        """The page upright, with what it needs.

        Args:
            scan: uint8 RGB (height, width, 3).
            correct: Turn, deskew and sharpen where that helps.
            margin: White added on every side, as a share of the side: the same
                page at another scale.
            most_tiles: Upper bound of tiles, 0..6.
        """
        transform = Transform.identity((scan.shape[1], scan.shape[0]))
        if correct:
            transform = self._upright(scan, transform)
        if margin:
            width, height = transform.size_px
            across, down = margin * width, margin * height
            transform = transform.crop(BBox(-across, -down, width + across, height + down))
        upright = transform.apply(np.ascontiguousarray(scan))
        height_px = _letters_px(upright)
        lean = most_tiles > _LEAN_TILES and _is_sparse(upright, height_px)
        tiles = _LEAN_TILES if lean else most_tiles
        scale = _scale(upright, tiles)
        small = height_px is not None and scale < 1 and height_px * scale < READABLE_PX
        notes = list(transform.steps)
        if lean:
            notes.append("mostly blank: fewer tiles")
        if correct and small:
            notes.append(f"small text ({height_px:.0f} px): sharpened")
        return Prepared(upright, transform, tiles, correct and small, lean, tuple(notes))

    def _upright(self, scan: NDArray[np.uint8], transform: Transform) -> Transform:
        scores = self._scores(scan)
        if scores is not None and float(scores.max()) > _SURE_TURN:
            transform = transform.turn(-int(scores.argmax()))
        grey = np.asarray(cv2.cvtColor(transform.apply(scan), cv2.COLOR_RGB2GRAY), np.uint8)
        tilt = skew_deg(grey)
        return transform.tilt(tilt) if abs(tilt) >= _SMALLEST_TILT_DEG else transform

    def _scores(self, scan: NDArray[np.uint8]) -> NDArray[np.float32] | None:
        if self._turn_scores is None:
            try:
                self._turn_scores = _orientation_model()
            except (ImportError, EngineUnavailable):
                return None
        return self._turn_scores(scan)


def _orientation_model() -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
    """The CPU engine's page orientation model, one thread, some milliseconds a page."""
    from ocr.engines.rapid import weights
    from ocr.engines.rapid.network import Network
    from ocr.engines.rapid.orientation import turn_scores

    network = Network(weights.weights_path(weights.ORIENTATION), threads=1)
    return lambda image: turn_scores(network, image)


def _letters_px(upright: NDArray[np.uint8]) -> float | None:
    letters = text_height(np.asarray(cv2.cvtColor(upright, cv2.COLOR_RGB2GRAY), np.uint8))
    return None if letters is None else letters.smallest_px


def _is_sparse(upright: NDArray[np.uint8], height_px: float | None) -> bool:
    """Little ink, and all of it large enough to be read with fewer tiles."""
    cells = (upright.shape[0] // 4) * (upright.shape[1] // 4)
    if cells == 0 or ink_cells(upright) > _LITTLE_INK * cells:
        return False
    return height_px is not None and height_px * _scale(upright, _LEAN_TILES) >= READABLE_PX


def _scale(upright: NDArray[np.uint8], tiles: int) -> float:
    """How much smaller the model sees the page, by the tighter direction."""
    height, width = upright.shape[:2]
    grid = tile_grid(width, height, tiles) if tiles else None
    if grid is None:
        return min(1.0, VIEW_PX / float(max(width, height)))
    return min(grid[0] * TILE_PX / float(width), grid[1] * TILE_PX / float(height))
