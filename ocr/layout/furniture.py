"""Running heads, running feet and folios: found on the page by their place.

Whether they are really left out is decided over the whole document, where it
shows whether they repeat.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ocr.document import Block, BlockKind
from ocr.layout.boxes import Boxed, union
from ocr.layout.rows import Row, make_row
from ocr.layout.textlines import TextLine, rows_of

_FOLIO = re.compile(
    r"^\W*(?:(?:page|seite|pagina|página|p\.|s\.)\s*)?(?:\d{1,4}|[ivxlc]{1,6})"
    r"(?:\s*(?:of|von|de|sur|/|-|–)\s*\d{1,4})?\W*$|^第\s*\d+\s*页.*$",
    re.IGNORECASE,
)


def is_folio(text: str) -> bool:
    """Whether the text is a page number and nothing else."""
    return _FOLIO.match(text.strip()) is not None


def part_furniture(
    texts: Sequence[TextLine], size_px: tuple[int, int], em: float, others: Sequence[Boxed] = ()
) -> tuple[list[Block], list[TextLine], list[Block]]:
    """Blocks above the text, the text, blocks below it.

    A row counts as furniture when it is the first or last of the page, near the
    edge, set off from the rest, and no larger or heavier than the body. `others`
    are tables and figures, which count as text.
    """
    rows = rows_of(texts)
    if len(rows) < 5:
        return [], list(texts), []
    height = size_px[1]
    heads: list[Row] = []
    feet: list[Row] = []
    first, second = make_row(rows[0]), make_row(rows[1])
    ceiling = min((other.top for other in others), default=float("inf"))
    floor = max((other.bottom for other in others), default=float("-inf"))
    if (
        first.bottom < ceiling
        and _is_plain(first, em)
        and first.bottom < 0.13 * height
        and second.top - first.bottom > em
    ):
        heads.append(first)
        rows = rows[1:]
    last, before = make_row(rows[-1]), make_row(rows[-2])
    gap = last.top - before.bottom
    if last.top > floor and _is_plain(last, em) and last.top > 0.87 * height and gap > 0.9 * em:
        feet.append(last)
        rows = rows[:-1]
    body = [item for row in rows for item in row]
    return (
        [block for row in heads for block in _blocks(row, BlockKind.RUNNING_HEAD)],
        body,
        [block for row in feet for block in _blocks(row, BlockKind.RUNNING_FOOT)],
    )


def _is_plain(row: Row, em: float) -> bool:
    return row.size < 1.12 * em and not row.bold and not row.underlined and len(row.text) < 140


def _blocks(row: Row, kind: BlockKind) -> list[Block]:
    blocks: list[Block] = []
    for piece in row.pieces:
        own = BlockKind.FOLIO if is_folio(piece.text) else kind
        blocks.append(
            Block(
                own,
                union([piece.line.bbox]),
                piece.text.strip(),
                piece.line.confidence,
                lines=(piece.line,),
            )
        )
    return blocks
