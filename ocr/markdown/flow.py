"""The document as one sequence: paragraphs and tables joined over breaks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ocr.document import Block, BlockKind, Cell, Page, PageStatus, Table
from ocr.markdown.furniture import FURNITURE, left_out
from ocr.markdown.joining import join_pair

_FLOATS = (BlockKind.FIGURE, BlockKind.CAPTION, BlockKind.FOOTNOTE)
_ENDED = re.compile(r"[.!?:;。！？：；…][\"'”’»)\]]*\s*$")


@dataclass(slots=True)
class Piece:
    """One block to be written, or the beginning of a page (`block` None).

    `parts` are the texts of one paragraph; where `breaks` holds a page for a
    part, the page begins between that part and the one before it.
    """

    page: Page
    block: Block | None = None
    parts: list[tuple[Block, str]] = field(default_factory=list)
    breaks: dict[int, Page] = field(default_factory=dict)


def document_flow(pages: Sequence[Page]) -> list[Piece]:
    """Page beginnings and blocks in the order in which they are written."""
    dropped = left_out(pages)
    pieces: list[Piece] = []
    for page in pages:
        start = Piece(page)
        pieces.append(start)
        for block in page.blocks:
            if id(block) in dropped:
                continue
            if not _join_on(pieces, start, page, block):
                pieces.append(Piece(page, block, [(block, block.text)]))
    return pieces


def _join_on(pieces: list[Piece], start: Piece, page: Page, block: Block) -> bool:
    """Joins `block` to an open paragraph or table before it, if it goes on there."""
    if page.status is not PageStatus.OK:
        return False
    open_piece = _last_open(pieces, block)
    if open_piece is None or open_piece.block is None:
        return False
    new_page = open_piece.page is not page and pieces[-1] is not open_piece
    if new_page and _starts_since(pieces, open_piece) != [start]:
        return False
    if block.kind is BlockKind.TABLE:
        return _join_table(pieces, open_piece, block) if new_page else False
    if not _goes_on(open_piece, block, new_page=new_page):
        return False
    if new_page:
        open_piece.breaks[len(open_piece.parts)] = page
        pieces.remove(start)
    open_piece.parts.append((block, block.text))
    return True


def _starts_since(pieces: Sequence[Piece], piece: Piece) -> list[Piece]:
    position = next(i for i, other in enumerate(pieces) if other is piece)
    return [other for other in pieces[position + 1 :] if other.block is None]


def _last_open(pieces: Sequence[Piece], block: Block) -> Piece | None:
    """The block of the same kind before this one, floats and furniture passed over."""
    for piece in reversed(pieces):
        if piece.block is None or piece.block.kind in FURNITURE:
            continue
        if piece.block.kind is block.kind and block.kind in (BlockKind.PARAGRAPH, BlockKind.TABLE):
            return piece
        if piece.block.kind not in _FLOATS:
            return None
    return None


def _goes_on(piece: Piece, block: Block, *, new_page: bool) -> bool:
    last, text = piece.parts[-1]
    style, own = last.style or {}, block.style or {}
    if not style.get("runs_on") or not text.strip() or not block.text.strip():
        return False
    if not new_page and block.bbox.top > last.bbox.bottom:
        # Straight below on the same page: layout has parted them already.
        return False
    if _ENDED.search(text) or own.get("indented"):
        return False
    sizes = float(style.get("size", 0) or 0), float(own.get("size", 0) or 0)
    if min(sizes) > 0 and max(sizes) / min(sizes) > 1.12:
        return False
    return block.text[0].isalpha() or block.text[0] in "(\"'“„«’0123456789"


def joined_text(piece: Piece) -> list[tuple[Block, str]]:
    """The parts of a paragraph with the hyphens at their seams undone.

    A word broken over a seam is given whole to the part before it.
    """
    parts = list(piece.parts)
    for index in range(len(parts) - 1):
        block, text = parts[index]
        after, rest = parts[index + 1]
        first, _, remaining = rest.partition(" ")
        joined = join_pair(text, first)
        if joined != f"{text} {first}":
            parts[index] = (block, joined)
            parts[index + 1] = (after, remaining)
    return parts


def _join_table(pieces: list[Piece], piece: Piece, block: Block) -> bool:
    first, second = piece.block.table if piece.block else None, block.table
    if first is None or second is None or first.columns != second.columns or piece.block is None:
        return False
    if not _columns_agree(piece.block, block):
        return False
    piece.block = replace(piece.block, table=_stacked(first, second))
    piece.block = replace(piece.block, lines=piece.block.lines + block.lines)
    return True


def _columns_agree(a: Block, b: Block) -> bool:
    edges_a, edges_b = _edges(a), _edges(b)
    if not edges_a or not edges_b:
        return abs(a.bbox.width - b.bbox.width) < 0.1 * max(a.bbox.width, b.bbox.width)
    width = max(a.bbox.width, b.bbox.width)
    shared = set(edges_a) & set(edges_b)
    off = [abs(edges_a[column] - edges_b[column]) for column in shared]
    return bool(off) and sum(distance < 0.06 * width for distance in off) >= 0.75 * len(off)


def _edges(block: Block) -> dict[int, float]:
    """Left edge of every column, in pixels, from its cells' boxes."""
    edges: dict[int, float] = {}
    for cell in block.table.cells if block.table else ():
        if cell.bbox is not None and cell.column_span == 1:
            edges[cell.column] = min(edges.get(cell.column, cell.bbox.left), cell.bbox.left)
    return edges


def _stacked(first: Table, second: Table) -> Table:
    skip = _repeated_header(first, second)
    moved = tuple(
        replace(cell, row=cell.row - skip + first.rows) for cell in second.cells if cell.row >= skip
    )
    return Table(first.rows + second.rows - skip, first.columns, first.cells + moved)


def _repeated_header(first: Table, second: Table) -> int:
    """How many rows at the top of `second` repeat those of `first`."""
    count = 0
    for row in range(min(3, first.rows, second.rows)):
        if _row(first, row) != _row(second, row):
            break
        count += 1
    if any(cell.row < count < cell.row + cell.row_span for cell in second.cells):
        return 0
    return count


def _row(table: Table, row: int) -> list[tuple[int, str]]:
    return sorted((cell.column, cell.text) for cell in _cells(table, row) if cell.text)


def _cells(table: Table, row: int) -> list[Cell]:
    return [cell for cell in table.cells if cell.row == row]
