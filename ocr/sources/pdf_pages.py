"""Opening a PDF: which password fits, how many pages there are, and how large."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ocr.errors import (
    DamagedSource,
    PasswordRequired,
    SourceError,
    SourceTooLarge,
    UnsupportedSource,
)
from ocr.options import Limits
from ocr.sources.base import check_page_count
from ocr.sources.poppler.tools import Poppler, ToolFailed, ToolOutOfMemory, ToolTimeout

_CHUNK_PAGES = 500
_INFO_BYTES = 4 * 1024 * 1024
_SIZE = re.compile(r"^Page +(\d+) size: +(\S+) x (\S+) pts", re.MULTILINE)
_TURN = re.compile(r"^Page +(\d+) rot: +(-?\d+)", re.MULTILINE)
_COUNT = re.compile(r"^Pages: +(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PageSize:
    """Width and height of a page as it is shown, in points (1/72 inch)."""

    width_pt: float
    height_pt: float


def find_password(poppler: Poppler, passwords: Sequence[str]) -> None:
    """Set `poppler.password` to the first one that opens the PDF, None if it needs none.

    Raises:
        PasswordRequired: None does.
        DamagedSource, SourceTooLarge, UnsupportedSource: The PDF cannot be opened at all.
    """
    for password in (None, *passwords):
        poppler.password = password
        try:
            poppler.text("pdfinfo", max_bytes=_INFO_BYTES)
        except ToolFailed as error:
            if not _says(poppler, "incorrect password"):
                raise cannot_open(poppler, error) from error
        else:
            return
    tried = "none of the known passwords opens it" if passwords else "none is known"
    raise PasswordRequired(
        f"The PDF is protected with a password, and {tried}. Add its password to"
        " pdf_passwords in the settings, or save it without a password."
    )


def page_sizes(poppler: Poppler, limits: Limits) -> tuple[list[PageSize | None], str | None]:
    """The size of every page up to the last one that exists, and what is wrong.

    A PDF states how many pages it has, and may be wrong. What counts is which
    pages can be found: one missing in the middle is None, and if pages are missing
    at the end, a sentence says so.

    Raises:
        SourceTooLarge: More pages than the limit.
        DamagedSource: No page can be found.
    """
    sizes: list[PageSize | None] = []
    claimed = 0
    for first in range(1, limits.max_pages + 2, _CHUNK_PAGES):
        claimed, chunk = _chunk(poppler, first)
        sizes += chunk
        if first + _CHUNK_PAGES > claimed or not any(chunk):
            break
    while sizes and sizes[-1] is None:
        sizes.pop()
    check_page_count(len(sizes), limits)
    if not sizes:
        raise DamagedSource("The PDF is damaged: not one page can be found in it. Scan it again.")
    if claimed == len(sizes):
        return sizes, None
    return sizes, (
        f"The PDF says that it has {claimed} pages, but behind this page no more can be found."
    )


def _chunk(poppler: Poppler, first: int) -> tuple[int, list[PageSize | None]]:
    """How many pages the PDF claims to have, and the sizes of up to 500 of them."""
    last = first + _CHUNK_PAGES - 1
    try:
        text = poppler.text("pdfinfo", "-f", str(first), "-l", str(last), max_bytes=_INFO_BYTES)
    except ToolFailed as error:
        if first > 1:
            return first - 1, []
        raise cannot_open(poppler, error) from error
    # The last match counts: a title that imitates these lines stands above them.
    counts = _COUNT.findall(text)
    claimed = int(counts[-1]) if counts else 0
    turns = {int(number): int(turn) for number, turn in _TURN.findall(text)}
    found = dict(_sizes(text, turns))
    return claimed, [found.get(number) for number in range(first, min(last, claimed) + 1)]


def _sizes(text: str, turns: dict[int, int]) -> Iterator[tuple[int, PageSize]]:
    for number, width, height in _SIZE.findall(text):
        try:
            sides = float(width), float(height)
        except ValueError:
            continue
        # Poppler gives a page that it cannot find the size 0 x 0.
        if all(math.isfinite(side) and side > 0 for side in sides):
            if turns.get(int(number), 0) % 180 == 90:
                sides = sides[::-1]
            yield int(number), PageSize(*sides)


def _says(poppler: Poppler, words: str) -> bool:
    return any(words in line.lower() for line in poppler.complaints("pdfinfo"))


def cannot_open(poppler: Poppler, error: ToolFailed) -> SourceError:
    """The error for a PDF that poppler cannot open."""
    if isinstance(error, ToolTimeout):
        return SourceTooLarge(
            "The PDF takes too long to open; the limit is render_timeout_s in the settings."
            " Print it to a new PDF, or scan it again."
        )
    if isinstance(error, ToolOutOfMemory):
        return SourceTooLarge(
            "The PDF needs too much memory to open; the limit is render_memory_gb in the"
            " settings. Print it to a new PDF, or scan it again."
        )
    if _says(poppler, "security handler") or _says(poppler, "unsupported version/revision"):
        return UnsupportedSource(
            "The PDF is protected in a way that cannot be opened here (a certificate or a"
            " rights management system). Save it without protection."
        )
    return DamagedSource(
        "The PDF is damaged or cut off and cannot be opened. Scan or copy it again."
    )
