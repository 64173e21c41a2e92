"""Is there anything at all on a page?

Cautious on purpose: a page with one faint pencil word is not blank. Thresholds on
the mean of the page drop such pages (hot-folder reports 44), so cells of ink are
counted against the paper around them instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CELL_PX = 4
"""Side of a cell. Its mean takes scanner noise (σ of 3 to 6 levels) down by four."""
_NEIGHBOURHOOD = 16
"""Cells per side of the square whose median is the local colour of the paper."""
_CONTRAST = 8
"""Levels (of 255) by which a cell with ink differs from paper: a hairline one pixel
wide in hard pencil (40 levels) fills a quarter of its cells; noise stays under 6."""
_FEW_CELLS = 6
"""Specks of dust darken up to this many cells; a printed comma darkens more."""


def ink_cells(pixels: NDArray[np.uint8]) -> int:
    """How many cells of 4 × 4 pixels differ from the paper around them.

    Args:
        pixels: uint8 RGB, shape (height, width, 3).
    """
    height, width = pixels.shape[0] // _CELL_PX, pixels.shape[1] // _CELL_PX
    if height == 0 or width == 0:
        return 0
    whole = np.ascontiguousarray(pixels[: height * _CELL_PX, : width * _CELL_PX])
    small = cv2.resize(whole, (width, height), interpolation=cv2.INTER_AREA)
    # The darkest channel, so that neither blue nor yellow ink is overlooked.
    cells = np.minimum(np.minimum(small[..., 0], small[..., 1]), small[..., 2])
    side = _NEIGHBOURHOOD
    padded = np.pad(cells, ((0, -height % side), (0, -width % side)), mode="edge")
    rows, columns = padded.shape[0] // side, padded.shape[1] // side
    squares = padded.reshape(rows, side, columns, side).swapaxes(1, 2).reshape(-1, side * side)
    paper = np.median(squares, axis=1, keepdims=True)
    return int(np.count_nonzero(np.abs(squares - paper) > _CONTRAST))


def is_blank(pixels: NDArray[np.uint8]) -> bool:
    """Whether the page certainly shows nothing but paper and dust."""
    return ink_cells(pixels) < _FEW_CELLS
