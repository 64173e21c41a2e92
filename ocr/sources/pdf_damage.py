"""What is broken on a PDF page that was rendered without an error.

A renderer draws nothing where a picture cannot be decoded, so a damaged scan looks
like a blank page, or like half a page. Poppler complains about some of these; it
is silent about JPEGs that break off, whose end mark is missing then.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ocr.sources.pdf_pages import PageSize
from ocr.sources.poppler.tools import Poppler, ToolFailed

_LIST_BYTES = 1024 * 1024
MOST_TIME_S = 10.0
"""A usual page takes 10 ms."""
_LARGE_SHARE = 0.15
"""A picture that covers less of the page is no scan of it."""
_BLANK_CONTRAST = 3
_PICTURE_TROUBLE = re.compile(
    r"jpeg|dct|jpx|jp2|codestream|jbig2|flate stream|lzw|ccitt|runlength|unknown filter"
    r"|bad image|predictor|ascii85|asciihex",
    re.IGNORECASE,
)
_HARMLESS = re.compile(r"Warning|extraneous bytes", re.IGNORECASE)
_FAX_TROUBLE = re.compile(r"ccitt", re.IGNORECASE)
_FAX_ROWS = 3
"""A fax line lost in transmission is not worth a warning."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture on a page: how it is packed, its resolution, its share of the page."""

    packing: str
    ppi: float
    share: float


def list_pictures(poppler: Poppler, page_number: int, size: PageSize) -> list[Picture]:
    """The pictures on a page, stencils and masks left out; empty if poppler fails."""
    number = str(page_number)
    try:
        text = poppler.text(
            "pdfimages",
            *("-list", "-f", number, "-l", number),
            max_bytes=_LIST_BYTES,
            timeout_s=MOST_TIME_S,
        )
    except ToolFailed:
        return []
    pictures = []
    for row in text.splitlines()[2:]:
        picture = _picture(row.split(), size)
        if picture is not None:
            pictures.append(picture)
    return pictures


def _picture(fields: list[str], size: PageSize) -> Picture | None:
    # page num type width height color comp bpc enc interp object ID x-ppi y-ppi size ratio
    if len(fields) < 14 or fields[2] not in {"image", "stencil"}:
        return None
    # Inline pictures have no object number, but "[inline]" and nothing behind it.
    at = 12 if fields[10].isdigit() else 11
    try:
        width, height = int(fields[3]), int(fields[4])
        across, down = float(fields[at]), float(fields[at + 1])
    except (ValueError, IndexError):
        return None
    if min(width, height, across, down) <= 0:
        return None
    area_pt = (width * 72 / across) * (height * 72 / down)
    return Picture(fields[8], max(across, down), area_pt / (size.width_pt * size.height_pt))


def find_damage(
    poppler: Poppler, page_number: int, pictures: list[Picture], pixels: NDArray[np.uint8]
) -> tuple[str | None, bool]:
    """What is broken on the page just rendered, for a person, and whether it shows nothing.

    Args:
        poppler: Right after `render` of this page.
        page_number: From 1.
        pictures: Of this page.
        pixels: As rendered.
    """
    nothing = shows_nothing(pixels)
    large = [p for p in pictures if p.share >= _LARGE_SHARE]
    complaints = [line for line in poppler.complaints("pdftoppm") if not _HARMLESS.search(line)]
    if large and (_picture_trouble(complaints) or _jpeg_breaks_off(poppler, page_number, large)):
        return "A picture on the page is damaged or cut off", nothing
    if nothing and complaints:
        return "The page's content is damaged", nothing
    return None, nothing


def shows_nothing(pixels: NDArray[np.uint8]) -> bool:
    """Whether the whole page is of one colour."""
    # By channel and sampled first: most pages are told from a few rows.
    for part in (pixels[:: max(1, len(pixels) // 64)], pixels):
        if int(part.max()) - int(part.min()) > _BLANK_CONTRAST:
            return False
    return True


def _picture_trouble(complaints: list[str]) -> bool:
    troubles = [line for line in complaints if _PICTURE_TROUBLE.search(line)]
    fax = sum(bool(_FAX_TROUBLE.search(line)) for line in troubles)
    return len(troubles) > fax or fax >= _FAX_ROWS


def _jpeg_breaks_off(poppler: Poppler, page_number: int, large: list[Picture]) -> bool:
    if not any(picture.packing == "jpeg" for picture in large):
        return False
    try:
        files = poppler.extract_jpegs(page_number, MOST_TIME_S)
    except ToolFailed:
        return False
    # Thumbnails and logos on the same page are small; a scan is the largest file.
    largest = max(files, key=lambda file: file.stat().st_size, default=None)
    broken = largest is not None and not _has_end_mark(largest)
    for file in files:
        file.unlink()
    return broken


def _has_end_mark(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096), os.SEEK_SET)
        return b"\xff\xd9" in file.read()
