"""From what the model said to blocks on the page.

The model writes regions as `<|ref|>label<|/ref|><|det|>[[x1, y1, x2, y2]]<|/det|>`
followed by the region's Markdown, coordinates 0..999 of the page's width and
height. Nothing is evaluated, and malformed output loses its marks, never its
words.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ocr.document import BBox, Block, BlockKind
from ocr.engines.deepseek.html_tables import parse_table

_FULL = 999.0
"""The coordinate that stands for the far edge."""
_MAX_BOXES = 64

_REF, _REF_END, _DET, _DET_END = "<|ref|>", "<|/ref|>", "<|det|>", "<|/det|>"
_MARKS = re.compile(r"<\|/?[a-z▁]{1,24}\|>")
_NUMBER = re.compile(r"-?\d{1,6}(?:\.\d{1,6})?")
_FORMULA = re.compile(r"\\\[(.+?)\\\]|\$\$(.+?)\$\$", re.DOTALL)
_INLINE_DOLLAR = re.compile(r"(?<![\\$\w])\$(?=\S)([^$\n]{1,300}?)(?<=\S)\$(?![$\w])")
_TABLE = re.compile(r"<table\b.*?(?:</table\s*>|\Z)", re.DOTALL | re.IGNORECASE)
_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_ITEM = re.compile(r"(\s*)([-*+•·▪–]|\(?\d{1,4}[.)]|\(?[A-Za-z][.)])\s+(.*)")
_LETTERED = re.compile(r"\s*\(?[A-Za-z][.)]\s")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_EMPHASIS = re.compile(r"(\*\*\*|\*\*|__|~~)(?=\S)(.+?)(?<=\S)\1")
_STAR = re.compile(r"(?<![\w*\\])\*(?=[^\s*])([^*\n]+?)(?<=[^\s*])\*(?![\w*])")
_TAG = re.compile(
    r"</?(?:b|i|u|s|em|strong|sup|sub|center|div|span|p|font|small|mark)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_PICTURE = re.compile(r"!\[([^\]\n]*)\]\([^)\n]*\)")
_ESCAPED = re.compile(r"\\([*_#`~>|{}.!+\-\]\[])(?![\w(\[])")

_KINDS = {
    "title": BlockKind.TITLE,
    "sub_title": BlockKind.HEADING,
    "subtitle": BlockKind.HEADING,
    "heading": BlockKind.HEADING,
    "image_caption": BlockKind.CAPTION,
    "figure_caption": BlockKind.CAPTION,
    "table_caption": BlockKind.CAPTION,
    "caption": BlockKind.CAPTION,
    "table_footnote": BlockKind.FOOTNOTE,
    "image_footnote": BlockKind.FOOTNOTE,
    "footnote": BlockKind.FOOTNOTE,
    "header": BlockKind.RUNNING_HEAD,
    "footer": BlockKind.RUNNING_FOOT,
    "page_number": BlockKind.FOLIO,
    "equation": BlockKind.FORMULA,
    "formula": BlockKind.FORMULA,
    "table": BlockKind.TABLE,
    "image": BlockKind.FIGURE,
    "figure": BlockKind.FIGURE,
    "chart": BlockKind.FIGURE,
    "code": BlockKind.CODE,
    "text": BlockKind.PARAGRAPH,
    "list": BlockKind.PARAGRAPH,
    "abstract": BlockKind.PARAGRAPH,
    "reference": BlockKind.PARAGRAPH,
}


@dataclass(frozen=True, slots=True)
class Region:
    """One region as the model wrote it; `boxes` in pixels of the image it saw."""

    label: str
    boxes: tuple[BBox, ...]
    text: str


def parse(raw: str, size_px: tuple[int, int]) -> tuple[Block, ...]:
    """The blocks of a page, in the model's reading order.

    Args:
        raw: All the text the model generated.
        size_px: Width and height of the image it was shown; boxes are in its pixels.
    """
    blocks: list[Block] = []
    for region in regions(raw, size_px):
        blocks.extend(_blocks(region, size_px))
    return tuple(blocks)


def regions(raw: str, size_px: tuple[int, int]) -> Iterator[Region]:
    """The regions, text before or without any mark as one without a box."""
    head, *chunks = raw.split(_REF)
    if head.strip():
        yield Region("", (), _unmarked(head))
    for chunk in chunks:
        yield _region(chunk, size_px)


def _region(chunk: str, size_px: tuple[int, int]) -> Region:
    label, mark, rest = chunk.partition(_REF_END)
    if not mark:
        # Without its end mark a label ends at the box, or with its line.
        end = chunk.find(_DET)
        end = end if end >= 0 else (chunk + "\n").index("\n")
        label, rest = chunk[:end], chunk[end:]
    before, mark, behind = rest.partition(_DET)
    if not mark:
        return _named(label, (), rest)
    inside, mark, text = behind.partition(_DET_END)
    if not mark:
        numbers = re.match(r"[\s\[\]\d.,-]*", behind)
        end = numbers.end() if numbers else 0
        inside, text = behind[:end], behind[end:]
    return _named(label, _boxes(inside, size_px), before + text)


def _named(label: str, boxes: tuple[BBox, ...], text: str) -> Region:
    name = _unmarked(label).strip()
    text = _unmarked(text)
    if name.lower() not in _KINDS and not text.strip():
        # Grounded words instead of a label: the words are the text.
        return Region("", boxes, name)
    return Region(name.lower(), boxes, text)


def _unmarked(text: str) -> str:
    return _MARKS.sub("", text)


def _boxes(text: str, size_px: tuple[int, int]) -> tuple[BBox, ...]:
    numbers = [float(match) for match in _NUMBER.findall(text[: 40 * _MAX_BOXES])]
    boxes = []
    for start in range(0, len(numbers) - 3, 4):
        x1, y1, x2, y2 = (min(max(value, 0.0), _FULL) / _FULL for value in numbers[start:][:4])
        width, height = size_px
        left, right = sorted((x1 * width, x2 * width))
        top, bottom = sorted((y1 * height, y2 * height))
        boxes.append(BBox(left, top, right, bottom))
    return tuple(boxes[:_MAX_BOXES])


def _blocks(region: Region, size_px: tuple[int, int]) -> Iterator[Block]:
    kind = _KINDS.get(region.label, BlockKind.PARAGRAPH)
    box = _around(region.boxes) or BBox(0.0, 0.0, float(size_px[0]), float(size_px[1]))
    if kind is BlockKind.FIGURE:
        caption = plain(_PICTURE.sub(r"\1", region.text)).strip()
        for place, one in enumerate(region.boxes):
            yield Block(kind, one, text=caption if place == 0 else "")
        if not region.boxes and caption:
            yield Block(BlockKind.PARAGRAPH, box, text=caption)
        return
    if kind is BlockKind.CODE:
        yield from _some(Block(kind, box, text=_unfenced(region.text), style={"aligned": True}))
        return
    yield from _spread(list(_pieces(kind, region.text)), box)


def _around(boxes: tuple[BBox, ...]) -> BBox | None:
    if not boxes:
        return None
    return BBox(
        min(box.left for box in boxes),
        min(box.top for box in boxes),
        max(box.right for box in boxes),
        max(box.bottom for box in boxes),
    )


def _some(block: Block) -> Iterator[Block]:
    if block.text.strip() or block.table is not None:
        yield block


def _spread(pieces: list[Block], box: BBox) -> Iterator[Block]:
    """The pieces of one region, each with its share of the region's height.

    The model gives one box for, say, a whole list; items take shares by length.
    """
    pieces = [piece for piece in pieces if piece.text.strip() or piece.table is not None]
    weights = [1 + piece.text.count("\n") + len(piece.text) // 80 for piece in pieces]
    total, done = sum(weights), 0
    for piece, weight in zip(pieces, weights, strict=True):
        top = box.top + box.height * done / total
        done += weight
        bottom = box.top + box.height * done / total
        yield replace(piece, bbox=BBox(box.left, top, box.right, bottom))


_NOWHERE = BBox(0.0, 0.0, 0.0, 0.0)


def _pieces(kind: BlockKind, text: str) -> Iterator[Block]:
    """A region's text cut into tables, formulas, headings, items and paragraphs."""
    position = 0
    for match in _TABLE.finditer(text):
        yield from _formulas(_beside_table(kind), text[position : match.start()])
        table = parse_table(match.group())
        if table is not None:
            cells = tuple(replace(cell, text=plain(cell.text)) for cell in table.cells)
            yield Block(BlockKind.TABLE, _NOWHERE, table=replace(table, cells=cells))
        position = match.end()
    yield from _formulas(kind if not position else _beside_table(kind), text[position:])


