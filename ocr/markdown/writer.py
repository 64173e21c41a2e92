"""Writes the pages of a document as CommonMark with GFM tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import quote

from ocr.document import Block, BlockKind, Page, PageStatus
from ocr.markdown.escape import (
    clean,
    escape_heading,
    escape_inline,
    escape_line,
    escape_start,
    fence,
    safe_maths,
)
from ocr.markdown.flow import Piece, document_flow, joined_text
from ocr.markdown.levels import HEADINGS, heading_levels
from ocr.markdown.lists import list_lines
from ocr.markdown.tables import render_table
from ocr.markdown.uncertain import MARK, uncertain_positions, uncertain_words
from ocr.options import MarkdownOptions

_GAPS = {
    PageStatus.FAILED: "could not be read",
    PageStatus.DAMAGED: "is damaged",
    PageStatus.TRUNCATED: "was not read to its end",
}


def render_markdown(pages: Sequence[Page], options: MarkdownOptions) -> str:
    """The whole document as Markdown.

    Heading levels, running heads, and paragraphs and tables that go on over a
    page break are decided here, over all pages. No text of the document can
    become HTML, a link, a heading, a list or a table by accident. Every page
    begins with `<!-- page N -->` (inside the paragraph where one runs on over
    the break); a page that could not be read leaves a visible line. Cells that
    span make a table HTML, which pandoc keeps on the way to HTML, not to DOCX
    (go through HTML there).

    Args:
        pages: In order; numbers come from `page_index`.
        options: Separator, marks for uncertain words (`word[?]`), assets folder.
    """
    return _Writer(pages, options).text()


class _Writer:
    def __init__(self, pages: Sequence[Page], options: MarkdownOptions) -> None:
        self.pages = pages
        self.options = options
        self.levels = heading_levels([block for page in pages for block in page.blocks])
        self.parts: list[str] = []

    def text(self) -> str:
        pieces = document_flow(self.pages)
        index = 0
        while index < len(pieces):
            index += self._write(pieces, index)
        return "\n\n".join(part for part in self.parts if part) + "\n" if self.parts else ""

    def _write(self, pieces: Sequence[Piece], index: int) -> int:
        piece = pieces[index]
        if piece.block is None:
            self._page_start(piece.page)
        elif piece.block.kind is BlockKind.LIST_ITEM:
            run = [piece.block]
            for after in pieces[index + 1 :]:
                if after.block is None or after.block.kind is not BlockKind.LIST_ITEM:
                    break
                run.append(after.block)
            self.parts.append("\n".join(list_lines(run, self._inline)))
            self._page_end(pieces, index + len(run) - 1)
            return len(run)
        else:
            self.parts.append(self._block(piece))
        self._page_end(pieces, index)
        return 1

    def _page_start(self, page: Page) -> None:
        if self.options.page_separator == "rule" and self.parts:
            self.parts.append("---")
        if self.options.page_separator != "none":
            self.parts.append(f"<!-- page {page.page_index + 1} -->")
        if page.status in (PageStatus.FAILED, PageStatus.DAMAGED):
            self.parts.append(_gap_line(page))

    def _page_end(self, pieces: Sequence[Piece], index: int) -> None:
        page = pieces[index].page
        last = index + 1 == len(pieces) or pieces[index + 1].page is not page
        if last and page.status is PageStatus.TRUNCATED:
            self.parts.append(_gap_line(page))

    def _block(self, piece: Piece) -> str:
        block = piece.block
        if block is None:
            return ""
        writers: dict[BlockKind, Callable[[Block], str]] = {
            BlockKind.TABLE: self._table,
            BlockKind.FIGURE: self._figure,
            BlockKind.FORMULA: _formula,
            BlockKind.CODE: self._kept_lines,
        }
        if block.kind in HEADINGS:
            return self._heading(block)
        writer = writers.get(block.kind)
        return writer(block) if writer is not None else self._paragraph(piece)

    def _heading(self, block: Block) -> str:
        text = escape_heading(block.text)
        return "#" * self.levels[id(block)] + " " + text if text else ""

    def _paragraph(self, piece: Piece) -> str:
        written: list[str] = []
        for position, (block, text) in enumerate(joined_text(piece)):
            page = piece.breaks.get(position)
            if page is not None and self.options.page_separator != "none":
                written.append(f"<!-- page {page.page_index + 1} -->")
            written.append(self._inline(block, text))
        return escape_start(" ".join(part for part in written if part))

    def _inline(self, block: Block, text: str) -> str:
        """Inline Markdown of a block's text, uncertain words marked."""
        threshold = self.options.mark_uncertain
        if threshold is None:
            return escape_inline(clean(text))
        doubtful = uncertain_positions(block, text, threshold)
        if not doubtful:
            return escape_inline(clean(text))
        marked = escape_inline(clean(_marked(text, doubtful))).replace(_PLACEHOLDER, MARK)
        return marked

    def _kept_lines(self, block: Block) -> str:
        if (block.style or {}).get("aligned"):
            return fence(block.text)
        lines = [escape_line(line) for line in block.text.splitlines() if line.strip()]
        return "  \n".join(lines)

    def _table(self, block: Block) -> str:
        if block.table is None:
            return self._kept_lines(block)
        threshold = self.options.mark_uncertain
        if threshold is None:
            return render_table(block.table)
        doubtful = uncertain_words(block, threshold)
        text = render_table(
            block.table,
            lambda cell: " ".join(
                word + _PLACEHOLDER if doubtful[word] else word for word in cell.split()
            ),
        )
        return text.replace(_PLACEHOLDER, MARK)

    def _figure(self, block: Block) -> str:
        if block.asset is None or self.options.assets_name is None:
            return self._kept_lines(block)
        target = "/".join(quote(part, safe="") for part in (self.options.assets_name, block.asset))
        label = escape_inline(clean(block.text)).replace("]", "\\]").replace("[", "\\[")
        return f"![{label or 'Figure'}]({target})"


# Private-use character: stands for the mark until the text is escaped.
_PLACEHOLDER = "\ue0ff"


def _marked(text: str, doubtful: set[int]) -> str:
    return " ".join(
        word + _PLACEHOLDER if index in doubtful else word
        for index, word in enumerate(text.split())
    )


def _gap_line(page: Page) -> str:
    reason = escape_inline(clean(page.reason or "no reason is known")).replace("]", "\\]")
    return f"> **[Page {page.page_index + 1} {_GAPS[page.status]}: {reason}]**"


def _formula(block: Block) -> str:
    latex = safe_maths(block.text)
    return f"$$\n{latex}\n$$" if latex else ""
