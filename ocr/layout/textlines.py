"""Read lines with the facts layout needs: tight boxes, type size, weight."""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ocr.document import BBox, Line
from ocr.layout.boxes import middle_y, overlap_y, union
from ocr.layout.ink import measure_ink

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CJK = re.compile(r"[\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uff60]")

# Height of the dense band of a line over its type size: x-height for running
# text, capitals and digits otherwise, nearly all of it for ideograms.
_X_HEIGHT, _CAPITAL, _IDEOGRAM = 0.48, 0.70, 0.92
# Advance widths over the type size, averaged over common text faces.
_NARROW, _WIDE = frozenset("iljtfrI.,;:!'|()[]"), frozenset("mwMW@%—")


@dataclass(frozen=True, slots=True)
class TextLine:
    """One line of text on the upright page.

    The edges are the line's box with the recogniser's margin taken off, so that
    neighbouring lines do not overlap. `size` is the type size in pixels (about
    the distance of tightly set lines); `weight` is the share of ink in the band
    between baseline and x-height, 0 when there was no image to look at.
    """

    line: Line
    left: float
    top: float
    right: float
    bottom: float
    size: float
    weight: float = 0.0
    underlined: bool = False
    bold: bool = False

    @property
    def text(self) -> str:
        """The line's text as read."""
        return self.line.text

    @property
    def width(self) -> float:
        """Width in pixels."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """Height in pixels."""
        return self.bottom - self.top

    @property
    def baseline(self) -> float:
        """Vertical centre, which stands in for the baseline on upright pages."""
        return (self.top + self.bottom) / 2


def prepare(lines: Sequence[Line], image: NDArray[np.uint8] | None) -> list[TextLine]:
    """Text lines with measured size and weight; empty ones are left out.

    Args:
        lines: Lines as read, or the words of a text layer.
        image: Upright page, uint8, shape (height, width, 3) or (height, width);
            None when there is nothing but text.
    """
    kept = [line for line in lines if line.text.strip()]
    if not kept:
        return []
    return _with_bold(_measured(join_fragments(kept), image))


def join_fragments(lines: Sequence[Line]) -> list[Line]:
    """Lines from words: neighbours on one baseline, a space apart, become one.

    Gaps wider than a space stay gaps, so that columns and cells stay apart.
    """
    rows = _baseline_rows(lines)
    joined: list[Line] = []
    for row in rows:
        run: list[Line] = []
        for line in sorted(row, key=lambda item: item.bbox.left):
            if run and not _same_phrase(run[-1], line):
                joined.append(_joined(run))
                run = []
            run.append(line)
        joined.append(_joined(run))
    return joined


def _baseline_rows(lines: Sequence[Line]) -> list[list[Line]]:
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda item: middle_y(item.bbox)):
        height = line.bbox.height
        for row in reversed(rows[-8:]):
            last = row[-1].bbox
            near = abs(middle_y(last) - middle_y(line.bbox)) < 0.3 * min(height, last.height)
            if near and 0.6 < height / max(1.0, last.height) < 1.7:
                row.append(line)
                break
        else:
            rows.append([line])
    return rows


def _same_phrase(before: Line, after: Line) -> bool:
    height = min(before.bbox.height, after.bbox.height)
    gap = after.bbox.left - before.bbox.right
    # A word space is .25 of the type size, stretched to twice that in justified
    # text; detection boxes of whole lines stand at least a size apart.
    single = " " not in before.text.strip() and " " not in after.text.strip()
    limit = 0.55 if single else 0.3
    alike = before.bold == after.bold or not single
    return -0.5 * height < gap < limit * height and (alike or gap < limit * height)


def _joined(run: Sequence[Line]) -> Line:
    if len(run) == 1:
        return run[0]
    text = run[0].text
    for before, after in itertools.pairwise(run):
        gap = after.bbox.left - before.bbox.right
        height = min(before.bbox.height, after.bbox.height)
        glued = gap < 0.08 * height or (
            CJK.match(after.text) is not None and CJK.match(text[-1]) is not None
        )
        text += after.text if glued else " " + after.text
    letters = [max(1, len(line.text)) for line in run]
    confidence = sum(line.confidence * n for line, n in zip(run, letters, strict=True)) / sum(
        letters
    )
    bolds = [line.bold for line in run if line.bold is not None]
    heights = [line.height_px for line in run if line.height_px is not None]
    return Line(
        text=text,
        bbox=union(line.bbox for line in run),
        confidence=confidence,
        height_px=statistics.median(heights) if heights else None,
        bold=None if not bolds else sum(bolds) * 2 > len(bolds),
        font=run[0].font,
        words=tuple(word for line in run for word in (line.words or (line,))),
    )


def _measured(lines: Sequence[Line], image: NDArray[np.uint8] | None) -> list[TextLine]:
    plain = [_plain(line) for line in lines]
    if image is None:
        return plain
    inks = [measure_ink(image, line.bbox) for line in lines]
    cores = [
        None if ink is None else ink.core_px / _core_share(line.text)
        for line, ink in zip(lines, inks, strict=True)
    ]
    advances = [item.width / advance_em(item.text) for item in plain]
    # How wide this page's type runs against the averages (typewriters: twice).
    setting = weighted_median(
        (core / advance, len(line.text))
        for line, core, advance in zip(lines, cores, advances, strict=True)
        if core and len(line.text) >= 8
    )
    return [
        item
        if ink is None or core is None
        else replace(
            item,
            size=_type_size(item, core, advance * setting if setting else core),
            weight=ink.density,
            top=ink.top,
            bottom=ink.bottom,
        )
        for item, ink, core, advance in zip(plain, inks, cores, advances, strict=True)
    ]


def _plain(line: Line) -> TextLine:
    box = line.bbox
    if box.width < 1 or box.height < 1:
        # A box without area would divide by zero in every comparison.
        box = BBox(box.left, box.top, max(box.right, box.left + 1), max(box.bottom, box.top + 1))
    # Detection boxes carry about 8 % of margin above and below (measured).
    trim = 0.08 * box.height
    size = 0.8 * max(1.0, line.height_px or box.height)
    return TextLine(
        line, box.left, box.top + trim, box.right, box.bottom - trim, size, bold=bool(line.bold)
    )


def _type_size(item: TextLine, core: float, by_width: float) -> float:
    """Type size from two measures that fail on different lines.

    The dense band fails on underlined and very short lines, the width on
    letter-spaced ones; where they disagree the box's height decides.
    """
    if CJK.search(item.text) and len(item.text) >= 5:
        # Ideograms are all one em wide, whatever the paper behind them looks like.
        return float(by_width)
    if 0.75 < core / by_width < 1.33:
        return float((core * by_width) ** 0.5)
    if len(item.text) < 4:
        return item.size
    return float(min(core, by_width, key=lambda size: abs(size - item.size)))


def _core_share(text: str) -> float:
    if CJK.search(text):
        return _IDEOGRAM
    marks = [char for char in text if char.isalnum()]
    tall = sum(char.isupper() or char.isdigit() for char in marks)
    return _CAPITAL if tall > 0.6 * len(marks) else _X_HEIGHT


def advance_em(text: str) -> float:
    """Width of `text` over its type size in an average text face."""
    return sum(_advance(char) for char in text) or 0.5


def _advance(char: str) -> float:
    if CJK.match(char):
        return 1.0
    if char == " ":
        return 0.26
    if char in _NARROW:
        return 0.3
    if char in _WIDE:
        return 0.85
    return 0.68 if char.isupper() else 0.5


def _with_bold(lines: list[TextLine]) -> list[TextLine]:
    weights = [(item.weight, len(item.text)) for item in lines if item.weight > 0]
    if not weights:
        return lines
    typical = weighted_median(weights)
    spread = weighted_median((abs(weight - typical), letters) for weight, letters in weights)
    heavy = typical + min(0.28 * typical, max(0.16 * typical, 2.5 * spread))
    return [
        replace(
            item,
            bold=item.line.bold
            if item.line.bold is not None
            else item.weight > heavy and not CJK.search(item.text),
        )
        for item in lines
    ]


def weighted_median(values: Iterable[tuple[float, float]]) -> float:
    """The value at which half of the weight is reached; 0 without values."""
    ordered = sorted(values)
    half = sum(weight for _, weight in ordered) / 2
    reached = 0.0
    for value, weight in ordered:
        reached += weight
        if reached >= half:
            return value
    return 0.0


def body_size(lines: Sequence[TextLine]) -> float:
    """Type size of most of the letters in pixels; 0 on a page without text."""
    return weighted_median((item.size, len(item.text)) for item in lines)


def rows_of(lines: Iterable[TextLine]) -> list[list[TextLine]]:
    """Lines that stand side by side, top to bottom, each row left to right."""
    rows: list[list[TextLine]] = []
    for item in sorted(lines, key=lambda entry: entry.baseline):
        if rows and _level(rows[-1], item):
            rows[-1].append(item)
        else:
            rows.append([item])
    return [sorted(row, key=lambda entry: entry.left) for row in rows]


def _level(row: Sequence[TextLine], item: TextLine) -> bool:
    shared = max(overlap_y(other, item) / min(other.height, item.height) for other in row)
    drift = abs(statistics.fmean(other.baseline for other in row) - item.baseline)
    return shared > 0.5 and drift < 0.45 * max(item.height, row[0].height)
