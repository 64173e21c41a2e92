"""Flows become blocks: headings, paragraphs, list items, kept lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ocr.document import Block, BlockKind
from ocr.layout.boxes import overlap_y, union
from ocr.layout.headings import (
    ACCEPT,
    Setting,
    Surroundings,
    heading_score,
    is_centred,
    numbering_depth,
)
from ocr.layout.lists import contents_length, nesting
from ocr.layout.order import Flow
from ocr.layout.paragraphs import Measure, Segment, measure_flow, segments_of
from ocr.layout.rows import Row, make_rows
from ocr.layout.tables import CAPTION
from ocr.layout.textlines import TextLine
from ocr.markdown.joining import join_lines

if TYPE_CHECKING:
    from ocr.layout.assembly import Atom


_NOTE = re.compile(r"^\s*(?:\(?\d{1,3}[).]?|[*†‡§¹²³⁴⁵⁶⁷⁸⁹]+)\s*[^\W\d_]")


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What all flows of a page share.

    `em` is the body's type size and `scale` the square root of the page's area,
    both in pixels; type sizes are handed on as shares of `scale`, so that pages
    of any resolution compare.
    """

    em: float
    setting: Setting
    scale: float
    height: float
    vocabulary: frozenset[str]


def flow_blocks(
    flow: Flow[TextLine | Atom],
    facts: PageFacts,
    flows: Sequence[Flow[TextLine | Atom]],
    *,
    first: bool,
) -> list[Block]:
    """The blocks of one flow, in order."""
    blocks: list[Block] = []
    run: list[TextLine] = []
    bound = _right_bound(flow, flows, facts)
    for item in flow.items:
        if isinstance(item, TextLine):
            run.append(item)
            continue
        blocks.extend(_text_blocks(run, bound, facts, first=first and not blocks))
        run = []
        blocks.append(item.block)
    blocks.extend(_text_blocks(run, bound, facts, first=first and not blocks))
    return blocks


def _right_bound(
    flow: Flow[TextLine | Atom], flows: Sequence[Flow[TextLine | Atom]], facts: PageFacts
) -> float:
    """How far to the right the flow's lines could have run."""
    box = union(flow.items)
    beside = [
        item.left
        for other in flows
        if other is not flow
        for item in other.items
        if overlap_y(item, box) > 0 and item.left > box.right - facts.em
    ]
    return min([*(left - facts.em for left in beside), facts.setting.right])


def _text_blocks(
    lines: Sequence[TextLine], right_bound: float, facts: PageFacts, *, first: bool
) -> list[Block]:
    if not lines:
        return []
    rows = make_rows(lines)
    measure = measure_flow(rows, right_bound, facts.em)
    segments = segments_of(rows, measure)
    groups = _group(segments, measure, facts, first=first)
    return [block for group in groups for block in group.blocks(facts)]


@dataclass(slots=True)
class _Group:
    """Neighbouring segments that become blocks together."""

    kind: BlockKind
    segments: list[Segment]
    score: float = 0.0

    def blocks(self, facts: PageFacts) -> list[Block]:
        if self.kind is BlockKind.LIST_ITEM:
            return _list_blocks(self.segments, facts)
        rows = [row for segment in self.segments for row in segment.rows]
        if self.kind is BlockKind.CODE:
            text = "\n".join(_kept_line(segment, facts) for segment in self.segments)
        else:
            text = join_lines((row.text for row in rows), facts.vocabulary)
        style = style_of(rows, facts)
        if self.kind is BlockKind.HEADING:
            style["heading_score"] = round(self.score, 2)
            first = self.segments[0]
            style["gap_above"] = round(first.gap_above, 2) if first.gap_above is not None else 9.0
        elif self.kind is BlockKind.PARAGRAPH:
            style["runs_on"] = self.segments[-1].full
        return [make_block(self.kind, rows, text, style)]


