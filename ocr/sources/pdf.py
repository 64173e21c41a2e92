"""PDF: pages rendered one at a time by poppler, or taken from their text layer."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ocr.engines.base import PageImage
from ocr.errors import PageError
from ocr.options import ReadOptions, TextLayer
from ocr.sources.base import Source
from ocr.sources.pdf_damage import Picture, find_damage, list_pictures
from ocr.sources.pdf_pages import PageSize, find_password, page_sizes
from ocr.sources.poppler.tools import Poppler, ToolFailed, ToolOutOfMemory, ToolTimeout
from ocr.sources.sniffing import SourceKind
from ocr.sources.text_layer import Word, read_words, to_lines
from ocr.sources.text_quality import judge
from ocr.sources.text_style import with_style

_MOST_RENDERED_MPX = 64.0
"""An A0 sheet at 200 dpi; poppler needs four times as many bytes, and no engine
looks at more."""
_LONGEST_SIDE_PX = 30_000
_TEXT_DPI = 150
"""Enough to see rules and figures, and to check the words of a text layer."""
_LOWEST_NATIVE_DPI = 72.0
_WHOLE_PAGE = 0.85


class PdfSource(Source):
    """A PDF of any number of pages."""

    kind = SourceKind.PDF

    def __init__(self, path: Path, options: ReadOptions) -> None:
        """Open the PDF at `path` and find its pages.

        Raises:
            PasswordRequired: None of the passwords opens it.
            DamagedSource: It cannot be opened, or has no pages.
            SourceTooLarge: Too many pages, or too much work just to open it.
            EngineUnavailable: Poppler is not installed.
        """
        self._options = options
        self._poppler = Poppler(path, options.limits)
        try:
            find_password(self._poppler, options.passwords)
            self._sizes, self._trouble = page_sizes(self._poppler, options.limits)
        except BaseException:
            self._poppler.close()
            raise

    @property
    def page_count(self) -> int:
        """Pages up to the last one that can be found."""
        return len(self._sizes)

    def page(self, index: int) -> PageImage:
        """One page, from its text layer if that is good (or asked for), else rendered.

        Raises:
            PageError: The page cannot be found or rendered, or is all damage.
        """
        self._check_index(index)
        size = self._sizes[index]
        if size is None:
            raise PageError("This page of the PDF is damaged: it cannot be found in the file.")
        notes: list[str] = []
        if self._options.text_layer is not TextLayer.FORCE_OCR:
            image = self._from_text(index, size, notes)
            if image is not None:
                return image
        return self._rendered(index, size, notes)

    def close(self) -> None:
        """Remove the folder for poppler's output."""
        self._poppler.close()

    def _from_text(self, index: int, size: PageSize, notes: list[str]) -> PageImage | None:
        """The page with the words of its layer; None if they are not to be used."""
        only_text = self._options.text_layer is TextLayer.ONLY_TEXT
        try:
            words = read_words(self._poppler, index + 1)
        except ToolFailed as error:
            notes.append(f"text layer not used: {error}")
            words = []
        dpi = scaled_dpi(size, min(self._options.dpi, _TEXT_DPI), self._options)
        size_px = pixel_size(size, dpi)
        damage = self._trouble if index == self.page_count - 1 else None
        if not words:
            empty = PageImage(
                index, size_px, None, dpi, lines=(), notes=tuple(notes), damage=damage
            )
            return empty if only_text else None
        pixels = self._render(index, dpi)
        scale_px = dpi / 72
        if only_text:
            visible = [word for word in words if _is_on_page(word, size)]
        else:
            pictures = list_pictures(self._poppler, index + 1, size)
            share = max((p.share for p in pictures), default=0.0)
            verdict = judge(words, pixels, scale_px, share)
            if not verdict.good:
                notes.append(f"text layer not used: {verdict.reason}")
                return None
            visible = list(verdict.visible)
        height, width = pixels.shape[:2]
        visible = with_style(visible, self._poppler, index + 1, size)
        lines = to_lines(visible, scale_px, (width, height))
        return PageImage(
            index, (width, height), pixels, dpi, lines=lines, notes=tuple(notes), damage=damage
        )

    def _rendered(self, index: int, size: PageSize, notes: list[str]) -> PageImage:
        pictures = list_pictures(self._poppler, index + 1, size)
        wanted = native_dpi(pictures, self._options.dpi)
        dpi = scaled_dpi(size, wanted, self._options)
        if dpi < wanted:
            notes.append(f"page of {_inches(size)} rendered at {dpi:.0f} dpi")
        pixels = self._render(index, dpi)
        damage, nothing = find_damage(self._poppler, index + 1, pictures, pixels)
        if damage is not None and nothing:
            raise PageError(f"{damage}, and nothing of the page can be seen. Scan it again.")
        if damage is not None:
            damage += "; part of the page may be missing. Scan it again."
        if damage is None and index == self.page_count - 1:
            damage = self._trouble
        height, width = pixels.shape[:2]
        return PageImage(index, (width, height), pixels, dpi, notes=tuple(notes), damage=damage)

    def _render(self, index: int, dpi: float) -> NDArray[np.uint8]:
        limits = self._options.limits
        try:
            return self._poppler.render(index + 1, dpi)
        except ToolTimeout as error:
            raise PageError(
                f"The page takes longer to draw than {limits.render_timeout_s:g} seconds, the"
                " limit set by render_timeout_s. Print it to a new PDF, or scan it."
            ) from error
        except ToolOutOfMemory as error:
            raise PageError(
                f"The page needs more memory to draw than {limits.render_memory_gb:g} GB, the"
                " limit set by render_memory_gb. Print it to a new PDF, or scan it."
            ) from error
        except ToolFailed as error:
            raise PageError(
                "The page is damaged and cannot be drawn. Scan or print it again."
            ) from error


def _is_on_page(word: Word, size: PageSize) -> bool:
    box = word.bbox_pt
    across, down = (box.left + box.right) / 2, (box.top + box.bottom) / 2
    return 0 <= across < size.width_pt and 0 <= down < size.height_pt


def native_dpi(pictures: list[Picture], wanted_dpi: float) -> float:
    """The resolution of the scan that fills the page, if that is less than wanted.

    Drawing a coarse scan any finer only makes it larger.
    """
    full = [p for p in pictures if p.share >= _WHOLE_PAGE]
    if len(full) != 1 or full[0].ppi >= wanted_dpi:
        return wanted_dpi
    return max(full[0].ppi, min(_LOWEST_NATIVE_DPI, wanted_dpi))


def scaled_dpi(size: PageSize, wanted_dpi: float, options: ReadOptions) -> float:
    """The resolution, at most the wanted one, that keeps the page under the pixel cap."""
    cap_px = min(options.limits.max_page_mpx, _MOST_RENDERED_MPX) * 1e6
    area_in = size.width_pt * size.height_pt / 72**2
    longest_in = max(size.width_pt, size.height_pt) / 72
    return min(wanted_dpi, math.sqrt(cap_px / area_in), _LONGEST_SIDE_PX / longest_in)


def pixel_size(size: PageSize, dpi: float) -> tuple[int, int]:
    """Width and height of the page in pixels at this resolution."""
    return math.ceil(size.width_pt * dpi / 72), math.ceil(size.height_pt * dpi / 72)


def _inches(size: PageSize) -> str:
    return f"{size.width_pt / 72:.0f} x {size.height_pt / 72:.0f} inches"
