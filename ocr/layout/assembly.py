"""One page: lines and regions in, blocks in reading order out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ocr.document import BBox, Block, Line
from ocr.layout.blocks import PageFacts, flow_blocks
from ocr.layout.boxes import Boxed, union
from ocr.layout.figures import find_figures
from ocr.layout.furniture import part_furniture
from ocr.layout.headings import Setting
from ocr.layout.order import reading_order
from ocr.layout.receipts import is_till_roll, receipt_blocks
from ocr.layout.regions import Region
from ocr.layout.ruling import find_rules, part_underlines
from ocr.layout.tables import find_tables
from ocr.layout.textlines import TextLine, body_size, prepare
from ocr.markdown.joining import words_of
from ocr.options import ReadOptions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Atom:
    """A finished block (table, figure) that takes its place in the order."""

    block: Block
    left: float
    top: float
    right: float
    bottom: float


def assemble(
    lines: Sequence[Line],
    size_px: tuple[int, int],
    *,
    image: NDArray[np.uint8] | None,
    regions: Sequence[Region] = (),
    options: ReadOptions,
) -> tuple[Block, ...]:
    """The page's blocks in reading order; every line ends up in exactly one.

    Args:
        lines: Lines as read, or the words of a text layer, in upright pixels.
        size_px: Width and height of the upright page in pixels.
        image: The upright page, uint8 RGB, shape (height, width, 3), for rules,
            type weight and pictures; None when there is only text.
        regions: What the layout model found, in the same pixels.
        options: Reading options; layout itself has none so far.

    Returns:
        Blocks with boxes in upright pixels. `Block.style` holds the facts from
        which the Markdown writer decides heading levels over the document.
    """
    del options
    # Everything measured here is brightness; one channel is a third of the work.
    grey = None if image is None else _grey(image)
    texts = prepare(lines, grey)
    em = body_size(texts) or size_px[1] / 60
    rules, texts = part_underlines(find_rules(grey, em), texts, em)
    facts = _page_facts(texts, size_px, em, regions)
    if texts and is_till_roll(texts, em):
        return tuple(receipt_blocks(texts, em))
    tables = find_tables(texts, rules, regions, em)
    taken = {id(item) for table in tables for item in table.lines}
    free = [item for item in texts if id(item) not in taken]
    figures = find_figures(free, grey, regions, em)
    taken = {id(item) for figure in figures for item in figure.lines}
    free = [item for item in free if id(item) not in taken]
    atoms = [_atom(table.block, table.lines) for table in tables]
    atoms.extend(_atom(figure.block, [figure.block.bbox]) for figure in figures)
    head, body, foot = part_furniture(free, size_px, em, atoms)
    items: list[TextLine | Atom] = [*body, *atoms]
    flows = reading_order(items, em)
    blocks: list[Block] = []
    for index, flow in enumerate(flows):
        blocks.extend(flow_blocks(flow, facts, flows, first=index == 0))
    return (*head, *blocks, *foot)


def _grey(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    import cv2

    return image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)


def _atom(block: Block, around: Sequence[Boxed]) -> Atom:
    box = union(around)
    return Atom(block, box.left, box.top, box.right, box.bottom)


def _page_facts(
    texts: Sequence[TextLine], size_px: tuple[int, int], em: float, regions: Sequence[Region]
) -> PageFacts:
    box = union(texts) if texts else BBox(0, 0, *size_px)
    bold = sum(len(item.text) for item in texts if item.bold)
    total = sum(len(item.text) for item in texts)
    setting = Setting(em, bold > 0.6 * total, box.left, box.right, tuple(regions))
    return PageFacts(
        em=em,
        setting=setting,
        scale=(size_px[0] * size_px[1]) ** 0.5,
        height=size_px[1],
        vocabulary=words_of(item.text for item in texts),
    )
