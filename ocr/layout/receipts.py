"""Till rolls: narrow, line by line, what is level belongs together."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ocr.document import Block, BlockKind
from ocr.layout.boxes import union
from ocr.layout.order import is_prose, typical_pitch
from ocr.layout.table_model import mean_confidence, whole_lines
from ocr.layout.textlines import TextLine, rows_of

_AMOUNT = re.compile(r"\d[.,\s]\d\d\b")


def is_till_roll(texts: Sequence[TextLine], em: float) -> bool:
    """Whether the page is a receipt: a narrow strip with amounts down its side."""
    rows = rows_of(texts)
    if len(rows) < 10 or union(texts).width > 32 * em or is_prose(texts, em):
        return False
    amounts = sum(any(_AMOUNT.search(piece.text) for piece in row) for row in rows)
    apart = sum(len(row) > 1 for row in rows)
    return amounts >= 4 and apart >= 0.25 * len(rows)


def receipt_blocks(texts: Sequence[TextLine], em: float) -> list[Block]:
    """The receipt's lines, parted into blocks where it leaves space."""
    rows = rows_of(texts)
    pitch = typical_pitch([union(row) for row in rows], em)
    groups: list[list[list[TextLine]]] = []
    for row in rows:
        step = _middle(row) - _middle(groups[-1][-1]) if groups else 0.0
        if groups and step < 1.45 * pitch:
            groups[-1].append(row)
        else:
            groups.append([row])
    return [_block(group) for group in groups]


def _middle(row: Sequence[TextLine]) -> float:
    return sum(piece.baseline for piece in row) / len(row)


def _block(rows: Sequence[Sequence[TextLine]]) -> Block:
    pieces = [piece for row in rows for piece in row]
    text = "\n".join(" ".join(piece.text.strip() for piece in row) for row in rows)
    return Block(
        BlockKind.CODE,
        union(piece.line.bbox for piece in pieces),
        text,
        mean_confidence(pieces),
        lines=whole_lines(pieces),
    )
