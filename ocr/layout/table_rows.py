"""Logical rows of a table body: lines of one cell together, rows apart."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from ocr.layout.table_columns import Column, column_of
from ocr.layout.table_model import Slot
from ocr.layout.textlines import TextLine

Level = Sequence[TextLine]


@dataclass(slots=True)
class LogicalRow:
    """One row of the table; `spans` are cells that reach into the rows below."""

    cells: dict[int, list[TextLine]] = field(default_factory=dict)
    spans: dict[int, int] = field(default_factory=dict)

    @property
    def top(self) -> float:
        """Upper edge in pixels."""
        return min(piece.top for pieces in self.cells.values() for piece in pieces)

    @property
    def bottom(self) -> float:
        """Lower edge in pixels."""
        return max(piece.bottom for pieces in self.cells.values() for piece in pieces)


def line_pitch(levels: Sequence[Level], columns: Sequence[Column], em: float) -> float:
    """Tight distance from line to line within a column, in pixels."""
    by_column: dict[int, list[float]] = {}
    for level in levels:
        for piece in level:
            by_column.setdefault(column_of(piece, columns)[0], []).append(piece.baseline)
    steps = [
        after - before
        for centres in by_column.values()
        for before, after in zip(sorted(centres), sorted(centres)[1:], strict=False)
        if after - before > 0.5 * em
    ]
    if not steps:
        return 1.25 * em
    return sorted(steps)[len(steps) // 4]


def band_rows(
    levels: Sequence[Level], columns: Sequence[Column], pitch: float, *, ruled: bool
) -> list[LogicalRow]:
    """The logical rows between two full rules (or in a whole unruled body).

    Args:
        levels: Rows of text, top to bottom.
        columns: The table's columns.
        pitch: Tight distance of lines in pixels.
        ruled: Rules part every row, so a band with one full level is one row.
    """
    if not levels:
        return []
    enough = max(2, (len(columns) + 1) // 2)
    if ruled and sum(_filled(level, columns) >= enough for level in levels) <= 1:
        return [_merged(levels, columns)]
    rows: list[tuple[LogicalRow, bool]] = []
    for chain in _chains(levels, pitch):
        rows.extend(_chain_rows(chain, columns, enough))
    return _attach_minor_rows(rows, columns, pitch)


def _filled(level: Level, columns: Sequence[Column]) -> int:
    return len({column_of(piece, columns)[0] for piece in level})


def _chains(levels: Sequence[Level], pitch: float) -> list[list[Level]]:
    """Levels too close to be rows of their own, together."""
    chains: list[list[Level]] = []
    for level in levels:
        if chains and _baseline(level) - _baseline(chains[-1][-1]) < 0.72 * pitch:
            chains[-1].append(level)
        else:
            chains.append([level])
    return chains


def _baseline(level: Level) -> float:
    return statistics.fmean(piece.baseline for piece in level)


def _chain_rows(
    chain: Sequence[Level], columns: Sequence[Column], enough: int
) -> list[tuple[LogicalRow, bool]]:
    major = [level for level in chain if _filled(level, columns) >= enough]
    if len(major) < 2:
        row = _merged(chain, columns)
        return [(row, len(row.cells) >= enough)]
    # Two full rows with cells centred between them: those span both.
    rows = [_merged([level], columns) for level in major]
    for level in chain:
        if level in major:
            continue
        for piece in level:
            column = column_of(piece, columns)[0]
            _place_spanning(piece, column, rows)
    return [(row, True) for row in rows]


def _place_spanning(piece: TextLine, column: int, rows: Sequence[LogicalRow]) -> None:
    above = [row for row in rows if row.top <= piece.baseline]
    index = max(0, len(above) - 1)
    free_below = index + 1 < len(rows) and column not in rows[index + 1].cells
    if column not in rows[index].cells and free_below:
        rows[index].cells[column] = [piece]
        rows[index].spans[column] = 2
        return
    rows[index].cells.setdefault(column, []).append(piece)


def _merged(levels: Sequence[Level], columns: Sequence[Column]) -> LogicalRow:
    row = LogicalRow()
    for level in levels:
        for piece in level:
            row.cells.setdefault(column_of(piece, columns)[0], []).append(piece)
    return row


def _attach_minor_rows(
    rows: Sequence[tuple[LogicalRow, bool]], columns: Sequence[Column], pitch: float
) -> list[LogicalRow]:
    """Rows that only continue a cell of the row above join it."""
    result: list[LogicalRow] = []
    pending: LogicalRow | None = None
    for index, (row, major) in enumerate(rows):
        previous = result[-1] if result else None
        following = rows[index + 1][0] if index + 1 < len(rows) else None
        if pending is not None:
            _absorb(row, pending, before=True)
            pending = None
            result.append(row)
        elif major or previous is None or not _continues(row, previous, columns, pitch):
            if not major and following is not None and _leads_into(row, following, columns, pitch):
                pending = row
            else:
                result.append(row)
        else:
            _absorb(previous, row, before=False)
    return result


def _absorb(row: LogicalRow, other: LogicalRow, *, before: bool) -> None:
    for column, pieces in other.cells.items():
        own = row.cells.get(column, [])
        row.cells[column] = pieces + own if before else own + pieces


def _continues(
    row: LogicalRow, previous: LogicalRow, columns: Sequence[Column], pitch: float
) -> bool:
    gap = row.top - previous.bottom
    if gap > 1.3 * pitch:
        return False
    if 0 not in row.cells:
        return all(column in previous.cells for column in row.cells) or len(row.cells) == 1
    if set(row.cells) != {0} or 0 not in previous.cells:
        return False
    return _runs_on(previous.cells[0][-1], row.cells[0][0], columns[0])


def _leads_into(
    row: LogicalRow, following: LogicalRow, columns: Sequence[Column], pitch: float
) -> bool:
    """Whether a line of the first column goes on in the next row."""
    if set(row.cells) != {0} or 0 not in following.cells:
        return False
    if following.top - row.bottom > 0.8 * pitch:
        return False
    text = following.cells[0][0].text.lstrip()
    return text[:1].islower() and _runs_on(row.cells[0][-1], following.cells[0][0], columns[0])


def _runs_on(before: TextLine, after: TextLine, column: Column) -> bool:
    text = after.text.lstrip()
    if before.text.rstrip().endswith("-"):
        return True
    full = before.right - column.left > 0.72 * (column.right - column.left)
    starts_small = text[:1].islower() or text[:1] in "(&/"
    return before.bold == after.bold and (starts_small or (full and after.left > before.left + 2))


def row_slots(rows: Sequence[LogicalRow], columns: Sequence[Column], first: int) -> list[Slot]:
    """The cells of logical rows; `first` is the table row of the first of them."""
    slots: list[Slot] = []
    for offset, row in enumerate(rows):
        for column, pieces in sorted(row.cells.items()):
            span = _column_span(row, column, pieces, columns)
            slots.append(
                Slot(first + offset, column, row.spans.get(column, 1), span, tuple(pieces))
            )
    return slots


def _column_span(
    row: LogicalRow, column: int, pieces: Sequence[TextLine], columns: Sequence[Column]
) -> int:
    """Columns a cell covers: only when it lies over them and they are empty.

    A lone line in the first column is a heading of the rows below it, not a
    spanning cell, however long it is.
    """
    if column == 0 and len(row.cells) == 1:
        return 1
    last = max(column_of(piece, columns)[1] for piece in pieces)
    span = 1
    while column + span <= last and column + span not in row.cells:
        span += 1
    return span
