"""What every kind of source offers, and the limits that hold for all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from ocr.engines.base import PageImage
from ocr.errors import PageError, SourceTooLarge
from ocr.options import Limits
from ocr.sources.sniffing import SourceKind


class Source(ABC):
    """An open document. Not thread-safe: one page is fetched at a time."""

    kind: SourceKind

    @property
    @abstractmethod
    def page_count(self) -> int:
        """How many pages there are, at least 1."""

    @abstractmethod
    def page(self, index: int) -> PageImage:
        """The page at `index`, from 0, decoded now.

        Raises:
            PageError: This page cannot be decoded; the others may be fine.
            IndexError: There is no such page.
        """

    @abstractmethod
    def close(self) -> None:
        """Release files and temporary folders. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check_index(self, index: int) -> None:
        if not 0 <= index < self.page_count:
            raise IndexError(f"no page {index} in a document of {self.page_count}")


def check_page_count(count: int, limits: Limits) -> None:
    """Refuse a document with too many pages.

    Raises:
        SourceTooLarge: There are more than `limits.max_pages`.
    """
    if count > limits.max_pages:
        raise SourceTooLarge(
            f"The document has more than {limits.max_pages} pages, which is the limit set"
            " by max_pages. Split it, or raise the setting."
        )


def is_over_size(size_px: tuple[int, int], limits: Limits) -> bool:
    """Whether an image of this width and height is over `max_page_mpx`."""
    width, height = size_px
    return width * height > limits.max_page_mpx * 1e6


def over_size_words(size_px: tuple[int, int], limits: Limits) -> str:
    """The sentence for an image that is over `max_page_mpx`."""
    width, height = size_px
    return (
        f"The image is {width} by {height} pixels ({width * height / 1e6:.0f} megapixels),"
        f" and the limit set by max_page_mpx is {limits.max_page_mpx:g}."
        " Scan at a lower resolution, or raise the setting."
    )


def check_image_size(size_px: tuple[int, int], limits: Limits) -> None:
    """Refuse one page's image, judged by its header, before it is decoded.

    Raises:
        PageError: It has no pixels, or more than `limits.max_page_mpx` million.
    """
    if min(size_px) < 1:
        raise PageError("The image is empty: its header states a width or height of 0.")
    if is_over_size(size_px, limits):
        raise PageError(over_size_words(size_px, limits))
