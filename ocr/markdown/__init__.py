"""Pages of blocks become one standard Markdown text."""

from ocr.markdown.writer import render_markdown

__all__ = ["render_markdown"]
