"""Files that hold one picture: JPEG, PNG, WebP, BMP and GIF."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from PIL import Image, ImageFile
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from ocr.engines.base import PageImage
from ocr.errors import DamagedSource, PageError, SourceTooLarge
from ocr.options import ReadOptions, TextLayer
from ocr.sources.base import Source, check_image_size, is_over_size, over_size_words
from ocr.sources.jpeg_check import jpeg_is_broken
from ocr.sources.pixels import (
    exif_orientation,
    quiet_pillow,
    squared,
    stated_dpi,
    to_rgb,
    turned,
)
from ocr.sources.sniffing import SourceKind
from ocr.sources.tails import TailState, tail_state

# The classes themselves instead of Image.open: the kind is known, and the size
# limit is ours and not Pillow's global one. An MPO is a JPEG followed by more
# pictures, so the JPEG class shows its first frame.
_DECODERS: dict[SourceKind, Callable[[IO[bytes]], ImageFile.ImageFile]] = {
    SourceKind.JPEG: JpegImageFile,
    SourceKind.PNG: PngImageFile,
    SourceKind.WEBP: WebPImageFile,
    SourceKind.BMP: BmpImageFile,
    SourceKind.GIF: GifImageFile,
}
NAMES = {
    SourceKind.JPEG: "JPEG",
    SourceKind.PNG: "PNG",
    SourceKind.WEBP: "WebP",
    SourceKind.BMP: "BMP",
    SourceKind.GIF: "GIF",
    SourceKind.HEIC: "HEIC",
}


class PictureSource(Source):
    """One picture, one page."""

    def __init__(self, path: Path, kind: SourceKind, options: ReadOptions) -> None:
        """Check the header of the picture at `path`.

        Raises:
            DamagedSource: The header is broken.
            SourceTooLarge: The picture has more pixels than the limit.
        """
        self.kind = kind
        self._path = path
        self._options = options
        with _opened(path, kind) as image:
            size_px = image.size
        if is_over_size(size_px, options.limits):
            raise SourceTooLarge(over_size_words(size_px, options.limits))
        self._size_px = size_px

    @property
    def page_count(self) -> int:
        """Always 1: of an animation only the first frame counts."""
        return 1

    def page(self, index: int) -> PageImage:
        """The picture, upright. Raises `PageError` if nothing of it can be decoded."""
        self._check_index(index)
        if self._options.text_layer is TextLayer.ONLY_TEXT:
            return PageImage(0, self._size_px, None, lines=())
        with _opened(self._path, self.kind) as image:
            check_image_size(image.size, self._options.limits)
            name = f"The {NAMES[self.kind]} file"
            damage = decode(image, name) or self._silent_damage(image, name)
            return page_image(image, 0, damage=damage)

    def _silent_damage(self, image: Image.Image, name: str) -> str | None:
        """What is wrong with a JPEG that decoded without an error."""
        if self.kind is not SourceKind.JPEG:
            return None
        with self._path.open("rb") as file:
            is_cut = tail_state(file.fileno()) is TailState.CUT
        if is_cut:
            return f"{name} is cut off; part of the page is missing. Scan it again."
        components = len(image.getbands())
        if jpeg_is_broken(self._path, image.size, components, self._options.limits):
            return f"{name} is damaged; part of the page may be missing. Scan it again."
        return None

    def close(self) -> None:
        """Nothing is held open between pages."""


def decode(image: ImageFile.ImageFile | Image.Image, name: str) -> str | None:
    """Decode in place, keeping what there is of a picture that breaks off.

    Returns:
        Why a part is missing, for a person; None for a whole picture.

    Raises:
        PageError: Nothing could be decoded.
    """
    try:
        image.load()
    except MemoryError as error:
        raise PageError(f"{name} needs more memory than there is.") from error
    # Pillow's plugins raise nearly anything on broken data.
    except Exception as error:
        if not _keep_partial(image):
            raise PageError(f"{name} is damaged and shows nothing. Scan the page again.") from error
        return f"{name} is damaged or cut off; part of the page is missing. Scan it again."
    return None


def _keep_partial(image: Image.Image) -> bool:
    """Whether rows were decoded before the failure; they stay in the image then."""
    if getattr(image, "_im", None) is None:
        return False
    # Without tiles left, `load` has nothing more to do and cannot fail again.
    image.tile = []  # type: ignore[attr-defined] # only ImageFile has it, and only it fails
    try:
        low, high = image.convert("L").getextrema()
    except Exception:  # noqa: BLE001 - what was decoded may be of no use at all
        return False
    return bool(low != high)


def page_image(
    image: Image.Image, index: int, *, damage: str | None = None, orientation: int | None = None
) -> PageImage:
    """A decoded picture as a page: square pixels, upright, RGB on white.

    Args:
        image: Decoded.
        index: Of the page, from 0.
        damage: Why a part is missing.
        orientation: EXIF orientation still to be applied; None: ask the picture.
    """
    with quiet_pillow():
        if orientation is None:
            orientation = exif_orientation(image)
        image, dpi, note = squared(image, stated_dpi(image))
        image = turned(image, orientation)
        pixels = to_rgb(image)
    height, width = pixels.shape[:2]
    return PageImage(
        page_index=index,
        size_px=(width, height),
        pixels=pixels,
        dpi=dpi,
        notes=(note,) if note else (),
        damage=damage,
    )


@contextlib.contextmanager
def _opened(path: Path, kind: SourceKind) -> Iterator[Image.Image]:
    """The picture with its header read. Raises `DamagedSource` for a broken one."""
    with quiet_pillow(), path.open("rb") as file:
        try:
            image = _DECODERS[kind](file)
        # See `decode`: anything can come out of a broken header.
        except Exception as error:
            raise broken_header(kind) from error
        try:
            yield image
        finally:
            image.close()


def broken_header(kind: SourceKind) -> DamagedSource:
    """The error for a picture whose header makes no sense."""
    return DamagedSource(
        f"The {NAMES[kind]} file is damaged: its header cannot be read. Scan or copy it again."
    )
