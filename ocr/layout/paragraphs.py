"""Rows of one flow become segments: paragraphs, list items, kept lines."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from ocr.layout.lists import Marker, continues_contents, find_marker
from ocr.layout.rows import Row
from ocr.layout.textlines import advance_em


class Break(Enum):
    """What stands between a row and the next."""

    NONE = "none"
    """The text runs on."""
    LINE = "line"
    """The line was ended on purpose, within one block."""
    BLOCK = "block"
    """Something new begins."""


@dataclass(slots=True)
class Segment:
    """Rows that run on, one after the other.

    `gap_above` is the distance to the row above in the flow, in lines (1.0 is
    the usual distance), None at the start of the flow. `tight` says that only a
    line's end, no gap or change of type, parts it from the segment above.
    """

    rows: list[Row]
    gap_above: float | None = None
    tight: bool = False
    marker: Marker | None = None
    full: bool = False
    """Its last row reaches the right edge, so the text may run on elsewhere."""
    lines: list[Row] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All rows, a space between them."""
        return " ".join(row.text for row in self.rows)


@dataclass(frozen=True, slots=True)
class Measure:
    """The setting of one flow: edges in pixels, usual line distance in pixels."""

    left: float
    right: float
    pitch: float
    em: float


def measure_flow(rows: Sequence[Row], right_bound: float, em: float) -> Measure:
    """The edges and line distance of a flow.

    Args:
        rows: The flow's rows, top to bottom.
        right_bound: How far the flow could reach before something else begins.
        em: Type size of the body text in pixels.
    """
    size = statistics.median(row.size for row in rows)
    steps = [b.middle - a.middle for a, b in itertools.pairwise(rows)]
    near = sorted(step for step in steps if 0.6 * size < step < 2.2 * size)
    # The tight distance, not the mean: paragraph gaps only ever add to it.
    pitch = near[len(near) // 3] if near else 1.25 * size
    furthest = max(row.right for row in rows)
    left = min(row.left for row in rows)
    long = [row for row in rows if row.right > furthest - 0.15 * (furthest - left)]
    typical = statistics.median(row.width for row in rows)
    # A narrow column is told from an address by the number of its lines.
    wide_enough = typical > 11 * em or (len(rows) >= 8 and typical > 7 * em)
    is_prose = len(rows) >= 2 and len(long) >= 0.4 * len(rows) and wide_enough
    return Measure(left, furthest if is_prose else max(furthest, right_bound), pitch, em)


def segments_of(rows: Sequence[Row], measure: Measure) -> list[Segment]:
    """The flow cut into segments."""
    segments: list[Segment] = []
    for index, row in enumerate(rows):
        before = rows[index - 1] if index else None
        after = rows[index + 1] if index + 1 < len(rows) else None
        kind = (
            Break.BLOCK
            if before is None
            else _break(before, row, after=after, current=segments[-1], measure=measure, rows=rows)
        )
        if kind is Break.NONE:
            segments[-1].rows.append(row)
        else:
            gap = None if before is None else line_gap(before, row, measure)
            segments.append(Segment([row], gap, kind is Break.LINE, find_marker(row.text)))
        segments[-1].full = _is_full(row, after, measure, rows, index)
    return segments


def line_gap(before: Row, after: Row, measure: Measure) -> float:
    """Distance of two rows in lines; 1.0 is the usual distance."""
    step = (after.top - before.top + after.bottom - before.bottom) / 2
    extra = max(0.0, (after.size + before.size) / 2 - measure.em) * 1.25
    return max(0.0, step - extra) / measure.pitch


def _break(
    before: Row,
    row: Row,
    *,
    after: Row | None,
    current: Segment,
    measure: Measure,
    rows: Sequence[Row],
) -> Break:
    index = next(i for i, other in enumerate(rows) if other is before)
    full = _is_full(before, row, measure, rows, index)
    if find_marker(row.text) is not None and not _false_marker(before, row, current, full):
        return Break.BLOCK
    if len(current.rows) == 1 and continues_contents(before.text, row.text):
        return Break.BLOCK
    gap = line_gap(before, row, measure)
    if gap < 1.3 and _hangs(row, current):
        return Break.NONE
    if gap > (1.45 if full else 1.24):
        return Break.BLOCK
    if _changes_type(before, row, full):
        return Break.BLOCK
    if row.split or before.split:
        return Break.LINE
    if _is_indented(before, row, after, measure, full, current):
        return Break.BLOCK
    return Break.NONE if full else Break.LINE


def _hangs(row: Row, current: Segment) -> bool:
    """Whether a row hangs under the text of a list item and goes on with it."""
    if current.marker is None:
        return False
    return row.left > current.rows[0].left + 0.6 * row.size and row.text[:1].islower()


def _false_marker(before: Row, row: Row, current: Segment, full: bool) -> bool:
    """Whether what looks like a marker is running text (see page | 3. Then)."""
    marker = find_marker(row.text)
    if marker is None or not marker.ordered or not full:
        return False
    same_edge = abs(row.left - before.left) < 0.5 * row.size
    return same_edge and current.marker is None and not before.text.rstrip().endswith((".", ":"))


def _changes_type(before: Row, row: Row, full: bool) -> bool:
    ratio = row.size / before.size
    letters = min(len(row.text), len(before.text))
    if letters > 3 and not 0.8 < ratio < 1.25:
        return True
    if letters > 3 and not full and not 0.87 < ratio < 1.15:
        return True
    if before.underlined and not row.underlined:
        return True
    return before.bold != row.bold and (not full or before.width < 0.6 * row.width) and letters > 2


def _is_indented(
    before: Row, row: Row, after: Row | None, measure: Measure, full: bool, current: Segment
) -> bool:
    step = 0.75 * measure.em
    if current.marker is not None:
        # A list item's own lines hang to the right of its marker.
        first = current.rows[0]
        return len(current.rows) == 1 and row.left < first.left - step
    if row.left < before.left - 2.2 * measure.em and not full:
        return True
    if row.left < before.left + step or row.left > before.left + 6 * measure.em:
        return False
    # Where a column narrows around a picture every line moves in, so the next
    # line must come back for this to be a first line.
    if after is not None and after.left < row.left - step:
        return True
    return not full


def _is_full(
    row: Row, after: Row | None, measure: Measure, rows: Sequence[Row], index: int
) -> bool:
    """Whether the line ended because the next word did not fit."""
    if after is None:
        return row.right > measure.right - 2.5 * measure.em
    if row.text.rstrip()[-1:] in ("-", "\u00ad") and after.text[:1].islower():
        return True
    word = after.text.split(maxsplit=1)[0] if after.text.strip() else ""
    # The flow's own type says how wide a word runs.
    letter = after.width / advance_em(after.text) if len(after.text) > 8 else after.size
    need = advance_em(word + " ") * letter
    if len(word) > 12 and word[:1] > "\u2e80":
        # Text without spaces breaks anywhere: one more character is the test.
        need = 1.6 * after.size
    edge = _local_right(row, measure, rows, index)
    if word[:1].islower() and row.text.rstrip()[-1:].isalpha():
        # Mid-sentence: ragged setting and misjudged widths are likelier than a
        # line that was ended here on purpose, unless it is much too short.
        need += 0.15 * (edge - measure.left)
    return row.right + need > edge


def _local_right(row: Row, measure: Measure, rows: Sequence[Row], index: int) -> float:
    """The right edge that holds here: narrower where lines run round a picture."""
    around = [rows[i] for i in range(max(0, index - 2), min(len(rows), index + 4)) if i != index]
    agree = [other for other in around if abs(other.right - row.right) < 1.0 * measure.em]
    if len(agree) >= 2 and row.width > 10 * measure.em:
        return row.right
    near = [other.right for other in around if other.width > 10 * measure.em]
    close = sorted(near)[-3:] if len(near) >= 3 else []
    if close and max(close) - min(close) < 1.2 * measure.em:
        return max(*close, row.right)
    return measure.right
