"""Table heads: several lines to a cell, and headings over groups of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ocr.layout.boxes import middle_x
from ocr.layout.ruling import Rule
from ocr.layout.table_columns import Column, column_of
from ocr.layout.table_model import Slot
from ocr.layout.textlines import TextLine

Level = Sequence[TextLine]


@dataclass(frozen=True, slots=True)
class _Group:
    """A piece of one level and the columns that it heads."""

    piece: TextLine
    first: int
    last: int


def header_slots(
    levels: Sequence[Level], columns: Sequence[Column], partial: Sequence[Rule], em: float
) -> tuple[list[Slot], int]:
    """The cells of a table's head and the number of its rows.

    Args:
        levels: Rows of text in the head, top to bottom.
        columns: The table's columns.
        partial: Horizontal rules shorter than the table, which underline
            headings of column groups.
        em: Type size in pixels.
    """
    if not levels:
        return [], 0
    spanners: list[list[_Group]] = []
    stacks: dict[int, list[TextLine]] = {}
    for index, level in enumerate(levels):
        groups = _groups(level, columns, levels[index + 1 :], partial, em)
        spanning = [group for group in groups if group.last > group.first]
        if spanning:
            spanners.append(spanning)
        for group in groups:
            if group.last == group.first:
                stacks.setdefault(group.first, []).append(group.piece)
    total = len(spanners) + 1
    slots = [
        Slot(row, group.first, 1, group.last - group.first + 1, (group.piece,), header=True)
        for row, groups in enumerate(spanners)
        for group in groups
    ]
    for column, pieces in stacks.items():
        row = _row_under_spanners(column, pieces, spanners)
        slots.append(Slot(row, column, total - row, 1, tuple(pieces), header=True))
    return slots, total


def _row_under_spanners(
    column: int, pieces: Sequence[TextLine], spanners: Sequence[Sequence[_Group]]
) -> int:
    row = 0
    for index, groups in enumerate(spanners):
        if any(group.first <= column <= group.last for group in groups):
            row = index + 1
    del pieces
    return row


def _groups(
    level: Level,
    columns: Sequence[Column],
    below: Sequence[Level],
    partial: Sequence[Rule],
    em: float,
) -> list[_Group]:
    """Which columns each piece of a level heads: the cheapest division."""
    pieces = sorted(level, key=lambda piece: piece.left)
    headed = {column_of(piece, columns)[0] for lower in below for piece in lower}
    count, width = len(pieces), len(columns)
    infinite = float("inf")
    best = [[infinite] * (width + 1) for _ in range(count + 1)]
    step: list[list[tuple[int, int] | None]] = [[None] * (width + 1) for _ in range(count + 1)]
    best[0][0] = 0.0
    for done in range(count + 1):
        for column in range(width + 1):
            if best[done][column] == infinite:
                continue
            if column < width and best[done][column] + 0.25 < best[done][column + 1]:
                best[done][column + 1] = best[done][column] + 0.25
                step[done][column + 1] = (done, column)
            if done == count:
                continue
            for last in range(column, width):
                cost = best[done][column] + _cost(
                    pieces[done], columns[column : last + 1], headed, column, partial, em=em
                )
                if cost < best[done + 1][last + 1]:
                    best[done + 1][last + 1] = cost
                    step[done + 1][last + 1] = (done, column)
    if best[count][width] == infinite:
        return [_Group(piece, *column_of(piece, columns)) for piece in pieces]
    return _traced(pieces, step, width)


def _traced(
    pieces: Sequence[TextLine], step: Sequence[Sequence[tuple[int, int] | None]], width: int
) -> list[_Group]:
    groups: list[_Group] = []
    done, column = len(pieces), width
    while (before := step[done][column]) is not None:
        if before[0] < done:
            groups.append(_Group(pieces[before[0]], before[1], column - 1))
        done, column = before
    return groups[::-1]


def _cost(
    piece: TextLine,
    group: Sequence[Column],
    headed: set[int],
    first: int,
    partial: Sequence[Rule],
    *,
    em: float,
) -> float:
    """How badly a piece fits as the heading of neighbouring columns."""
    left, right = group[0].left, group[-1].right
    over = min(piece.right, right) - max(piece.left, left)
    if len(group) == 1:
        if over > 0.5 * min(piece.right - piece.left, right - left):
            return 0.0
        return 0.5 + abs(middle_x(piece) - (left + right) / 2) / em
    if not all(first + offset in headed for offset in range(len(group))):
        # Every column of a group has a heading of its own below.
        return 50.0
    outside = max(0.0, group[0].start - piece.left, piece.right - group[-1].end)
    aligned = min(abs(middle_x(piece) - (left + right) / 2), abs(piece.left - left) + 0.2 * em)
    cost = aligned / em + 0.1 * (len(group) - 1) + 4 * outside / em
    if any(_underlines(rule, piece, left, right, em) for rule in partial):
        return 0.2 * cost - 0.3 * (len(group) - 1)
    return cost


def _underlines(rule: Rule, piece: TextLine, left: float, right: float, em: float) -> bool:
    near = 0 < rule.at - piece.baseline < 2.2 * em
    slack = 1.6 * em
    return (near and abs(rule.start - left) < slack and abs(rule.end - right) < slack) or (
        near
        and rule.start <= left + 0.3 * em
        and rule.end >= right - 0.3 * em
        and rule.end - rule.start < 1.35 * (right - left) + slack
    )
