"""Reading order: bands across the page, columns within bands, floats beside them.

A page is cut into bands of rows that share their gutters; a band is read column
by column, each column cut again in the same way. What stands across a gutter
with text on both sides (a picture, a pulled quote) is a float: it is lifted out
and read after the band. Rows of short level pieces (forms, receipts) are no
columns: they are read row by row.

Source: recursive XY-cut (Nagy and Seth 1984), with the cuts of one band merged
and floats lifted, which plain XY-cut lacks.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ocr.layout.boxes import Boxed, free_intervals, middle_y, overlap_x, overlap_y, union

T = TypeVar("T", bound=Boxed)

Gutter = tuple[float, float]
_MAX_DEPTH = 12


@dataclass(slots=True)
class Flow(Generic[T]):
    """Items to be read one after the other, top to bottom.

    `rows` is true when the items stand side by side in rows that belong
    together (label and value), false for a column of text.
    """

    items: list[T]
    rows: bool = False


@dataclass(slots=True)
class _Band(Generic[T]):
    items: list[T]
    gutters: list[Gutter] = field(default_factory=list)


def reading_order(items: Sequence[T], em: float) -> list[Flow[T]]:
    """The flows of a page in reading order; every item is in exactly one.

    Args:
        items: Text lines, tables, figures: anything with edges in pixels.
        em: Type size of the body text in pixels.
    """
    return _cut(list(items), em, 0)


def _cut(items: list[T], em: float, depth: int) -> list[Flow[T]]:
    if len(items) < 2 or depth > _MAX_DEPTH:
        return [Flow(items)] if items else []
    flows: list[Flow[T]] = []
    floats: list[T] = []
    for band in _bands(items, em, floats):
        flows.extend(_read_band(band, em, depth))
    if floats:
        flows.extend(_cut(floats, em, depth + 1))
    return flows


def _read_band(band: _Band[T], em: float, depth: int) -> list[Flow[T]]:
    columns = _columns(band.items, band.gutters)
    if len(columns) < 2:
        return [Flow(sorted(band.items, key=middle_y))]
    if _read_in_rows(columns, em):
        return [Flow(_by_rows(band.items), rows=True)]
    return [flow for column in columns for flow in _cut(column, em, depth + 1)]


def _columns(items: Sequence[T], gutters: Sequence[Gutter]) -> list[list[T]]:
    edges = [(left + right) / 2 for left, right in sorted(gutters)]
    columns: list[list[T]] = [[] for _ in range(len(edges) + 1)]
    for item in items:
        centre = (item.left + item.right) / 2
        columns[sum(centre > edge for edge in edges)].append(item)
    return [column for column in columns if column]


def _bands(items: list[T], em: float, floats: list[T]) -> list[_Band[T]]:
    """Runs of rows that share their gutters, top to bottom."""
    bands: list[_Band[T]] = []
    for row in _row_groups(items):
        for part in _without_floats(row, em, floats):
            _append(bands, part, em, floats)
    return [band for band in bands if band.items]


def _append(bands: list[_Band[T]], part: list[T], em: float, floats: list[T]) -> None:
    own = _gutters(part, em)
    last = bands[-1] if bands else None
    if last is not None and last.gutters:
        fitting = _fitting(last.gutters, part, em, floats)
        kept = _shared(last.gutters, fitting, em)
        if len(kept) == len(last.gutters) and _continues(part, last, em):
            floats.extend(item for item in part if not _among(item, fitting))
            last.items.extend(fitting)
            last.gutters = kept
            return
        if not own:
            moved = _push_on(last, part, em)
            last.items = [item for item in last.items if not _among(item, moved)]
            part = moved + part
    elif last is not None and not own:
        last.items.extend(part)
        return
    elif last is not None:
        pulled = _pull_back(last, own, part, em)
        last.items = [item for item in last.items if not _among(item, pulled)]
        part = pulled + part
        own = _shared(own, part, em) or own
    bands.append(_Band(part, own))


def _among(item: T, items: Sequence[T]) -> bool:
    return any(item is other for other in items)


def _fitting(
    gutters: Sequence[Gutter], part: Sequence[T], em: float, floats: Sequence[T]
) -> list[T]:
    """The items of a row that leave the gutters open once its floats are lifted."""
    fitting = list(part)
    for left, right in gutters:
        centre = (left + right) / 2
        crossing = [
            item
            for item in fitting
            if item.left < right - 0.6 * em and item.right > left + 0.6 * em
        ]
        sides = [item for item in fitting if not _among(item, crossing)]
        for item in crossing:
            across = item.left < centre < item.right
            if (across and _flanked(item, sides, centre)) or _goes_on(item, floats, em):
                fitting = [other for other in fitting if other is not item]
    return fitting


def _goes_on(item: T, floats: Sequence[T], em: float) -> bool:
    """Whether `item` is the next line of a float, between two rows of text."""
    return any(
        overlap_x(item, other) > 0 and -1.5 * em < overlap_y(item, other) < 0.5 * em
        for other in floats
    )


def _continues(part: Sequence[T], band: _Band[T], em: float) -> bool:
    """Whether a row continues the columns above it rather than starting afresh."""
    if len(part) > 1 and _gutters(part, em):
        return True
    # A lone line below the columns is the rest of one of them, unless it is set
    # off from all that stands above.
    return min(item.top for item in part) - union(band.items).bottom < 3.5 * em


def _push_on(last: _Band[T], part: Sequence[T], em: float) -> list[T]:
    """Lines at the foot of a closed band that head what follows it.

    Such a line stands below every column, apart from its own, and nearer to the
    new band than to what is above it.
    """
    moved: list[T] = []
    floor = min(item.top for item in part)
    rest = sorted(last.items, key=lambda entry: entry.top)
    while len(rest) > 2:
        item, above = rest[-1], max(entry.bottom for entry in rest[:-1])
        gap, below = item.top - above, floor - item.bottom
        if gap < 0.5 * em or below > min(gap, 2.5 * em):
            break
        moved.insert(0, rest.pop())
        floor = item.top
    return moved


def _pull_back(last: _Band[T], own: list[Gutter], part: Sequence[T], em: float) -> list[T]:
    """Lines above a new band that already belong to one of its columns.

    A column on the right may begin well above the others; elsewhere only a line
    at the usual distance belongs, because order is the same either way.
    """
    pulled: list[T] = []
    edge = max(right for _, right in own)
    top = min(item.top for item in part)
    for item in sorted(last.items, key=lambda entry: -entry.bottom):
        in_last = item.left >= edge - 0.5 * em
        in_column = all(item.right <= left or item.left >= right for left, right in own)
        if top - item.bottom > (2 * em if in_last else 0.6 * em) or not in_column:
            break
        pulled.append(item)
        top = item.top
    return pulled


def _row_groups(items: Sequence[T]) -> list[list[T]]:
    """Items chained by vertical overlap, top to bottom."""
    groups: list[list[T]] = []
    reach = float("-inf")
    for item in sorted(items, key=lambda entry: entry.top):
        # Descenders and slight tilt make the boxes of tight lines touch.
        slack = 0.25 * (item.bottom - item.top)
        if groups and item.top + slack < reach:
            groups[-1].append(item)
        else:
            groups.append([item])
        reach = max(reach, item.bottom) if len(groups[-1]) > 1 else item.bottom
    return groups


def _gutters(items: Sequence[T], em: float) -> list[Gutter]:
    gaps = free_intervals((item.left, item.right) for item in items)
    return [gap for gap in gaps if gap[1] - gap[0] >= 0.8 * em]


def _shared(gutters: Sequence[Gutter], items: Sequence[T], em: float) -> list[Gutter]:
    """What is left of `gutters` once `items` are in place too."""
    kept = []
    for left, right in gutters:
        start, end = left, right
        for item in sorted(items, key=lambda entry: entry.left):
            if item.right <= start or item.left >= end:
                continue
            # The item reaches into the gutter: keep the wider side of it.
            before, after = item.left - start, end - item.right
            start, end = (start, item.left) if before >= after else (item.right, end)
        if end - start >= 0.6 * em:
            kept.append((start, end))
    return kept


def _without_floats(row: list[T], em: float, floats: list[T]) -> list[list[T]]:
    """A row group as parts, once the floats that block its gutter are lifted."""
    if len(row) < 6 or _gutters(row, em):
        return [row]
    gutter = _blocked_gutter(row, em)
    if gutter is None:
        return [row]
    centre = (gutter[0] + gutter[1]) / 2
    crossing = [item for item in row if item.left < centre < item.right]
    sides = [item for item in row if not item.left < centre < item.right]
    lifted = [item for item in crossing if _flanked(item, sides, centre)]
    floats.extend(lifted)
    rest = [item for item in row if not _among(item, lifted)]
    dividers = sorted(
        (item for item in crossing if not _among(item, lifted)),
        key=lambda entry: entry.top,
    )
    return _split_at(rest, dividers)


def _split_at(items: list[T], dividers: Sequence[T]) -> list[list[T]]:
    parts: list[list[T]] = []
    remaining = [item for item in items if not _among(item, dividers)]
    for divider in dividers:
        above = [item for item in remaining if middle_y(item) < middle_y(divider)]
        remaining = [item for item in remaining if middle_y(item) >= middle_y(divider)]
        parts.extend(part for part in (above, [divider]) if part)
    return [*parts, remaining] if remaining else parts


def _blocked_gutter(row: Sequence[T], em: float) -> Gutter | None:
    """The gutter that a few crossing items hide, if there is one."""
    box = union(row)
    width = box.right - box.left
    candidates = sorted({item.right for item in row if item.right < box.right - 0.12 * width})
    best: tuple[int, float, Gutter] | None = None
    for edge in candidates:
        if edge < box.left + 0.12 * width:
            continue
        centre = edge + 0.4 * em
        crossing = [item for item in row if item.left < centre < item.right]
        left = [item for item in row if item.right <= centre]
        right = [item for item in row if item.left >= centre]
        if len(crossing) > 0.25 * len(row) or min(len(left), len(right)) < 3:
            continue
        start = max(item.right for item in left)
        end = min(item.left for item in right)
        if end - start < 0.8 * em:
            continue
        rank = (len(crossing), start - end)
        if best is None or rank < best[:2]:
            best = (*rank, (start, end))
    return best[2] if best else None


def _flanked(item: T, sides: Sequence[T], centre: float) -> bool:
    level = [other for other in sides if overlap_y(item, other) > 0]
    left = any(other.right <= centre and other.right <= item.left + 1 for other in level)
    right = any(other.left >= centre and other.left >= item.right - 1 for other in level)
    return left and right


def _read_in_rows(columns: Sequence[Sequence[T]], em: float) -> bool:
    """Whether level pieces belong together across the gutters.

    Columns of text fill their width and do not care for each other's baselines;
    labels and values, receipt items and prices stand level and are short.
    """
    if all(is_prose(column, em) for column in columns):
        return False
    everything = union([item for column in columns for item in column])
    if everything.width < 30 * em and not any(is_prose(column, em) for column in columns):
        # A till roll is too narrow for columns: what is level belongs together.
        return True
    left, right = columns[0], columns[1]
    if min(len(left), len(right)) == 1 and max(len(left), len(right)) > 3:
        return False
    pairs = sum(_has_level_partner(item, right) for item in left)
    back = sum(_has_level_partner(item, left) for item in right)
    level = (pairs + back) / (len(left) + len(right))
    single = len(left) == 1 or len(right) == 1
    return level > (0.45 if single else 0.62)


def is_prose(column: Sequence[Boxed], em: float) -> bool:
    """Whether most lines are long and as wide as the line above or below.

    Compared with their neighbours only, because columns change their width
    where they run around pictures.
    """
    if len(column) < 3:
        return False
    ordered = sorted(column, key=middle_y)
    widths = [item.right - item.left for item in ordered]
    near = [max(pair) for pair in zip([*widths[1:], 0.0], [0.0, *widths[:-1]], strict=True)]
    full = sum(
        width > 9 * em and width > 0.85 * other for width, other in zip(widths, near, strict=True)
    )
    return full >= 0.5 * len(widths)


def _has_level_partner(item: T, others: Sequence[T]) -> bool:
    height = item.bottom - item.top
    return any(
        abs(middle_y(item) - middle_y(other)) < 0.35 * max(height, other.bottom - other.top)
        for other in others
    )


def _by_rows(items: Sequence[T]) -> list[T]:
    rows: list[list[T]] = []
    for item in sorted(items, key=middle_y):
        if rows and _has_level_partner(item, rows[-1]):
            rows[-1].append(item)
        else:
            rows.append([item])
    return [item for row in rows for item in sorted(row, key=lambda entry: entry.left)]


def typical_pitch(items: Sequence[Boxed], em: float) -> float:
    """Usual distance from line to line in pixels within a column."""
    centres = sorted(middle_y(item) for item in items)
    steps = [b - a for a, b in itertools.pairwise(centres) if b - a > 0.6 * em]
    near = [step for step in steps if step < 3 * em]
    return statistics.median(near) if near else 1.25 * em
