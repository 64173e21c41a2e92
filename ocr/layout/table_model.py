"""What the table builders share: pieces of text, splitting, finished tables."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ocr.document import BBox, Block, BlockKind, Cell, Line, Table
from ocr.layout.boxes import union
from ocr.layout.ruling import Rules
from ocr.layout.textlines import TextLine, rows_of
from ocr.markdown.joining import join_lines


@dataclass(frozen=True, slots=True)
class TableArea:
    """Where a table may be, and what speaks for one.

    `lines` are the text lines inside; `support` is 0..1: how sure rules or the
    layout model are that this is a table at all.
    """

    bbox: BBox
    lines: tuple[TextLine, ...]
    rules: Rules
    support: float = 0.0


@dataclass(slots=True)
class Slot:
    """One cell while the table is being built."""

    row: int
    column: int
    row_span: int = 1
    column_span: int = 1
    pieces: tuple[TextLine, ...] = ()
    header: bool = False


def cell_text(pieces: Sequence[TextLine]) -> str:
    """The text of a cell of one or more lines."""
    return join_lines(" ".join(p.text.strip() for p in row) for row in rows_of(pieces))


def make_table(slots: Sequence[Slot], rows: int, columns: int) -> Table:
    """The finished table; empty positions become empty cells."""
    covered: set[tuple[int, int]] = set()
    cells: list[Cell] = []
    for slot in sorted(slots, key=lambda item: (item.row, item.column)):
        box = union(slot.pieces) if slot.pieces else None
        cells.append(
            Cell(
                slot.row,
                slot.column,
                cell_text(slot.pieces),
                slot.row_span,
                slot.column_span,
                header=slot.header,
                bbox=box,
            )
        )
        covered.update(
            (slot.row + down, slot.column + across)
            for down in range(slot.row_span)
            for across in range(slot.column_span)
        )
    cells.extend(
        Cell(row, column, "")
        for row in range(rows)
        for column in range(columns)
        if (row, column) not in covered
    )
    return Table(rows, columns, tuple(sorted(cells, key=lambda cell: (cell.row, cell.column))))


def table_block(table: Table, lines: Sequence[TextLine]) -> Block:
    """The TABLE block; `text` is its cells, tabs between them."""
    texts = "\n".join(
        "\t".join(cell.text for cell in table.cells if cell.row == row) for row in range(table.rows)
    )
    return Block(
        BlockKind.TABLE,
        union(item.line.bbox for item in lines),
        texts,
        mean_confidence(lines),
        table=table,
        lines=whole_lines(lines),
    )


def aligned_block(lines: Sequence[TextLine]) -> Block:
    """A CODE block whose spaces put every piece where it stands on the page."""
    left = min(item.left for item in lines)
    letter = statistics.median(item.width / max(1, len(item.text.strip())) for item in lines)
    rows: list[str] = []
    for row in rows_of(lines):
        text = ""
        for piece in row:
            column = round((piece.left - left) / max(1.0, letter))
            gap = max(column - len(text), 2 if text else 0)
            text += " " * gap + piece.text.strip()
        rows.append(text)
    return Block(
        BlockKind.CODE,
        union(item.line.bbox for item in lines),
        "\n".join(rows),
        mean_confidence(lines),
        lines=whole_lines(lines),
        style={"aligned": True},
    )


def mean_confidence(lines: Sequence[TextLine]) -> float:
    """Confidence of the letters' mean, 0..1."""
    letters = sum(max(1, len(item.text)) for item in lines)
    return round(sum(item.line.confidence * max(1, len(item.text)) for item in lines) / letters, 4)


def whole_lines(lines: Sequence[TextLine]) -> tuple[Line, ...]:
    """The document lines behind text lines."""
    return tuple(item.line for item in lines)


def split_piece(piece: TextLine, at: float) -> tuple[TextLine, TextLine] | None:
    """A piece cut in two at `at` pixels, between words where words are known."""
    words = piece.line.words
    if words:
        left = [word for word in words if (word.bbox.left + word.bbox.right) / 2 < at]
        right = [word for word in words if (word.bbox.left + word.bbox.right) / 2 >= at]
        astride = next(
            (
                word
                for word in words
                if word.bbox.left + 0.2 * word.bbox.width
                < at
                < word.bbox.right - 0.2 * word.bbox.width
            ),
            None,
        )
        if astride is not None:
            halves = _split_word(astride, at)
            left = [*[word for word in left if word is not astride], halves[0]]
            right = [halves[1], *[word for word in right if word is not astride]]
        if not left or not right:
            return None
        return _part(piece, left), _part(piece, right)
    halves = _split_word(piece.line, at)
    if not halves[0].text.strip() or not halves[1].text.strip():
        return None
    return _part(piece, [halves[0]]), _part(piece, [halves[1]])


def _split_word(word: Line, at: float) -> tuple[Line, Line]:
    """A word cut near `at`, preferably where letters, digits and marks change."""
    share = (at - word.bbox.left) / max(1.0, word.bbox.width)
    guess = round(share * len(word.text))
    places = range(1, len(word.text))
    best = min(
        places,
        key=lambda index: abs(index - guess) - (1.6 if _seam(word.text, index) else 0.0),
        default=len(word.text),
    )
    left, right = word.text[:best].strip(), word.text[best:].strip()
    box = word.bbox
    return (
        replace(word, text=left, bbox=BBox(box.left, box.top, at, box.bottom), words=()),
        replace(word, text=right, bbox=BBox(at, box.top, box.right, box.bottom), words=()),
    )


def _seam(text: str, index: int) -> bool:
    before, after = text[index - 1], text[index]
    return before in ")]%" or before.isspace() or after.isspace() or after in "(["


def _part(piece: TextLine, words: Sequence[Line]) -> TextLine:
    box = union(word.bbox for word in words)
    text = " ".join(word.text for word in words)
    line = replace(
        piece.line,
        text=text,
        bbox=BBox(box.left, piece.line.bbox.top, box.right, piece.line.bbox.bottom),
        words=tuple(words) if piece.line.words else (),
    )
    return replace(piece, line=line, left=box.left, right=box.right)