def _kept_line(segment: Segment, facts: PageFacts) -> str:
    return join_lines((row.text for row in segment.rows), facts.vocabulary)


def style_of(rows: Sequence[Row], facts: PageFacts) -> dict[str, float | bool | str]:
    """Facts of setting for decisions over the whole document."""
    letters = [max(1, len(row.text)) for row in rows]
    size = sum(row.size * n for row, n in zip(rows, letters, strict=True)) / sum(letters)
    style: dict[str, float | bool | str] = {"size": round(size / facts.scale, 5)}
    if all(row.bold for row in rows):
        style["bold"] = True
    if any(row.underlined for row in rows):
        style["underlined"] = True
    if is_centred(rows, facts.setting):
        style["centred"] = True
    depth = numbering_depth(rows[0].text)
    if depth is not None:
        style["numbering"] = float(depth)
    return style


def make_block(
    kind: BlockKind,
    rows: Sequence[Row],
    text: str,
    style: dict[str, float | bool | str] | None = None,
) -> Block:
    """A text block around `rows`; its confidence is the letters' mean."""
    lines = tuple(piece.line for row in rows for piece in row.pieces)
    letters = sum(max(1, len(line.text)) for line in lines)
    confidence = sum(line.confidence * max(1, len(line.text)) for line in lines) / letters
    return Block(
        kind, union(row.bbox for row in rows), text, round(confidence, 4), lines=lines, style=style
    )


def _list_blocks(segments: Sequence[Segment], facts: PageFacts) -> list[Block]:
    depths = nesting([segment.rows[0].left for segment in segments], facts.em)
    blocks: list[Block] = []
    for segment, depth in zip(segments, depths, strict=True):
        marker = segment.marker
        texts = [row.text for row in segment.rows]
        if marker is not None:
            texts[0] = marker.rest
        block = make_block(BlockKind.LIST_ITEM, segment.rows, join_lines(texts, facts.vocabulary))
        blocks.append(
            Block(
                block.kind,
                block.bbox,
                block.text,
                block.confidence,
                level=depth,
                marker=marker.mark if marker is not None else "•",
                lines=block.lines,
                style={"runs_on": segment.full},
            )
        )
    return blocks


def _group(
    segments: list[Segment], measure: Measure, facts: PageFacts, *, first: bool
) -> list[_Group]:
    groups: list[_Group] = []
    index = 0
    while index < len(segments):
        size = _contents_length(segments, index) or _list_length(segments, index, measure)
        if size:
            groups.append(_Group(BlockKind.LIST_ITEM, segments[index : index + size]))
            index += size
            continue
        group = _note(segments, index, facts)
        if group is None:
            group = _heading(segments, index, facts, first=first and index == 0)
        if group is None:
            group = _caption(segments, index) or _text_group(segments, index)
        groups.append(group)
        index += len(group.segments)
    return groups


def _caption(segments: Sequence[Segment], index: int) -> _Group | None:
    """A caption: it names a table or figure with its number, and is short."""
    segment = segments[index]
    if not CAPTION.match(segment.text) or len(segment.rows) > 8:
        return None
    taken = [segment]
    for after in segments[index + 1 :]:
        # Centred captions of several lines, the second in another language.
        if len(after.rows) > 2 or not (after.tight or CAPTION.match(after.text)):
            break
        if CAPTION.match(after.text):
            break
        taken.append(after)
    return _Group(BlockKind.CAPTION, taken)


def _note(segments: Sequence[Segment], index: int, facts: PageFacts) -> _Group | None:
    """A footnote: small type low on the page, with its mark in front, last in its flow."""
    segment = segments[index]
    low = segment.rows[0].top > 0.6 * facts.height
    rest = [row for other in segments[index:] for row in other.rows]
    small = all(row.size < 0.92 * facts.em for row in rest)
    if low and small and _NOTE.match(segment.text) and len(segment.text) > 8:
        return _Group(BlockKind.FOOTNOTE, [segment])
    return None


