"""Figures: pictures and charts, with the labels that stand inside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ocr.document import BBox, Block, BlockKind
from ocr.layout.boxes import inside_share, overlap_x, overlap_y
from ocr.layout.regions import Region
from ocr.layout.table_model import mean_confidence, whole_lines
from ocr.layout.textlines import TextLine, rows_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class FoundFigure:
    """A finished figure block and the labels it took."""

    block: Block
    lines: tuple[TextLine, ...]


def find_figures(
    texts: Sequence[TextLine],
    image: NDArray[np.uint8] | None,
    regions: Sequence[Region],
    em: float,
) -> list[FoundFigure]:
    """The figures that the layout model sees and the ink confirms.

    The model calls receipts and forms figures too; a region is one only if most
    of its ink is no text, and what text it has are labels.
    """
    found: list[FoundFigure] = []
    if image is None:
        return found
    for region in sorted(regions, key=lambda item: -item.score):
        if region.kind != "figure" or region.score < 0.5:
            continue
        if any(_overlap(region.bbox, other.block.bbox) for other in found):
            continue
        inside = [item for item in texts if inside_share(item, region.bbox) > 0.6]
        if not _are_labels(inside, texts, em) or not _is_picture(region.bbox, texts, image):
            continue
        found.append(FoundFigure(_block(region, inside), tuple(inside)))
    return found


def _overlap(a: BBox, b: BBox) -> bool:
    return overlap_x(a, b) > 0 and overlap_y(a, b) > 0


def _are_labels(inside: Sequence[TextLine], texts: Sequence[TextLine], em: float) -> bool:
    if not inside:
        return True
    letters = sum(len(item.text) for item in texts)
    own = sum(len(item.text) for item in inside)
    long = sum(len(item.text) > 30 for item in inside)
    return own < 0.3 * letters and long <= 0.15 * len(inside)


def _is_picture(box: BBox, texts: Sequence[TextLine], image: NDArray[np.uint8]) -> bool:
    """Whether the region holds ink that no text line accounts for."""
    import numpy as np

    top, left = max(0, int(box.top)), max(0, int(box.left))
    crop = image[top : int(box.bottom), left : int(box.right)]
    if min(crop.shape[:2], default=0) < 16:
        return False
    grey = crop.mean(axis=2) if crop.ndim == 3 else crop.astype(np.float64)
    inked = np.abs(grey - np.percentile(grey, 90)) > 48
    total = inked.sum()
    for item in texts:
        y, x = int(item.line.bbox.top) - top, int(item.line.bbox.left) - left
        if item.line.bbox.bottom < top or y > crop.shape[0]:
            continue
        bottom, right = int(item.line.bbox.bottom) - top, int(item.line.bbox.right) - left
        inked[max(0, y) : max(0, bottom), max(0, x) : max(0, right)] = False
    rest = inked.sum()
    return bool(rest > 0.35 * total and rest > 0.004 * inked.size)


def _block(region: Region, inside: Sequence[TextLine]) -> Block:
    text = "\n".join(" ".join(piece.text.strip() for piece in row) for row in rows_of(inside))
    confidence = mean_confidence(inside) if inside else round(region.score, 4)
    return Block(BlockKind.FIGURE, region.bbox, text, confidence, lines=whole_lines(inside))
