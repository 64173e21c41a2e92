"""Finds the tables of a page; what cannot be trusted becomes aligned text."""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ocr.document import BBox, Block, Table
from ocr.layout.boxes import inside_share, middle_x, middle_y, overlap_x, overlap_y, union
from ocr.layout.regions import Region
from ocr.layout.ruling import Rule, Rules
from ocr.layout.table_model import Slot, TableArea, aligned_block, make_table, table_block
from ocr.layout.tables_open import OpenTable, build_open_table
from ocr.layout.tables_ruled import Grid, find_grids, grid_slots, is_subdivided
from ocr.layout.textlines import TextLine, rows_of

CAPTION = re.compile(
    r"^\s*(?:table|tab\.|tabelle|tableau|tabla|tabella|fig(?:ure|\.)?|abb(?:ildung|\.)|figura|"
    r"chart|scheme|plate|exhibit|表|图)\s*[\dIVX]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A finished table block and the lines it took."""

    block: Block
    lines: tuple[TextLine, ...]


def find_tables(
    texts: Sequence[TextLine], rules: Rules, regions: Sequence[Region], em: float
) -> list[FoundTable]:
    """The tables of a page, each line in at most one of them.

    Ruled grids come first, then what stands between parallel rules, then what
    the layout model calls a table, then rows that share their columns.
    """
    found: list[FoundTable] = []
    left = list(texts)

    def take(table: FoundTable | None) -> None:
        nonlocal left
        if table is not None:
            found.append(table)
            own = {id(item) for item in table.lines}
            left = [item for item in left if id(item) not in own]

    for grid in find_grids(rules, em):
        take(_from_grid(grid, left, em))
    for area in _between_rules(left, rules, em):
        take(_from_area(area, em, found))
    for region in sorted(regions, key=lambda item: -item.score):
        if region.kind == "table" and region.score >= 0.5:
            inside = [item for item in left if inside_share(item, region.bbox) > 0.6]
            for run in _runs(inside, em):
                take(_from_area(_area(run, rules, region.score), em, found))
    for run in _runs(left, em):
        take(_from_area(_area(run, rules, 0.0), em, found))
    return found


def _area(lines: Sequence[TextLine], rules: Rules, support: float) -> TableArea:
    return TableArea(union(lines), tuple(lines), _inside(rules, union(lines)), support)


def _inside(rules: Rules, box: BBox) -> Rules:
    margin = 1.2 * max(8.0, box.height / 40)
    return Rules(
        tuple(
            rule
            for rule in rules.horizontal
            if box.top - margin < rule.at < box.bottom + margin
            and rule.end > box.left
            and rule.start < box.right
        ),
        tuple(
            rule
            for rule in rules.vertical
            if box.left - margin < rule.at < box.right + margin
            and rule.end > box.top
            and rule.start < box.bottom
        ),
    )


def _from_grid(grid: Grid, lines: Sequence[TextLine], em: float) -> FoundTable | None:
    box = grid.bbox
    inside = [
        item
        for item in lines
        if box.left < middle_x(item) < box.right and box.top < middle_y(item) < box.bottom
    ]
    if len(inside) < 2:
        return None
    slots = grid_slots(grid, inside)
    used = [slot for slot in slots if slot.pieces]
    if len(slots) < 3 or len(used) < 2 or len(grid.xs) < 3 or not _is_tabular(used, inside):
        return None
    if is_subdivided(slots):
        area = TableArea(box, tuple(inside), grid.rules, 1.0)
        built = build_open_table(area, em)
        if built is not None and built.collisions == 0:
            return FoundTable(table_block(built.table, inside), tuple(inside))
    slots = _without_empty_lines(slots, grid)
    rows = max(slot.row + slot.row_span for slot in slots)
    columns = max(slot.column + slot.column_span for slot in slots)
    if rows * columns < 2 or columns < 2:
        return None
    return FoundTable(table_block(make_table(slots, rows, columns), inside), tuple(inside))


def _is_tabular(used: Sequence[Slot], inside: Sequence[TextLine]) -> bool:
    """Whether text is spread over cells, as it is not in a framed page."""
    letters = sum(len(item.text) for item in inside)
    fullest = max(sum(len(piece.text) for piece in slot.pieces) for slot in used)
    return fullest < 0.7 * letters or letters < 200


def _without_empty_lines(slots: Sequence[Slot], grid: Grid) -> list[Slot]:
    """Slots without the hairline rows and columns between double rules."""
    rows, columns = len(grid.ys) - 1, len(grid.xs) - 1
    held_rows = {slot.row for slot in slots if slot.pieces}
    held_columns = {slot.column for slot in slots if slot.pieces}
    thin_rows = {
        row
        for row in range(rows)
        if row not in held_rows and grid.ys[row + 1] - grid.ys[row] < 1.2 * grid.slack / 0.55
    }
    thin_columns = {
        column
        for column in range(columns)
        if column not in held_columns
        and grid.xs[column + 1] - grid.xs[column] < 1.2 * grid.slack / 0.55
    }
    kept: list[Slot] = []
    for slot in slots:
        own_rows = set(range(slot.row, slot.row + slot.row_span)) - thin_rows
        own_columns = set(range(slot.column, slot.column + slot.column_span)) - thin_columns
        if own_rows and own_columns:
            kept.append(
                Slot(
                    min(own_rows) - sum(row < min(own_rows) for row in thin_rows),
                    min(own_columns) - sum(column < min(own_columns) for column in thin_columns),
                    len(own_rows),
                    len(own_columns),
                    slot.pieces,
                )
            )
    return kept


def _between_rules(texts: Sequence[TextLine], rules: Rules, em: float) -> list[TableArea]:
    """Areas between horizontal rules of one width, cut at captions."""
    areas: list[TableArea] = []
    for group in _parallel(rules.horizontal, em):
        run: list[Rule] = []
        for before, after in itertools.pairwise(group):
            if _is_foreign(_between(texts, before, after), before, after, em):
                areas.extend(_ruled_area(texts, run, rules))
                run = []
            else:
                run = run or [before]
                run.append(after)
        areas.extend(_ruled_area(texts, run, rules))
    return areas


def _ruled_area(texts: Sequence[TextLine], run: Sequence[Rule], rules: Rules) -> list[TableArea]:
    if len(run) < 2:
        return []
    lines = _between(texts, run[0], run[-1])
    if len(lines) < 4:
        return []
    box = BBox(run[0].start, run[0].at, run[0].end, run[-1].at)
    return [TableArea(box, tuple(lines), _inside(rules, box), 0.9 if len(run) > 2 else 0.6)]


def _parallel(horizontal: Sequence[Rule], em: float) -> list[list[Rule]]:
    """Long rules grouped by where they begin and end."""
    groups: list[list[Rule]] = []
    for rule in sorted(horizontal, key=lambda item: item.at):
        if rule.length < 10 * em:
            continue
        for group in groups:
            last = group[-1]
            if abs(last.start - rule.start) < 2 * em and abs(last.end - rule.end) < 2 * em:
                group.append(rule)
                break
        else:
            groups.append([rule])
    return [group for group in groups if len(group) > 1]


def _between(texts: Sequence[TextLine], above: Rule, below: Rule) -> list[TextLine]:
    return [
        item
        for item in texts
        if above.at < item.baseline < below.at
        and item.right > above.start
        and item.left < above.end
    ]


def _is_foreign(lines: Sequence[TextLine], rule: Rule, below: Rule, em: float) -> bool:
    """Whether what stands between two rules is no part of a table."""
    if not lines:
        return False
    if any(item.right > rule.end + em or item.left < rule.start - em for item in lines):
        return True
    # Rules of a table keep close to its first and last row.
    if min(item.top for item in lines) - rule.at > 2.2 * em:
        return True
    if below.at - max(item.bottom for item in lines) > 3 * em:
        return True
    rows = rows_of(lines)
    if any(CAPTION.match(row[0].text) and len(row) == 1 for row in rows):
        return True
    if all(len(row) == 1 for row in rows):
        return len(rows) > 1 or rows[0][0].width > 0.6 * rule.length
    return False


def _runs(texts: Sequence[TextLine], em: float) -> list[list[TextLine]]:
    """Rows one below the other that leave the same gutters open."""
    runs: list[list[list[TextLine]]] = []
    pending: list[list[TextLine]] = []
    current: list[list[TextLine]] = []
    for row in rows_of(texts):
        if not _is_split(row, em):
            if current:
                pending.append(row)
            continue
        if current and _fits(current, pending, row, em):
            current = [*current, *pending, row]
        else:
            if current:
                runs.append(current)
            current = [row]
        pending = []
    if current:
        runs.append(current)
    return [
        [piece for row in run for piece in row]
        for run in runs
        if sum(len(row) > 1 for row in run) >= 3
    ]


def _is_split(row: Sequence[TextLine], em: float) -> bool:
    """Whether a row has pieces set apart like cells, not like columns of text."""
    if len(row) < 2:
        return False
    gaps = [b.left - a.right for a, b in itertools.pairwise(row)]
    if max(gaps) < 0.9 * em:
        return False
    long = sum(piece.width > 17 * em for piece in row)
    return long == 0 or (long == 1 and len(row) > 2) or (long == 1 and row[-1].width < 8 * em)


def _fits(
    current: Sequence[Sequence[TextLine]],
    pending: Sequence[Sequence[TextLine]],
    row: Sequence[TextLine],
    em: float,
) -> bool:
    last = current[-1]
    gap = min(item.top for item in row) - max(item.bottom for item in last)
    if gap > 3.2 * em + 1.6 * em * len(pending) or len(pending) > 4:
        return False
    box = union([piece for known in current for piece in known])
    if any(piece.right > box.right + 2 * em for rows in pending for piece in rows):
        return False
    known = current[-3:]
    matched = sum(any(_aligned(piece, other, em) for r in known for other in r) for piece in row)
    return matched >= max(1, 0.6 * min(len(row), max(len(r) for r in known)))


def _aligned(a: TextLine, b: TextLine, em: float) -> bool:
    near = 0.7 * em
    return overlap_x(a, b) > 0 and (
        abs(a.left - b.left) < near
        or abs(a.right - b.right) < near
        or abs(middle_x(a) - middle_x(b)) < near
    )


def _from_area(area: TableArea, em: float, found: Sequence[FoundTable]) -> FoundTable | None:
    if len(area.lines) < 4:
        return None
    if any(_overlaps(area.bbox, table.block.bbox) for table in found):
        return None
    local = statistics.median(item.size for item in area.lines)
    built = build_open_table(area, min(em, local) if local else em)
    if built is None:
        return None
    if _is_trusted(built, area):
        return FoundTable(table_block(built.table, area.lines), area.lines)
    if area.support >= 0.6 and built.prose_columns == 0 and not _is_form(built.table):
        # Surely a table, but not one to be cut into cells.
        return FoundTable(aligned_block(area.lines), area.lines)
    return None


def _overlaps(a: BBox, b: BBox) -> bool:
    return overlap_x(a, b) > 0 and overlap_y(a, b) > 0.3 * min(a.height, b.height)


def _is_trusted(built: OpenTable, area: TableArea) -> bool:
    """Whether the table is more likely right than wrong.

    With less support from rules or the layout model, more must be seen in the
    text itself: more columns, more rows, fuller rows, shorter cells.
    """
    table = built.table
    if built.collisions > 0.08 * table.rows * table.columns:
        return False
    if built.longest_cell > 400:
        return False
    if built.prose_columns > 1 or (built.prose_columns == 1 and area.support < 0.6):
        return False
    if table.columns == 2 and _is_form(table):
        return False
    numeric = _numeric_columns(built)
    if area.support >= 0.6:
        return built.filled > 0.3
    if table.columns >= 3:
        return table.rows >= 3 and built.filled > 0.55 and built.longest_cell < 150
    return table.rows >= 4 and built.filled > 0.85 and numeric >= 1 and built.longest_cell < 80


def _is_form(table: Table) -> bool:
    """Whether two columns are labels and values, which read better line by line."""
    labels = [cell.text for cell in table.cells if cell.column == 0 and cell.text]
    return sum(text.rstrip().endswith((":", "：")) for text in labels) > 0.4 * len(labels)


def _numeric_columns(built: OpenTable) -> int:
    table = built.table
    count = 0
    for column in range(table.columns):
        texts = [
            cell.text
            for cell in table.cells
            if cell.column == column and cell.text and not cell.header
        ]
        numeric = sum(bool(re.search(r"\d", text)) for text in texts)
        count += bool(texts) and numeric >= 0.8 * len(texts)
    return count
