"""Column edges of a table without (or with few) vertical rules."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ocr.layout.boxes import free_intervals
from ocr.layout.ruling import Rule
from ocr.layout.table_model import split_piece
from ocr.layout.textlines import TextLine


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `left`..`right` is where its text stands, in pixels."""

    left: float
    right: float
    start: float
    """Middle of the gap to the column before."""
    end: float
    """Middle of the gap to the column behind."""

    @property
    def middle(self) -> float:
        """Centre of the text's extent in pixels."""
        return (self.left + self.right) / 2


def find_columns(
    rows: Sequence[Sequence[TextLine]], vertical: Sequence[Rule], em: float
) -> list[Column]:
    """The columns that most rows agree on, left to right.

    Rows with many pieces decide, because headings over several columns and
    lines that run on have few; a stray piece in one row of twelve is outvoted.

    Args:
        rows: Rows of text, each left to right.
        vertical: Vertical rules inside the table.
        em: Type size in pixels.
    """
    pieces = [piece for row in rows for piece in row]
    if not pieces:
        return []
    most = max(len(row) for row in rows)
    full = [row for row in rows if len(row) >= max(2, 0.7 * most)]
    gutters = _agreed_gutters(full, em) if full else []
    edges = [(left + right) / 2 for left, right in gutters]
    for rule in vertical:
        near = [edge for edge in edges if _one_gap(edge, rule.at, full)]
        edges = [edge for edge in edges if edge not in near]
        edges.append(rule.at)
    left = min(piece.left for piece in pieces)
    right = max(piece.right for piece in pieces)
    edges = sorted(edge for edge in edges if left + 0.3 * em < edge < right - 0.3 * em)
    # Heads stand askew of their columns; the full rows show where those are.
    decisive = [piece for row in full for piece in row]
    return _columns(edges, decisive or pieces, left, right)


def _agreed_gutters(rows: Sequence[Sequence[TextLine]], em: float) -> list[tuple[float, float]]:
    gaps = _gutters(rows, em)
    if len(rows) < 6:
        return gaps
    # One stray row may hide a gutter that all the others leave open.
    best = gaps
    for index in range(len(rows)):
        rest = [row for position, row in enumerate(rows) if position != index]
        candidate = _gutters(rest, em)
        if len(candidate) > len(best):
            best = candidate
    return best


def _gutters(rows: Sequence[Sequence[TextLine]], em: float) -> list[tuple[float, float]]:
    gaps = free_intervals((piece.left, piece.right) for row in rows for piece in row)
    return [(left, right) for left, right in gaps if right - left > 0.3 * em]


def _one_gap(edge: float, rule: float, rows: Sequence[Sequence[TextLine]]) -> bool:
    """Whether no text stands between a gap's middle and a rule."""
    low, high = sorted((edge, rule))
    return not any(low <= (piece.left + piece.right) / 2 <= high for row in rows for piece in row)


def _columns(
    edges: Sequence[float], pieces: Sequence[TextLine], left: float, right: float
) -> list[Column]:
    bounds = [left, *edges, right]
    columns: list[Column] = []
    for start, end in itertools.pairwise(bounds):
        inside = [
            piece
            for piece in pieces
            if start - 1 <= (piece.left + piece.right) / 2 <= end + 1
            and piece.right - piece.left <= 1.1 * (end - start)
        ]
        if inside:
            text_left = max(start, min(piece.left for piece in inside))
            text_right = min(end, max(piece.right for piece in inside))
            columns.append(Column(text_left, text_right, start, end))
    return columns


def column_of(piece: TextLine, columns: Sequence[Column]) -> tuple[int, int]:
    """First and last column that a piece covers.

    A piece belongs to the columns over whose middle part it lies; one that lies
    over none belongs to the nearest.
    """
    shares = [min(piece.right, column.end) - max(piece.left, column.start) for column in columns]
    width = piece.right - piece.left
    covered = [
        index
        for index, (share, column) in enumerate(zip(shares, columns, strict=True))
        if share > 0.5 * min(width, column.right - column.left)
        and (share > 0.2 * width or share > 0.8 * (column.right - column.left))
    ]
    if not covered:
        best = max(range(len(columns)), key=lambda index: shares[index])
        return best, best
    return covered[0], covered[-1]


def split_at_columns(
    row: Sequence[TextLine], columns: Sequence[Column], em: float
) -> list[TextLine]:
    """Pieces that run over a gutter, cut where their words leave it open."""
    result: list[TextLine] = []
    for piece in row:
        rest = piece
        first, last = column_of(piece, columns)
        for index in range(first, last):
            edge = _cut_place(rest, columns[index], columns[index + 1], em)
            parts = split_piece(rest, edge) if edge is not None else None
            if parts is not None:
                result.append(parts[0])
                rest = parts[1]
        result.append(rest)
    return result


def _cut_place(piece: TextLine, before: Column, after: Column, em: float) -> float | None:
    words = piece.line.words
    if not words:
        return None
    gaps = [
        (right.bbox.left - left.bbox.right, (right.bbox.left + left.bbox.right) / 2)
        for left, right in itertools.pairwise(words)
    ]
    zone = (before.right - 0.6 * em, after.left + 0.6 * em)
    open_gaps = [gap for gap in gaps if zone[0] <= gap[1] <= zone[1] and gap[0] > 0.45 * em]
    return max(open_gaps)[1] if open_gaps else None
