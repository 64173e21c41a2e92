"""Tables whose columns are not all ruled: columns by their gaps, rows by lines."""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ocr.document import Table
from ocr.layout.boxes import union
from ocr.layout.order import is_prose
from ocr.layout.ruling import Rule
from ocr.layout.table_columns import Column, column_of, find_columns, split_at_columns
from ocr.layout.table_header import header_slots
from ocr.layout.table_model import Slot, TableArea, make_table
from ocr.layout.table_rows import band_rows, line_pitch, row_slots
from ocr.layout.textlines import TextLine, rows_of

_NUMERIC = re.compile(r"^\W*[\d(]|\d\W*$")


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A table and what tells whether it can be trusted."""

    table: Table
    collisions: int
    """Cells where pieces stand side by side that should be two cells."""
    filled: float
    """Share of positions that hold text or are covered, 0..1."""
    longest_cell: int
    """Letters of the fullest cell."""
    prose_columns: int
    """Columns set like running text, line after line as wide as the column."""


def build_open_table(area: TableArea, em: float) -> OpenTable | None:
    """The table in an area, or None when there are no columns to be found."""
    levels = rows_of(area.lines)
    if len(levels) < 2:
        return None
    box = union(area.lines)
    full, partial = _horizontal(area, box.left, box.right, em)
    vertical = [
        rule
        for rule in area.rules.vertical
        if box.left < rule.at < box.right
        and min(rule.end, box.bottom) - max(rule.start, box.top) > 0.5 * box.height
    ]
    columns = find_columns(levels, vertical, em)
    if len(columns) < 2:
        return None
    levels = [split_at_columns(level, columns, em) for level in levels]
    head_count = _head_levels(levels, full)
    head, body = levels[:head_count], levels[head_count:]
    slots, head_rows = header_slots(head, columns, partial, em)
    pitch = line_pitch(levels, columns, em)
    rows_done = head_rows
    bands = _bands(body, full)
    ruled = len(bands) >= 3
    for band in bands:
        rows = band_rows(band, columns, pitch, ruled=ruled)
        slots.extend(row_slots(rows, columns, rows_done))
        rows_done += len(rows)
    if rows_done < 2:
        return None
    return _judged(slots, rows_done, columns, levels, em)


def _horizontal(
    area: TableArea, left: float, right: float, em: float
) -> tuple[list[Rule], list[Rule]]:
    full: list[Rule] = []
    partial: list[Rule] = []
    for rule in area.rules.horizontal:
        shared = min(rule.end, right) - max(rule.start, left)
        if shared > 0.75 * (right - left):
            full.append(rule)
        elif shared > 1.5 * em:
            partial.append(rule)
    return full, partial


def _head_levels(levels: Sequence[Sequence[TextLine]], full: Sequence[Rule]) -> int:
    """How many rows of text make the table's head."""
    first = statistics.fmean(piece.baseline for piece in levels[0])
    last = statistics.fmean(piece.baseline for piece in levels[-1])
    inner = [rule for rule in full if first < rule.at < last]
    if inner:
        above = sum(
            statistics.fmean(piece.baseline for piece in level) < inner[0].at for level in levels
        )
        if above <= max(1, 0.5 * len(levels)) and above <= 7:
            return above
    numeric = [_numeric_share(level) for level in levels]
    if numeric[0] >= 0.5 and len(levels[0]) > 1:
        return 0
    body = statistics.fmean(numeric[1:])
    count = 1
    while (
        count < min(3, len(levels) - 1)
        and body > 0.4
        and numeric[count] < 0.2
        and len(levels[count]) > 1
    ):
        count += 1
    return count


def _numeric_share(level: Sequence[TextLine]) -> float:
    return sum(bool(_NUMERIC.search(piece.text)) for piece in level) / len(level)


def _bands(
    levels: Sequence[Sequence[TextLine]], full: Sequence[Rule]
) -> list[list[Sequence[TextLine]]]:
    """Rows of text between full rules."""
    bands: dict[int, list[Sequence[TextLine]]] = {}
    for level in levels:
        middle = statistics.fmean(piece.baseline for piece in level)
        bands.setdefault(sum(rule.at < middle for rule in full), []).append(level)
    return [bands[key] for key in sorted(bands)]


def _judged(
    slots: Sequence[Slot],
    rows: int,
    columns: Sequence[Column],
    levels: Sequence[Sequence[TextLine]],
    em: float,
) -> OpenTable:
    collisions = 0
    for level in levels:
        by_column: dict[int, list[TextLine]] = {}
        for piece in level:
            by_column.setdefault(column_of(piece, columns)[0], []).append(piece)
        collisions += sum(
            any(b.left - a.right > 1.6 * em for a, b in itertools.pairwise(run))
            for run in by_column.values()
        )
    covered = sum(slot.row_span * slot.column_span for slot in slots if slot.pieces)
    longest = max((sum(len(piece.text) for piece in slot.pieces) for slot in slots), default=0)
    return OpenTable(
        make_table(slots, rows, len(columns)),
        collisions,
        covered / (rows * len(columns)),
        longest,
        _prose_columns(levels, columns, em),
    )


def _prose_columns(
    levels: Sequence[Sequence[TextLine]], columns: Sequence[Column], em: float
) -> int:
    by_column: dict[int, list[TextLine]] = {}
    for level in levels:
        for piece in level:
            by_column.setdefault(column_of(piece, columns)[0], []).append(piece)
    return sum(is_prose(pieces, em) for pieces in by_column.values())