def _beside_table(kind: BlockKind) -> BlockKind:
    return BlockKind.PARAGRAPH if kind is BlockKind.TABLE else kind


def _formulas(kind: BlockKind, text: str) -> Iterator[Block]:
    position = 0
    for match in _FORMULA.finditer(text):
        yield from _lines(kind, text[position : match.start()])
        latex = (match.group(1) or match.group(2)).strip()
        yield Block(BlockKind.FORMULA, _NOWHERE, text=latex)
        position = match.end()
    rest = text[position:]
    if kind is BlockKind.FORMULA and not position:
        latex = rest.strip().removeprefix("\\(").removesuffix("\\)").strip("$ \n")
        yield Block(kind, _NOWHERE, text=latex)
        return
    yield from _lines(BlockKind.PARAGRAPH if kind is BlockKind.FORMULA else kind, rest)


def _lines(kind: BlockKind, text: str) -> Iterator[Block]:
    if kind is BlockKind.TABLE:
        kind = BlockKind.PARAGRAPH
    for paragraph in re.split(r"\n[ \t]*\n", _BREAK.sub("\n", text)):
        gathered: list[str] = []
        lines = paragraph.split("\n")
        lettered = sum(bool(_LETTERED.match(line)) for line in lines) > 1
        for line in lines:
            # "J. Doe" begins like an item, but only several letters make a list.
            initial = _LETTERED.match(line) and not lettered
            own = None if initial else _own_block(kind, line)
            if own is None:
                gathered.append(line)
                continue
            yield from _joined(kind, gathered)
            gathered = []
            yield own
        yield from _joined(kind, gathered)


