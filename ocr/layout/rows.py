"""Rows of a flow: what stands on one baseline, with the facts of its setting."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ocr.document import BBox
from ocr.layout.boxes import union
from ocr.layout.textlines import TextLine, rows_of


@dataclass(frozen=True, slots=True)
class Row:
    """One row of text in a flow; edges in upright pixels."""

    pieces: tuple[TextLine, ...]
    left: float
    top: float
    right: float
    bottom: float
    size: float
    bold: bool
    underlined: bool
    text: str
    split: bool
    """Its pieces stand apart by more than word spaces (label and value)."""

    @property
    def middle(self) -> float:
        """Vertical centre in pixels."""
        return (self.top + self.bottom) / 2

    @property
    def width(self) -> float:
        """Width in pixels."""
        return self.right - self.left

    @property
    def bbox(self) -> BBox:
        """The row's box."""
        return union(piece.line.bbox for piece in self.pieces)


def make_row(pieces: Sequence[TextLine]) -> Row:
    """One row from level pieces, left to right."""
    box = union(pieces)
    letters = [max(1, len(piece.text)) for piece in pieces]
    total = sum(letters)
    gaps = [after.left - before.right for before, after in itertools.pairwise(pieces)]
    size = sum(piece.size * n for piece, n in zip(pieces, letters, strict=True)) / total
    return Row(
        pieces=tuple(pieces),
        left=box.left,
        top=box.top,
        right=box.right,
        bottom=box.bottom,
        size=size,
        bold=sum(n for piece, n in zip(pieces, letters, strict=True) if piece.bold) > 0.7 * total,
        underlined=any(piece.underlined for piece in pieces),
        text=" ".join(piece.text.strip() for piece in pieces),
        split=any(gap > 1.2 * size for gap in gaps),
    )


def make_rows(lines: Sequence[TextLine]) -> list[Row]:
    """The rows of a flow, top to bottom."""
    return [make_row(row) for row in rows_of(lines)]
