"""Tables whose every cell is ruled: the grid is read off the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ocr.document import BBox
from ocr.layout.boxes import middle_x, middle_y
from ocr.layout.ruling import Rule, Rules
from ocr.layout.table_model import Slot, split_piece
from ocr.layout.textlines import TextLine, rows_of


@dataclass(frozen=True, slots=True)
class Grid:
    """Positions of the grid's lines in pixels, and which of them are printed."""

    xs: tuple[float, ...]
    ys: tuple[float, ...]
    rules: Rules
    slack: float

    @property
    def bbox(self) -> BBox:
        """The grid's outline."""
        return BBox(self.xs[0], self.ys[0], self.xs[-1], self.ys[-1])

    def wall_right_of(self, row: int, column: int) -> bool:
        """Whether a rule stands between a position and the one to its right."""
        at, start, end = self.xs[column + 1], self.ys[row], self.ys[row + 1]
        return _covered(self.rules.vertical, at, start, end, self.slack)

    def wall_below(self, row: int, column: int) -> bool:
        """Whether a rule stands between a position and the one below."""
        at, start, end = self.ys[row + 1], self.xs[column], self.xs[column + 1]
        return _covered(self.rules.horizontal, at, start, end, self.slack)


def _covered(rules: Sequence[Rule], at: float, start: float, end: float, slack: float) -> bool:
    near = [rule for rule in rules if abs(rule.at - at) <= slack]
    shared = sum(max(0.0, min(rule.end, end) - max(rule.start, start)) for rule in near)
    return shared > 0.6 * (end - start)


def find_grids(rules: Rules, em: float) -> list[Grid]:
    """Closed grids of at least two cells, made of rules that touch."""
    grids: list[Grid] = []
    for horizontal, vertical in _touching(rules, 0.7 * em):
        if len(horizontal) < 2 or len(vertical) < 2 or len(horizontal) + len(vertical) < 5:
            continue
        xs = _clustered([rule.at for rule in vertical], 0.5 * em)
        ys = _clustered([rule.at for rule in horizontal], 0.5 * em)
        if len(xs) < 2 or len(ys) < 2:
            continue
        part = Rules(tuple(horizontal), tuple(vertical))
        grid = Grid(tuple(xs), tuple(ys), part, 0.55 * em)
        if _is_closed(grid):
            grids.append(grid)
    return grids


def _touching(rules: Rules, slack: float) -> list[tuple[list[Rule], list[Rule]]]:
    """Rules connected through crossings, as (horizontal, vertical) groups."""
    groups: list[tuple[list[Rule], list[Rule]]] = []
    pending = list(rules.vertical)
    while pending:
        horizontal: list[Rule] = []
        vertical = [pending.pop(0)]
        grew = True
        while grew:
            found = [
                rule
                for rule in rules.horizontal
                if rule not in horizontal and any(_cross(rule, other, slack) for other in vertical)
            ]
            horizontal.extend(found)
            met = [
                rule for rule in pending if any(_cross(other, rule, slack) for other in horizontal)
            ]
            vertical.extend(met)
            pending = [rule for rule in pending if rule not in met]
            grew = bool(found or met)
        groups.append((sorted(horizontal, key=lambda r: r.at), vertical))
    return groups


def _cross(horizontal: Rule, vertical: Rule, slack: float) -> bool:
    return (
        horizontal.start - slack <= vertical.at <= horizontal.end + slack
        and vertical.start - slack <= horizontal.at <= vertical.end + slack
    )


def _clustered(values: Sequence[float], slack: float) -> list[float]:
    groups: list[list[float]] = []
    for value in sorted(values):
        if groups and value - groups[-1][-1] <= slack:
            groups[-1].append(value)
        else:
            groups.append([value])
    return [sum(group) / len(group) for group in groups]


