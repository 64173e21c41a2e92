"""What a document is once it has been read: pages of blocks, as plain data.

Everything here is frozen, holds no pixels, and survives a round trip through
JSON, because each page is journaled before the next one is read.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class BlockKind(StrEnum):
    """What a block is on the page, in the print world's words."""

    TITLE = "title"
    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST_ITEM = "list_item"
    TABLE = "table"
    FIGURE = "figure"
    CAPTION = "caption"
    FOOTNOTE = "footnote"
    FORMULA = "formula"
    CODE = "code"
    """Text whose line breaks carry meaning: code, addresses, receipts."""
    RUNNING_HEAD = "running_head"
    """Repeated line at the top of the pages; kept in JSON, left out of the flow."""
    RUNNING_FOOT = "running_foot"
    FOLIO = "folio"
    """The printed page number."""


class PageStatus(StrEnum):
    """How the reading of one page ended."""

    OK = "ok"
    BLANK = "blank"
    DAMAGED = "damaged"
    """The source holds the page, but its image is broken or incomplete."""
    FAILED = "failed"
    """The page could not be read (crash, time limit); a visible gap marks it."""
    TRUNCATED = "truncated"
    """The engine stopped before the end of the page."""


class TextOrigin(StrEnum):
    """Where the words of a page came from."""

    OCR = "ocr"
    TEXT_LAYER = "text_layer"


@dataclass(frozen=True, slots=True)
class BBox:
    """A box in pixels of the page as it was scanned, origin top left."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        """Width in pixels."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """Height in pixels."""
        return self.bottom - self.top


@dataclass(frozen=True, slots=True)
class Line:
    """One line (or one word, from a text layer) as read, before assembly.

    `bbox` is in the pixels of the page as scanned. `height_px` is the height of
    the text itself, which for a tilted line is less than the box's height.
    `confidence` is 0..1. `bold` and `italic` are None when unknown. `words` are
    the line's words from left to right with a box and confidence of their own,
    where the recogniser knows them: tables are split and uncertain words are
    marked by them.
    """

    text: str
    bbox: BBox
    confidence: float = 1.0
    height_px: float | None = None
    bold: bool | None = None
    font: str | None = None
    words: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """One table cell; `row` and `column` count from 0."""

    row: int
    column: int
    text: str
    row_span: int = 1
    column_span: int = 1
    header: bool = False
    bbox: BBox | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A grid of cells; no two cells cover the same grid position."""

    rows: int
    columns: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One region of a page.

    `text` is plain text (never Markdown, never HTML): the writer escapes it.
    For FORMULA it is LaTeX without delimiters. `level` is 1..6 for headings and the
    nesting depth (0..) for list items; `marker` is a list item's printed
    marker ("3.", "a)", "•"). `asset` is a figure's file name inside the
    document's `.assets` folder.
    """

    kind: BlockKind
    bbox: BBox
    text: str = ""
    confidence: float = 1.0
    level: int | None = None
    marker: str | None = None
    table: Table | None = None
    asset: str | None = None
    lines: tuple[Line, ...] = ()
    style: dict[str, float | bool | str] | None = None
    """Facts for whole-document decisions (text height, bold, centred ...)."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page, read. `size_px` is (width, height) of the page as scanned."""

    page_index: int
    size_px: tuple[int, int]
    dpi: float | None
    blocks: tuple[Block, ...]
    status: PageStatus = PageStatus.OK
    origin: TextOrigin = TextOrigin.OCR
    rotation_deg: float = 0.0
    """Clockwise turn that makes the scan upright, right angle plus skew."""
    engine: str = ""
    reason: str | None = None
    """For a person: why the page is damaged, failed or truncated."""
    raw: str | None = None
    """What the model itself said, before parsing (deepseek)."""
    notes: tuple[str, ...] = ()
    """What was done or noticed, for the log and the JSON (steps, warnings)."""


def page_to_dict(page: Page) -> dict[str, Any]:
    """The page as JSON-ready data, fields at their defaults left out."""
    result: dict[str, Any] = _plain(page)
    return result


def page_from_dict(data: dict[str, Any]) -> Page:
    """The page that `page_to_dict` described.

    Raises:
        KeyError, TypeError, ValueError: The data is not such a page.
    """
    values = dict(data)
    return Page(
        page_index=values.pop("page_index"),
        size_px=(values["size_px"][0], values.pop("size_px")[1]),
        dpi=values.pop("dpi"),
        blocks=tuple(_block(block) for block in values.pop("blocks")),
        status=PageStatus(values.pop("status", PageStatus.OK)),
        origin=TextOrigin(values.pop("origin", TextOrigin.OCR)),
        notes=tuple(values.pop("notes", ())),
        **values,
    )


_ALWAYS = {"page_index", "size_px", "dpi", "blocks", "kind", "bbox", "row", "column", "text"}


def _plain(value: Any) -> Any:  # noqa: ANN401 - any field's value
    if isinstance(value, BBox):
        return [round(v, 2) for v in (value.left, value.top, value.right, value.bottom)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.name in _ALWAYS
            or field.default is dataclasses.MISSING
            or getattr(value, field.name) != field.default
        }
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _bbox(data: list[float]) -> BBox:
    left, top, right, bottom = data
    return BBox(left, top, right, bottom)


def _line(data: dict[str, Any]) -> Line:
    words = tuple(_line(word) for word in data.get("words", ()))
    return Line(**{**data, "bbox": _bbox(data["bbox"]), "words": words})


def _cell(data: dict[str, Any]) -> Cell:
    box = data.get("bbox")
    return Cell(**{**data, "bbox": None if box is None else _bbox(box)})


def _table(data: dict[str, Any]) -> Table:
    return Table(data["rows"], data["columns"], tuple(_cell(cell) for cell in data["cells"]))


def _block(data: dict[str, Any]) -> Block:
    values = dict(data)
    table = values.pop("table", None)
    return Block(
        kind=BlockKind(values.pop("kind")),
        bbox=_bbox(values.pop("bbox")),
        table=None if table is None else _table(table),
        lines=tuple(_line(line) for line in values.pop("lines", ())),
        **values,
    )
