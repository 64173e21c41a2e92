"""One page: lines and regions in, blocks in reading order out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ocr.document import Block, BlockKind, Line
from ocr.layout.regions import Region
from ocr.options import ReadOptions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def assemble(
    lines: Sequence[Line],
    size_px: tuple[int, int],
    *,
    image: NDArray[np.uint8] | None,
    regions: Sequence[Region] = (),
    options: ReadOptions,
) -> tuple[Block, ...]:
    """The page's blocks in reading order; every line ends up in exactly one."""
    del size_px, image, regions, options
    ordered = sorted(lines, key=lambda line: (line.bbox.top, line.bbox.left))
    return tuple(
        Block(BlockKind.PARAGRAPH, line.bbox, line.text, line.confidence, lines=(line,))
        for line in ordered
    )
