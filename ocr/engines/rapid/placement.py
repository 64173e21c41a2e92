"""Blocks back to the pixels of the scan, and figures to files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import cv2

from ocr.document import BBox, Block, BlockKind, Line, Table
from ocr.errors import EngineError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ocr.imaging.transform import Transform

_SMALLEST_FIGURE_PX = 4


def to_scan(block: Block, transform: Transform) -> Block:
    """The block with all its boxes in the pixels of the page as scanned."""
    return replace(
        block,
        bbox=transform.box_to_scan(block.bbox),
        lines=tuple(_line(line, transform) for line in block.lines),
        table=None if block.table is None else _table(block.table, transform),
    )


def save_figures(
    blocks: Sequence[Block], upright: NDArray[np.uint8], *, folder: Path | None, page_index: int
) -> tuple[Block, ...]:
    """The blocks, figures cut out of the upright page into files of `folder`.

    Args:
        blocks: Boxes in pixels of `upright`.
        upright: uint8 RGB, shape (height, width, 3).
        folder: The document's `.assets` folder; None: nothing is saved.
        page_index: Counted from 0; file names count from 1.

    Raises:
        EngineError: A figure cannot be written.
    """
    if folder is None:
        return tuple(blocks)
    saved: list[Block] = []
    count = 0
    for block in blocks:
        crop = _crop(upright, block.bbox) if block.kind is BlockKind.FIGURE else None
        if crop is None:
            saved.append(block)
            continue
        count += 1
        name = f"page-{page_index + 1:04d}-figure-{count}.png"
        _write_png(folder / name, crop)
        saved.append(replace(block, asset=name))
    return tuple(saved)


def _line(line: Line, transform: Transform) -> Line:
    words = tuple(_line(word, transform) for word in line.words)
    return replace(line, bbox=transform.box_to_scan(line.bbox), words=words)


def _table(table: Table, transform: Transform) -> Table:
    cells = tuple(
        cell if cell.bbox is None else replace(cell, bbox=transform.box_to_scan(cell.bbox))
        for cell in table.cells
    )
    return replace(table, cells=cells)


def _crop(image: NDArray[np.uint8], box: BBox) -> NDArray[np.uint8] | None:
    height, width = image.shape[:2]
    left, top = max(0, round(box.left)), max(0, round(box.top))
    right, bottom = min(width, round(box.right)), min(height, round(box.bottom))
    if min(right - left, bottom - top) < _SMALLEST_FIGURE_PX:
        return None
    return image[top:bottom, left:right]


def _write_png(path: Path, image: NDArray[np.uint8]) -> None:
    encoded, data = cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
    if not encoded:
        raise EngineError(f"The figure {path.name} cannot be encoded as PNG.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.tobytes())
    except OSError as error:
        raise EngineError(f"The figure {path} cannot be written: {error.strerror}.") from error
