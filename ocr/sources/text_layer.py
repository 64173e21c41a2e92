"""The words that a PDF page carries as text, with their places on the page."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ocr.document import BBox, Line
from ocr.sources.poppler.tools import Poppler

MAX_LAYER_BYTES = 16 * 1024 * 1024
"""A page of 10,000 words makes 1 MB; more than this is no page of text."""
MAX_WORDS = 50_000
_MOST_TIME_S = 15.0
"""A dense page takes 0.1 s; poppler's time grows with the square of the words."""
_TEXT_HEIGHT = 0.85
"""Poppler's boxes reach from the font's ascent to its descent, which is more than
the letters themselves."""

# Not an XML parser: poppler passes control characters through, which no XML parser
# takes, and this way no entity of the file's choosing is ever expanded.
_WORD = re.compile(
    r'<word xMin="([-\d.]+)" yMin="([-\d.]+)" xMax="([-\d.]+)" yMax="([-\d.]+)">([^<]*)</word>'
)


@dataclass(frozen=True, slots=True)
class Word:
    """A word; its box is in points of the page as shown, origin top left."""

    text: str
    bbox_pt: BBox
    bold: bool | None = None
    font: str | None = None


def read_words(poppler: Poppler, page_number: int) -> list[Word]:
    """The words of one page in the order of the layer, at most 50,000.

    Raises:
        ToolFailed: The layer cannot be read, or is larger than 16 MiB.
    """
    number = str(page_number)
    text = poppler.text(
        "pdftotext",
        *("-cropbox", "-bbox-layout", "-enc", "UTF-8", "-f", number, "-l", number),
        max_bytes=MAX_LAYER_BYTES,
        timeout_s=_MOST_TIME_S,
    )
    words = []
    for word in _parse(text):
        words.append(word)
        if len(words) == MAX_WORDS:
            break
    return words


def _parse(text: str) -> Iterator[Word]:
    for match in _WORD.finditer(text):
        try:
            left, top, right, bottom = (float(match[group]) for group in range(1, 5))
        except ValueError:
            continue
        content = html.unescape(match[5]).strip()
        if content and right > left and bottom > top:
            yield Word(content, BBox(left, top, right, bottom))


def to_lines(words: list[Word], scale_px: float, size_px: tuple[int, int]) -> tuple[Line, ...]:
    """The words as lines in pixels.

    Args:
        words: In points, their centres on the page.
        scale_px: Pixels per point.
        size_px: Width and height of the page; what sticks out is cut off.
    """
    return tuple(_line(word, scale_px, size_px) for word in words)


def _line(word: Word, scale_px: float, size_px: tuple[int, int]) -> Line:
    box, (width, height) = word.bbox_pt, size_px
    shown = BBox(
        left=max(0.0, box.left * scale_px),
        top=max(0.0, box.top * scale_px),
        right=min(float(width), box.right * scale_px),
        bottom=min(float(height), box.bottom * scale_px),
    )
    # Text that runs up or down the page has its height across.
    height_pt = box.width if stands_on_end(word) else box.height
    return Line(
        _clean(word.text),
        shown,
        height_px=height_pt * scale_px * _TEXT_HEIGHT,
        bold=word.bold,
        font=word.font,
    )


def stands_on_end(word: Word) -> bool:
    """Whether the word runs up or down the page."""
    return len(word.text) > 2 and word.bbox_pt.height > 1.5 * word.bbox_pt.width


def _clean(text: str) -> str:
    """Without soft hyphens and control characters, with ligatures taken apart."""
    for ligature, letters in _LIGATURES.items():
        text = text.replace(ligature, letters)
    return "".join(ch for ch in text if ch >= " " and ch not in "\x7f\xad\ufeff\u200b")


_LIGATURES = {
    "\ufb00": "ff",
    "\ufb01": "fi",
    "\ufb02": "fl",
    "\ufb03": "ffi",
    "\ufb04": "ffl",
    "\ufb05": "st",
    "\ufb06": "st",
}
