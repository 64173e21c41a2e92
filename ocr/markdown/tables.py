"""Tables as GFM where they are rectangular, as HTML where cells span."""

from __future__ import annotations

import html
from collections.abc import Callable

from ocr.document import Cell, Table
from ocr.markdown.escape import clean, escape_cell

Mark = Callable[[str], str]


def render_table(table: Table, mark: Mark | None = None) -> str:
    """The table as Markdown.

    Args:
        table: Cells may span; positions no cell covers stay empty.
        mark: Adds marks to a cell's plain text before it is escaped, or None.
    """
    if any(cell.row_span > 1 or cell.column_span > 1 for cell in table.cells):
        return _html(table, mark)
    return _pipes(table, mark)


def _pipes(table: Table, mark: Mark | None) -> str:
    texts = {(cell.row, cell.column): _text(cell, mark) for cell in table.cells}
    rows = [
        [escape_cell(texts.get((row, column), "")) for column in range(table.columns)]
        for row in range(table.rows)
    ]
    rule = ["---"] * table.columns
    return "\n".join("| " + " | ".join(row) + " |" for row in (rows[0], rule, *rows[1:]))


def _html(table: Table, mark: Mark | None) -> str:
    lines = ["<table>"]
    for row in range(table.rows):
        cells = sorted(
            (cell for cell in table.cells if cell.row == row), key=lambda cell: cell.column
        )
        lines.append("<tr>" + "".join(_html_cell(cell, mark) for cell in cells) + "</tr>")
    return "\n".join([*lines, "</table>"])


def _html_cell(cell: Cell, mark: Mark | None) -> str:
    tag = "th" if cell.header else "td"
    spans = ""
    if cell.row_span > 1:
        spans += f' rowspan="{cell.row_span}"'
    if cell.column_span > 1:
        spans += f' colspan="{cell.column_span}"'
    return f"<{tag}{spans}>{html.escape(clean(_text(cell, mark)), quote=False)}</{tag}>"


def _text(cell: Cell, mark: Mark | None) -> str:
    return cell.text if mark is None else mark(cell.text)