def _is_closed(grid: Grid) -> bool:
    """Whether the outline is ruled, as it must be to read cells off the rules."""
    box = grid.bbox
    sides = (
        _covered(grid.rules.horizontal, box.top, box.left, box.right, grid.slack),
        _covered(grid.rules.horizontal, box.bottom, box.left, box.right, grid.slack),
        _covered(grid.rules.vertical, box.left, box.top, box.bottom, grid.slack),
        _covered(grid.rules.vertical, box.right, box.top, box.bottom, grid.slack),
    )
    reach = max(2.0, 2.5 * grid.slack)
    # Rules that run on past the outer columns: those columns have no walls.
    overhang = any(
        rule.start < box.left - reach or rule.end > box.right + reach
        for rule in grid.rules.horizontal
    )
    return all(sides) and not overhang


def grid_slots(grid: Grid, lines: Sequence[TextLine]) -> list[Slot]:
    """The grid's cells with their text; positions without a rule between are one."""
    slots = _cells(grid)
    pieces: dict[int, list[TextLine]] = {}
    for line in lines:
        for piece in _cut_at_walls(line, grid, slots):
            index = _slot_at(middle_x(piece), middle_y(piece), grid, slots)
            pieces.setdefault(index, []).append(piece)
    for index, own in pieces.items():
        slots[index].pieces = tuple(own)
    return slots


def _cells(grid: Grid) -> list[Slot]:
    rows, columns = len(grid.ys) - 1, len(grid.xs) - 1
    taken: set[tuple[int, int]] = set()
    slots: list[Slot] = []
    for row in range(rows):
        for column in range(columns):
            if (row, column) in taken:
                continue
            across = 1
            while (
                column + across < columns
                and (row, column + across) not in taken
                and not grid.wall_right_of(row, column + across - 1)
            ):
                across += 1
            down = 1
            while row + down < rows and not any(
                grid.wall_below(row + down - 1, column + offset)
                or (row + down, column + offset) in taken
                for offset in range(across)
            ):
                down += 1
            taken.update((row + r, column + c) for r in range(down) for c in range(across))
            slots.append(Slot(row, column, down, across))
    return slots


def _slot_at(x: float, y: float, grid: Grid, slots: Sequence[Slot]) -> int:
    column = max(0, min(len(grid.xs) - 2, sum(edge <= x for edge in grid.xs) - 1))
    row = max(0, min(len(grid.ys) - 2, sum(edge <= y for edge in grid.ys) - 1))
    return next(
        index
        for index, slot in enumerate(slots)
        if slot.row <= row < slot.row + slot.row_span
        and slot.column <= column < slot.column + slot.column_span
    )


def _cut_at_walls(line: TextLine, grid: Grid, slots: Sequence[Slot]) -> list[TextLine]:
    """A line that was read across vertical rules, cut at them."""
    result: list[TextLine] = []
    rest = line
    for index, x in enumerate(grid.xs[1:-1], start=1):
        margin = 0.4 * rest.size
        if not rest.left + margin < x < rest.right - margin:
            continue
        left = _slot_at(grid.xs[index] - 1, middle_y(rest), grid, slots)
        right = _slot_at(grid.xs[index] + 1, middle_y(rest), grid, slots)
        parts = split_piece(rest, x) if left != right else None
        if parts is not None:
            result.append(parts[0])
            rest = parts[1]
    return [*result, rest]


def is_subdivided(slots: Sequence[Slot]) -> bool:
    """Whether rows of text stand level across cells, so rules part no rows.

    Tables with rules around the columns only have several rows in each cell.
    """
    stacked = [slot for slot in slots if len(rows_of(slot.pieces)) >= 3]
    for slot in stacked:
        own = rows_of(slot.pieces)
        partners = [
            other
            for other in stacked
            if other is not slot
            and other.row == slot.row
            and len(rows_of(other.pieces)) == len(own)
        ]
        level = [
            other
            for other in partners
            if all(
                abs(a[0].baseline - b[0].baseline) < 0.4 * a[0].size
                for a, b in zip(own, rows_of(other.pieces), strict=True)
            )
        ]
        if level:
            return True
    return False
