"""TIFF: any number of pages, each with its own compression and colours."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

import numpy as np
from PIL import Image
from PIL.TiffImagePlugin import TiffImageFile

from ocr.engines.base import PageImage
from ocr.errors import DamagedSource, PageError
from ocr.options import ReadOptions, TextLayer
from ocr.sources.base import Source, check_image_size, check_page_count
from ocr.sources.images import decode, page_image
from ocr.sources.pixels import quiet_pillow
from ocr.sources.sniffing import SourceKind
from ocr.sources.tiff_structure import TiffBroken, TiffDirectory, TiffTooComplex, walk_tiff

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_UPRIGHT = 1
_NAME = "This page of the TIFF file"
_PHOTOMETRIC, _STRIP_BYTES = 262, 279
_FAX = {"group3": ("group3", 0.15), "group4": ("group4", 0.8)}
"""The codes that can be packed again, and how much of the room that must take."""
_STRIP_COST_BYTES = 40
"""A strip starts from a white line, whatever stands above it."""
_SMALL_BYTES = 200


class TiffSource(Source):
    """A TIFF; thumbnails and transparency masks in it are not pages."""

    kind = SourceKind.TIFF

    def __init__(self, path: Path, options: ReadOptions) -> None:
        """List the pages of the TIFF at `path` without decoding any.

        Raises:
            DamagedSource: There is no readable page list.
            SourceTooLarge: There are too many pages.
        """
        self._path = path
        self._options = options
        directories, self._trouble = _directories(path, options)
        self._pages = [d for d in directories if d.is_page] or directories
        check_page_count(len(self._pages), options.limits)

    @property
    def page_count(self) -> int:
        """How many pages the file's chain of directories has."""
        return len(self._pages)

    def page(self, index: int) -> PageImage:
        """One page, upright. Raises `PageError` if it cannot be decoded."""
        self._check_index(index)
        directory = self._pages[index]
        size_px = (directory.width_px, directory.height_px)
        check_image_size(size_px, self._options.limits)
        trouble = self._trouble if index == len(self._pages) - 1 else None
        if self._options.text_layer is TextLayer.ONLY_TEXT:
            return PageImage(index, size_px, None, lines=(), damage=trouble)
        raw = _FileAtPage(self._path, directory.offset)
        with quiet_pillow(), io.BufferedReader(raw) as file:
            return _decoded(file, index, self._options, trouble)

    def close(self) -> None:
        """Nothing is held open between pages."""


def _decoded(file: IO[bytes], index: int, options: ReadOptions, trouble: str | None) -> PageImage:
    try:
        image = TiffImageFile(file)
    # Pillow raises nearly anything on a broken directory.
    except Exception as error:
        raise PageError(
            "This page of the TIFF file is damaged, or of a kind that cannot be read."
            " Scan the page again."
        ) from error
    with image:
        check_image_size(image.size, options.limits)
        damage = decode(image, _NAME) or _lost_rows(image)
        # Pillow has already turned it upright while decoding.
        return page_image(_positive(image), index, damage=damage or trouble, orientation=_UPRIGHT)


def _positive(image: TiffImageFile) -> Image.Image:
    """With white paper; Pillow sees to that for 1 and 8 bits only."""
    if image.mode != "I;16" or image.tag_v2.get(_PHOTOMETRIC) != 0:
        return image
    positive = Image.fromarray(65535 - np.asarray(image))
    positive.info.update(image.info)
    return positive


def _lost_rows(image: TiffImageFile) -> str | None:
    """Why rows are missing from a fax-coded page: its decoder skips what it cannot read.

    Packed again, a picture takes as much room as it came in, unless something in
    there did not make it into the picture.
    """
    if image.info.get("compression") not in _FAX or image.mode != "1":
        return None
    stored = sum(int(length) for length in image.tag_v2.get(_STRIP_BYTES, ()))
    strips = len(image.tag_v2.get(_STRIP_BYTES, ()))
    # Group 3 lines may be filled up with zeros to give a slow fax machine time.
    compression, factor = _FAX[image.info["compression"]]
    buffer = io.BytesIO()
    image.copy().save(buffer, "TIFF", compression=compression)
    if buffer.tell() >= factor * (stored - _STRIP_COST_BYTES * strips - _SMALL_BYTES):
        return None
    if image.getextrema() in {(0, 0), (255, 255)}:
        raise PageError(f"{_NAME} is damaged and shows nothing. Scan the page again.")
    return f"{_NAME} is damaged; part of it is missing. Scan it again."


def _directories(path: Path, options: ReadOptions) -> tuple[list[TiffDirectory], str | None]:
    """The directories up to the first broken one, and what is wrong behind them."""
    found: list[TiffDirectory] = []
    fd = os.open(path, os.O_RDONLY)
    try:
        for directory in walk_tiff(fd, os.fstat(fd).st_size):
            found.append(directory)
            if len(found) > 2 * options.limits.max_pages:
                break
    except (TiffBroken, TiffTooComplex) as error:
        if not found:
            raise DamagedSource(
                f"The TIFF file is damaged or cut off: {error}. Scan or copy it again."
            ) from error
        return found, f"The TIFF file is damaged behind this page: {error}."
    finally:
        os.close(fd)
    return found, None


class _FileAtPage(io.FileIO):
    """The file as if its first directory were the wanted page's.

    Pillow would walk the whole chain to reach a page, which for page 5,000 means
    reading 5,000 directories, again for each page.
    """

    def __init__(self, path: Path, directory_offset: int) -> None:
        super().__init__(path, "rb")
        header = os.pread(self.fileno(), 4, 0)
        order: Literal["little", "big"] = "little" if header[:2] == b"II" else "big"
        big = header[2:4] in {b"+\0", b"\0+"}
        self._patch_at, length = (8, 8) if big else (4, 4)
        self._patch = directory_offset.to_bytes(length, order)

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        start = self.tell()
        count = super().readinto(buffer) or 0
        view = memoryview(buffer).cast("B")
        for number, value in enumerate(self._patch, start=self._patch_at - start):
            if 0 <= number < count:
                view[number] = value
        return count