def _contents_length(segments: Sequence[Segment], start: int) -> int:
    """How many segments from `start` on are entries of a contents list."""
    close = [segments[start]]
    for segment in segments[start + 1 :]:
        if len(segment.rows) > 2 or (segment.gap_above or 9.0) > 2.6:
            break
        close.append(segment)
    count = contents_length([segment.text for segment in close])
    return count if count >= 3 else 0


def _list_length(segments: Sequence[Segment], start: int, measure: Measure) -> int:
    """How many segments from `start` on are items of one list; 0 for none."""
    first = segments[start].marker
    if first is None:
        return 0
    count = 1
    for before, segment in zip(segments[start:], segments[start + 1 :], strict=False):
        if (segment.gap_above or 9.0) > 2.6:
            break
        same_kind = segment.marker is not None
        if not same_kind and not _lost_bullet(segments[start : start + count], segment, measure):
            break
        del before
        count += 1
    items = segments[start : start + count]
    while items and items[-1].marker is None:
        items = items[:-1]
    if first.ordered and len([item for item in items if item.marker is not None]) < 2:
        return 0
    return len(items)


def _lost_bullet(items: Sequence[Segment], segment: Segment, measure: Measure) -> bool:
    """Whether a segment is an item whose bullet was not read."""
    if len(segment.rows) > 3 or segment.rows[0].split:
        return False
    if any(item.marker is not None and item.marker.ordered for item in items):
        return False
    lefts = [item.rows[0].left for item in items if item.marker is not None]
    # Without its bullet an item starts where the others' text starts.
    text_lefts = [left + 1.1 * measure.em for left in lefts]
    left = segment.rows[0].left
    near = min(abs(left - other) for other in (*lefts, *text_lefts))
    return near < 0.9 * measure.em and (segment.gap_above or 0) < 1.7


def _heading(
    segments: Sequence[Segment], index: int, facts: PageFacts, *, first: bool
) -> _Group | None:
    taken = [segments[index]]
    following = segments[index + 1 :]
    for segment in following:
        if not _one_heading(taken[-1], segment):
            break
        taken.append(segment)
    rest = following[len(taken) - 1 :]
    rows = [row for segment in taken for row in segment.rows]
    below = rest[0] if rest else None
    around = Surroundings(
        gap_above=taken[0].gap_above,
        gap_below=below.gap_above if below is not None else None,
        heads_prose=below is not None and _is_prose(below),
        first_on_page=first,
    )
    score = heading_score(rows, facts.setting, around)
    return _Group(BlockKind.HEADING, taken, score) if score >= ACCEPT else None


def _is_prose(segment: Segment) -> bool:
    return len(segment.rows) > 1 or (segment.marker is not None) or len(segment.text) > 60


def _one_heading(segment: Segment, after: Segment) -> bool:
    """Whether two segments are lines of one heading."""
    a, b = segment.rows[-1], after.rows[0]
    alike = 0.88 < b.size / a.size < 1.14 and a.bold == b.bold
    tight = b.top - a.bottom < 0.9 * a.size
    centred = abs((a.left + a.right) - (b.left + b.right)) < 2 * a.size
    return alike and tight and (centred or abs(a.left - b.left) < 0.5 * a.size)


def _text_group(segments: Sequence[Segment], index: int) -> _Group:
    """A paragraph, or lines whose ends carry meaning."""
    taken = [segments[index]]
    for segment in segments[index + 1 :]:
        if not segment.tight or segment.marker is not None:
            break
        taken.append(segment)
    rows = [row for segment in taken for row in segment.rows]
    single = sum(len(segment.rows) == 1 for segment in taken)
    if len(rows) > 1 and len(taken) > 1 and single >= 0.6 * len(taken) and single > 1:
        return _Group(BlockKind.CODE, taken)
    return _Group(BlockKind.PARAGRAPH, taken[:1])