def _own_block(kind: BlockKind, line: str) -> Block | None:
    """The block a line makes by itself: a heading or a list item."""
    heading = _HEADING.match(line.strip())
    if heading and kind in (BlockKind.PARAGRAPH, BlockKind.HEADING, BlockKind.TITLE):
        title = kind is BlockKind.TITLE and len(heading.group(1)) == 1
        level = len(heading.group(1))
        own = BlockKind.TITLE if title else BlockKind.HEADING
        return Block(own, _NOWHERE, text=plain(heading.group(2)), level=level)
    item = _ITEM.match(line) if kind is BlockKind.PARAGRAPH else None
    if item:
        indent = len(item.group(1).expandtabs(4))
        return Block(
            BlockKind.LIST_ITEM,
            _NOWHERE,
            text=plain(item.group(3)),
            level=min(6, indent // 2),
            marker="•" if not item.group(2).strip("().").isalnum() else item.group(2),
        )
    return None


_SHORT_LINE = 60


def _joined(kind: BlockKind, lines: list[str]) -> Iterator[Block]:
    kept = [plain(line).strip() for line in lines if line.strip() and not _FENCE.match(line)]
    kept = [line for line in kept if line]
    if not kept:
        return
    if kind is BlockKind.PARAGRAPH and len(kept) > 1 and max(map(len, kept)) <= _SHORT_LINE:
        # The model writes a paragraph in one line; short lines are breaks of the page
        # itself: an address, a receipt, a list without marks.
        yield Block(BlockKind.CODE, _NOWHERE, text="\n".join(kept))
        return
    level = 1 if kind is BlockKind.TITLE else 2 if kind is BlockKind.HEADING else None
    yield Block(kind, _NOWHERE, text=" ".join(kept), level=level)


def _unfenced(text: str) -> str:
    lines = [line for line in text.strip("\n").split("\n") if not _FENCE.match(line)]
    return html.unescape("\n".join(lines))


def plain(markdown: str) -> str:
    r"""Inline Markdown as plain text; formulas stay, as `\(…\)`."""
    parts = []
    for place, part in enumerate(re.split(r"(\\\(.+?\\\))", markdown)):
        parts.append(part if place % 2 else _plain_words(part))
    return "".join(parts)


def _plain_words(text: str) -> str:
    text = _BREAK.sub(" ", text)
    text = _TAG.sub("", text)
    text = _PICTURE.sub(r"\1", text)
    text = _EMPHASIS.sub(r"\2", text)
    text = _STAR.sub(r"\1", text)
    text = _INLINE_DOLLAR.sub(r"\\(\1\\)", text)
    text = _ESCAPED.sub(r"\1", text)
    return html.unescape(text)
