"""Heading levels, decided over the whole document.

Larger is higher, and among equals bold is higher; a title above everything else
on the first page is alone on level 1; numbering overrules type, so that "2.1"
is always one below "2".
"""

from __future__ import annotations

from collections.abc import Sequence

from ocr.document import Block, BlockKind

_SAME_SIZE = 1.07
_LOWEST = 6

HEADINGS = (BlockKind.TITLE, BlockKind.HEADING)


def heading_levels(blocks: Sequence[Block]) -> dict[int, int]:
    """Level 1..6 by `id()` of every heading among the blocks of a document.

    A block that brings its own `level` and no style facts keeps that level.
    """
    headings = [block for block in blocks if block.kind in HEADINGS]
    measured = [block for block in headings if block.style and "size" in block.style]
    levels = {
        id(block): _own_level(block) for block in headings if not (block.style or {}).get("size")
    }
    levels.update(_by_type(measured))
    _by_numbering(measured, levels)
    return levels


def _own_level(block: Block) -> int:
    if block.kind is BlockKind.TITLE:
        return 1
    return min(_LOWEST, max(1, block.level or 2))


def _by_type(headings: Sequence[Block]) -> dict[int, int]:
    ranked = sorted(headings, key=_rank)
    levels: dict[int, int] = {}
    level = 0
    previous: Block | None = None
    for block in ranked:
        if previous is None or not _same_style(previous, block):
            level += 1
            previous = block
        levels[id(block)] = min(_LOWEST, level)
    return levels


def _rank(block: Block) -> tuple[bool, float, bool]:
    return (block.kind is not BlockKind.TITLE, -_size(block), not _fact(block, "bold"))


def _same_style(a: Block, b: Block) -> bool:
    return (
        a.kind is b.kind
        and _size(a) / _size(b) < _SAME_SIZE
        and _fact(a, "bold") == _fact(b, "bold")
    )


def _by_numbering(headings: Sequence[Block], levels: dict[int, int]) -> None:
    numbered = [block for block in headings if _depth(block)]
    if len(numbered) < 2:
        return
    shallowest = min(_depth(block) for block in numbered)
    base = min(levels[id(block)] for block in numbered if _depth(block) == shallowest)
    for block in numbered:
        levels[id(block)] = min(_LOWEST, base + _depth(block) - shallowest)


def _size(block: Block) -> float:
    return float((block.style or {}).get("size", 0.0)) or 1e-6


def _fact(block: Block, name: str) -> bool:
    return bool((block.style or {}).get(name, False))


def _depth(block: Block) -> int:
    return int(float((block.style or {}).get("numbering", 0)))
