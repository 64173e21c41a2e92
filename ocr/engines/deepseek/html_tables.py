"""The model's HTML tables as grids of cells, whatever state the HTML is in."""

from __future__ import annotations

from html.parser import HTMLParser

from ocr.document import Cell, Table

_MAX_ROWS = 2_000
_MAX_COLUMNS = 200


def parse_table(html: str) -> Table | None:
    """The table in a piece of HTML; None when it holds no cell.

    Unclosed tags are closed where HTML would, spans are cut at the grid's
    edges, a cell that would cover another is moved to the next free place, and
    tables inside a cell become that cell's text.
    """
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.table()


class _Raw:
    """A cell as written: its text parts, spans and whether it is a heading."""

    def __init__(self, attributes: dict[str, str | None], *, header: bool) -> None:
        self.parts: list[str] = []
        self.row_span = _span(attributes.get("rowspan"), _MAX_ROWS)
        self.column_span = _span(attributes.get("colspan"), _MAX_COLUMNS)
        self.header = header


def _span(value: str | None, most: int) -> int:
    text = (value or "").strip()
    if not (text.isascii() and text.isdigit()) or len(text) > 6:
        return 1
    return min(max(1, int(text)), most)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._rows: list[list[_Raw]] = []
        self._cell: _Raw | None = None
        self._depth = 0
        self._head = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._depth += 1
        elif tag == "br" and self._cell is not None:
            self._cell.parts.append("\n")
        elif self._depth > 1 and self._cell is not None:
            self._cell.parts.append(" ")
        elif tag == "thead":
            self._head = True
        elif tag == "tr":
            self._cell = None
            self._rows.append([])
        elif tag in ("td", "th"):
            if not self._rows:
                self._rows.append([])
            self._cell = _Raw(dict(attrs), header=tag == "th" or self._head)
            self._rows[-1].append(self._cell)

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._depth = max(0, self._depth - 1)
        if self._depth > 1:
            return
        if tag == "thead":
            self._head = False
        if tag in ("td", "th", "tr", "table"):
            self._cell = None

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.parts.append(data)

    def table(self) -> Table | None:
        rows = [row for row in self._rows if row][:_MAX_ROWS]
        taken: set[tuple[int, int]] = set()
        cells: list[Cell] = []
        for row, raws in enumerate(rows):
            column = 0
            for raw in raws:
                while (row, column) in taken:
                    column += 1
                if column >= _MAX_COLUMNS:
                    break
                cell = _placed(raw, row, column, len(rows), taken)
                cells.append(cell)
                taken.update(
                    (row + down, column + across)
                    for down in range(cell.row_span)
                    for across in range(cell.column_span)
                )
        if not cells:
            return None
        columns = max(cell.column + cell.column_span for cell in cells)
        return Table(len(rows), columns, tuple(cells))


def _placed(raw: _Raw, row: int, column: int, rows: int, taken: set[tuple[int, int]]) -> Cell:
    across = 1
    most = min(raw.column_span, _MAX_COLUMNS - column)
    while across < most and (row, column + across) not in taken:
        across += 1
    down = 1
    while down < min(raw.row_span, rows - row) and not any(
        (row + down, column + place) in taken for place in range(across)
    ):
        down += 1
    text = " ".join("".join(raw.parts).split())
    return Cell(row, column, text, row_span=down, column_span=across, header=raw.header)
