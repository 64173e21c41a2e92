"""HEIC and HEIF pictures, as phones take them."""

from __future__ import annotations

from pathlib import Path

from pillow_heif import HeifFile, open_heif

from ocr.engines.base import PageImage
from ocr.errors import PageError, SourceTooLarge
from ocr.options import ReadOptions, TextLayer
from ocr.sources.base import Source, is_over_size, over_size_words
from ocr.sources.images import broken_header, page_image
from ocr.sources.sniffing import SourceKind

_UPRIGHT = 1


class HeicSource(Source):
    """The primary picture of a HEIC file."""

    kind = SourceKind.HEIC

    def __init__(self, path: Path, options: ReadOptions) -> None:
        """Check the header of the picture at `path`.

        Raises:
            DamagedSource: The header is broken.
            SourceTooLarge: The picture has more pixels than the limit.
        """
        self._path = path
        self._options = options
        heif = self._open()
        try:
            self._size_px: tuple[int, int] = heif.size
        except IndexError as error:
            raise broken_header(self.kind) from error
        if is_over_size(self._size_px, options.limits):
            raise SourceTooLarge(over_size_words(self._size_px, options.limits))

    @property
    def page_count(self) -> int:
        """Always 1: bursts and depth maps do not count."""
        return 1

    def page(self, index: int) -> PageImage:
        """The picture, upright. Raises `PageError` if it cannot be decoded."""
        self._check_index(index)
        if self._options.text_layer is TextLayer.ONLY_TEXT:
            return PageImage(0, self._size_px, None, lines=())
        try:
            # The file's own turn is applied while decoding; its EXIF repeats it.
            image = self._open().to_pillow()
        except (ValueError, EOFError, SyntaxError, RuntimeError, OSError, MemoryError) as error:
            raise PageError(
                "The HEIC picture is damaged and cannot be decoded. Copy it from the phone again."
            ) from error
        return page_image(image, 0, orientation=_UPRIGHT)

    def close(self) -> None:
        """Nothing is held open between pages."""

    def _open(self) -> HeifFile:
        # libheif has limits of its own, and decodes only when pixels are asked for.
        try:
            return open_heif(self._path)
        except (ValueError, EOFError, SyntaxError, RuntimeError) as error:
            raise broken_header(self.kind) from error
