"""Which words of a text layer are bold, and in which typeface they are set.

`pdftotext` does not say; `pdftohtml` does, for runs of text whose places are the
same. What it says is matched to the words by place.
"""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ocr.sources.pdf_pages import PageSize
from ocr.sources.poppler.tools import Poppler, ToolFailed
from ocr.sources.text_layer import MAX_LAYER_BYTES, Word

_MOST_TIME_S = 10.0
_BAND_PT = 24.0
_SLACK_PT = 1.5

_NUMBER = r"(-?[\d.]+)"
_PAGE = re.compile(rf'<page [^>]*height="{_NUMBER}" width="{_NUMBER}"')
_FONT = re.compile(r'<fontspec id="(\d+)" size="[^"]*" family="([^"]*)"')
_RUN = re.compile(
    rf'<text top="{_NUMBER}" left="{_NUMBER}" width="{_NUMBER}" height="{_NUMBER}"'
    r' font="(\d+)">(.*?)</text>'
)
_BOLD = re.compile(r"<b>(.*?)</b>")
_TAG = re.compile(r"<[^>]*>")
_SUBSET = re.compile(r"^[A-Z]{6}\+")


@dataclass(frozen=True, slots=True)
class _Run:
    left: float
    top: float
    right: float
    bottom: float
    font: str | None
    bold_words: frozenset[str]
    plain_words: frozenset[str]

    def holds(self, x: float, y: float) -> bool:
        return (
            self.left - _SLACK_PT <= x <= self.right + _SLACK_PT
            and self.top - _SLACK_PT <= y <= self.bottom + _SLACK_PT
        )


def with_style(
    words: Sequence[Word], poppler: Poppler, page_number: int, size: PageSize
) -> list[Word]:
    """The words with `bold` and `font` filled in where that can be found out.

    Args:
        words: Of one page.
        poppler: For the PDF they are from.
        page_number: From 1.
        size: Of the page as shown.
    """
    bands = _bands(_read(poppler, page_number, size))
    return [_styled(word, bands) for word in words]


def _read(poppler: Poppler, page_number: int, size: PageSize) -> list[_Run]:
    number = str(page_number)
    try:
        text = poppler.text(
            "pdftohtml",
            *("-xml", "-i", "-stdout", "-nodrm", "-hidden", "-noroundcoord", "-zoom", "1"),
            *("-enc", "UTF-8", "-f", number, "-l", number),
            max_bytes=MAX_LAYER_BYTES,
            timeout_s=_MOST_TIME_S,
        )
    except ToolFailed:
        return []
    page = _PAGE.search(text)
    # It knows no crop box: on a cropped page its places are others.
    if page is None or (
        abs(_float(page[1]) - size.height_pt) > 1 or abs(_float(page[2]) - size.width_pt) > 1
    ):
        return []
    fonts = {number: html.unescape(family) for number, family in _FONT.findall(text)}
    return [_run(match, fonts) for match in _RUN.finditer(text)]


def _run(match: re.Match[str], fonts: dict[str, str]) -> _Run:
    top, left, width, height = (_float(match[group]) for group in range(1, 5))
    marked = match[6]
    family = _SUBSET.sub("", fonts.get(match[5], ""))
    return _Run(
        left=left,
        top=top,
        right=left + width,
        bottom=top + height,
        font=family or None,
        bold_words=frozenset(_plain(" ".join(_BOLD.findall(marked))).split()),
        plain_words=frozenset(_plain(_BOLD.sub(" ", marked)).split()),
    )


def _plain(marked: str) -> str:
    return html.unescape(_TAG.sub("", marked))


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _bands(runs: list[_Run]) -> dict[int, list[_Run]]:
    """The runs by the horizontal bands of the page that they touch."""
    bands: dict[int, list[_Run]] = defaultdict(list)
    for run in runs:
        first, last = int(run.top // _BAND_PT), int(run.bottom // _BAND_PT)
        # A run higher than a few bands is drawn on end, which no band helps with.
        for band in range(first, min(last, first + 8) + 1):
            bands[band].append(run)
    return bands


def _styled(word: Word, bands: dict[int, list[_Run]]) -> Word:
    box = word.bbox_pt
    x, y = (box.left + box.right) / 2, (box.top + box.bottom) / 2
    for run in bands.get(int(y // _BAND_PT), ()):
        if run.holds(x, y):
            if not run.plain_words or not run.bold_words:
                return replace(word, bold=not run.plain_words, font=run.font)
            bold = word.text in run.bold_words and word.text not in run.plain_words
            return replace(word, bold=bold, font=run.font)
    return word
