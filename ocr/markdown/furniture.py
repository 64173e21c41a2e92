"""Running heads, feet and folios that repeat over the document.

A page alone cannot tell a running head from a line of text, so on a document
of one page they stay in the text; from two pages on, what repeats at the same
place (numbers apart) or counts up with the pages is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from ocr.document import Block, BlockKind, Page

FURNITURE = (BlockKind.RUNNING_HEAD, BlockKind.RUNNING_FOOT, BlockKind.FOLIO)
_ALIKE = 0.84
# Only so many pages on either side are compared: heads change with chapters,
# and a document of thousands of pages must not take quadratic time.
_REACH = 4


def left_out(pages: Sequence[Page]) -> set[int]:
    """`id()` of every block that is page furniture and not text."""
    marginal = [_marginal(page) for page in pages]
    dropped: set[int] = set()
    for index, blocks in enumerate(marginal):
        near = [
            (offset, other)
            for offset in range(-_REACH, _REACH + 1)
            if offset and 0 <= index + offset < len(pages)
            for other in marginal[index + offset]
        ]
        for block in blocks:
            votes = {offset for offset, other in near if _repeats(block, other, offset)}
            needed = 1 if block.kind in FURNITURE else min(3, len(pages) - 1)
            if len(votes) >= needed and (block.kind in FURNITURE or len(pages) > 2):
                dropped.add(id(block))
    return dropped


def _marginal(page: Page) -> list[Block]:
    """What stands at the page's head or foot and could be furniture."""
    furniture = [block for block in page.blocks if block.kind in FURNITURE]
    others = [block for block in page.blocks if block.kind not in FURNITURE and block.text]
    ends = [*others[:1], *others[-1:]] if len(others) > 2 else []
    height = page.size_px[1] or 1
    edge = [
        block
        for block in ends
        if len(block.text) < 120
        and (block.bbox.top < 0.1 * height or block.bbox.top > 0.9 * height)
    ]
    return furniture + edge


def _repeats(block: Block, other: Block, offset: int) -> bool:
    if block.kind is BlockKind.FOLIO and other.kind is BlockKind.FOLIO:
        return _counts_up(block.text, other.text, offset)
    a, b = _skeleton(block.text), _skeleton(other.text)
    if not a or not b:
        return False
    return a == b or SequenceMatcher(None, a, b, autojunk=False).ratio() > _ALIKE


def _counts_up(text: str, other: str, offset: int) -> bool:
    a, b = _number(text), _number(other)
    return a is not None and b is not None and b - a == offset


def _number(text: str) -> int | None:
    match = re.search(r"\d+", text)
    if match is not None:
        return int(match.group())
    roman = re.search(r"\b[ivxlc]+\b", text.lower())
    return _roman(roman.group()) if roman else None


def _roman(text: str) -> int:
    values = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
    total = 0
    for char, following in zip(text, [*text[1:], ""], strict=True):
        value = values[char]
        total += -value if values.get(following, 0) > value else value
    return total


def _skeleton(text: str) -> str:
    return re.sub(r"\d+", "#", re.sub(r"\s+", "", text)).lower()
