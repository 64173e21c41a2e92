"""Writes the pages of a document as CommonMark with GFM tables."""

from __future__ import annotations

from collections.abc import Sequence

from ocr.document import Page
from ocr.options import MarkdownOptions


def render_markdown(pages: Sequence[Page], options: MarkdownOptions) -> str:
    """The whole document as Markdown."""
    parts: list[str] = []
    for page in pages:
        if options.page_separator != "none":
            parts.append(f"<!-- page {page.page_index + 1} -->")
        parts.extend(block.text for block in page.blocks if block.text)
    return "\n\n".join(parts) + "\n"
