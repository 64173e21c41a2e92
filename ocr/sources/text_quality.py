"""Whether a PDF page's text layer says what the page shows.

Text layers lie in many ways: fonts whose codes mean nothing, invisible leftovers
of other software, a stamp as the only text of a scanned page, recognition results
of bad quality underneath a scan. Each has a trace that can be measured against
the page as it is rendered.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from ocr.sources.text_layer import Word, stands_on_end

Pixels = NDArray[np.uint8]

_MOST_ODD = 0.03
"""Share of characters that mean nothing (replacement, private use, control)."""
_MOST_UNREADABLE = 0.2
"""Share of longer words that no language would spell so."""
_ENOUGH = 200
"""Characters, before their frequencies are taken for evidence."""
_LEAST_LETTERS = 0.4
_USUAL_LETTERS = frozenset("etaoinsr")
_LEAST_USUAL = 0.45
_REPEATED = re.compile(r"([^\w])\1+")
_MOST_OUTSIDE = 0.2
_MOST_INVISIBLE = 0.3
_LEAST_COVERED = 0.75
"""Share of the page's letter-sized ink that lies under a word."""
_LEAST_COVERED_SCAN = 0.9
"""A scan's layer was guessed by some other software, so it must fit better."""
_MOST_UNREADABLE_SCAN = 0.08
_SCAN_COVERAGE = 0.7
_FEW_MARKS = 40
"""Fewer letter-sized marks than this beside the words are no missing text."""
_SEEN_CONTRAST = 30
_INK_CONTRAST = 60


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the layer is good. `visible` are its words that can be seen."""

    good: bool
    reason: str
    visible: tuple[Word, ...] = ()


def judge(words: Sequence[Word], pixels: Pixels, scale_px: float, scan_coverage: float) -> Verdict:
    """Compare a layer with the rendered page.

    Args:
        words: The layer, at least one word.
        pixels: The page, uint8 RGB, at 100 dpi or more.
        scale_px: Pixels per point.
        scan_coverage: Share of the page under its largest picture, 0..1.
    """
    is_scan = scan_coverage >= _SCAN_COVERAGE
    if odd_share(words) > _MOST_ODD:
        return Verdict(False, "its characters have no meaning")
    if is_cipher(words) or unreadable_share(words) > (
        _MOST_UNREADABLE_SCAN if is_scan else _MOST_UNREADABLE
    ):
        return Verdict(False, "its words are garbled")
    if _runs_sideways(words) or _runs_backwards(words):
        return Verdict(False, "its text is not upright")
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    boxes = _boxes(words, scale_px)
    inside = _inside(boxes, grey.shape)
    if inside.mean() < 1 - _MOST_OUTSIDE:
        return Verdict(False, "its words lie outside the page")
    kept = [word for word, is_in in zip(words, inside, strict=True) if is_in]
    boxes = boxes[inside]
    seen = np.array([_contrast(grey, box) >= _SEEN_CONTRAST for box in boxes], dtype=bool)
    if seen.mean() < 1 - _MOST_INVISIBLE:
        return Verdict(False, "its words cannot be seen on the page")
    covered, beside = _coverage(grey, boxes[seen])
    least = _LEAST_COVERED_SCAN if is_scan else _LEAST_COVERED
    if beside > _FEW_MARKS and covered < least:
        return Verdict(False, "the page shows more text than the layer has")
    visible = tuple(word for word, is_seen in zip(kept, seen, strict=True) if is_seen)
    return Verdict(True, "it fits the page", visible)


def odd_share(words: Sequence[Word]) -> float:
    """Share of characters that mean nothing to anybody, 0..1."""
    text = "".join(word.text for word in words)
    odd = sum(ch == "\ufffd" or unicodedata.category(ch) in {"Co", "Cn", "Cc", "Cs"} for ch in text)
    return odd / max(1, len(text))


def is_cipher(words: Sequence[Word]) -> bool:
    """Whether the letters are not those of a language, or are hardly letters at all.

    The eight most frequent letters of English make up 55 to 75 % of a text in any
    language with Latin letters, and about 8/26 of one whose letters are exchanged.
    """
    text = "".join(word.text for word in words)
    signs = _REPEATED.sub(r"\1", text)
    if len(signs) >= _ENOUGH and sum(ch.isalnum() for ch in signs) < _LEAST_LETTERS * len(signs):
        return True
    plain = unicodedata.normalize("NFD", "".join(ch for ch in text if not ch.isupper()))
    letters = [ch for ch in plain if "a" <= ch <= "z"]
    usual = sum(ch in _USUAL_LETTERS for ch in letters)
    return len(letters) >= _ENOUGH and usual < _LEAST_USUAL * len(letters)


def unreadable_share(words: Sequence[Word]) -> float:
    """Share of words of four letters and more that no language would spell so, 0..1.

    A font whose codes mean nothing turns letters into other letters, signs and
    digits: vowels go missing, capitals and signs stand inside words.
    """
    longer = [text for word in words if len(text := _core(word.text)) >= 4 and _wordlike(text)]
    if len(longer) < 8:
        return 0.0
    return sum(_is_garbled(text) for text in longer) / len(longer)


def _runs_sideways(words: Sequence[Word]) -> bool:
    """Whether most words stand on end: the page has to be turned to be read."""
    longer = [word for word in words if len(word.text) > 2]
    return 2 * sum(stands_on_end(word) for word in longer) > len(longer) > 0


def _runs_backwards(words: Sequence[Word]) -> bool:
    """Whether most lines of Latin letters run from right to left: upside down."""
    steps = [
        second.bbox_pt.left - first.bbox_pt.left
        for first, second in pairwise(words)
        if _on_one_line(first, second) and first.text.isascii() and second.text.isascii()
    ]
    return len(steps) >= 8 and sum(step < 0 for step in steps) > 0.7 * len(steps)


def _on_one_line(first: Word, second: Word) -> bool:
    a, b = first.bbox_pt, second.bbox_pt
    return min(a.bottom, b.bottom) - max(a.top, b.top) > 0.7 * min(a.height, b.height)


def _core(text: str) -> str:
    return text.strip(".,;:!?()[]{}\"'“”‘’„«»*-–—…/")


def _wordlike(text: str) -> bool:
    """Mostly letters: neither a number nor an address nor a formula."""
    return sum(ch.isalpha() for ch in text) * 2 > len(text) and not any(
        sign in text for sign in ("@", "://", "www.", "_", "\\", "=", "/")
    )


_VOWELS = frozenset("aeiouyæœøı")
_INNER_SIGNS = frozenset("'’.-–&:,·+()")


def _is_garbled(text: str) -> bool:
    letters = [ch for ch in text if ch.isalpha()]
    latin = [ch for ch in letters if ch < "\u0250"]
    signs = sum(not ch.isalnum() and ch not in _INNER_SIGNS for ch in text)
    if signs * 4 > len(text):
        return True
    if len(latin) < len(letters):
        return bool(latin) and 0.2 < len(latin) / len(letters) < 0.8
    # Abbreviations are spelt in capitals and need no vowels.
    if text.isupper() or (text[:-1].isupper() and text[-1] == "s"):
        return False
    plain = unicodedata.normalize("NFD", text.lower())
    if not _VOWELS.intersection(plain):
        return True
    inner = sum(a.islower() and b.isupper() for a, b in pairwise(text))
    return inner >= 2


def _boxes(words: Sequence[Word], scale_px: float) -> NDArray[np.int64]:
    sides = [(b.left, b.top, b.right, b.bottom) for b in (word.bbox_pt for word in words)]
    scaled = np.array(sides) * scale_px
    return np.clip(np.rint(scaled), -(10**7), 10**7).astype(np.int64)


def _inside(boxes: NDArray[np.int64], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Whose centre lies on the page."""
    x, y = (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2
    on_page: NDArray[np.bool_] = (x >= 0) & (y >= 0) & (x < shape[1]) & (y < shape[0])
    return on_page


def _contrast(grey: Pixels, box: NDArray[np.int64]) -> int:
    left, top, right, bottom = (max(0, int(v)) for v in box)
    part = grey[top : bottom + 1, left : right + 1]
    return int(part.max()) - int(part.min()) if part.size else 0


def _coverage(grey: Pixels, boxes: NDArray[np.int64]) -> tuple[float, int]:
    """Share of letter-sized marks that lie under words, and how many do not."""
    height = _usual_height(boxes)
    marks = _letter_marks(grey, height)
    if len(marks) == 0:
        return 1.0, 0
    under = np.zeros(grey.shape, dtype=bool)
    margin = round(height / 4)
    for left, top, right, bottom in boxes:
        under[max(0, top - margin) : bottom + margin, max(0, left - margin) : right + margin] = True
    hit = under[marks[:, 1], marks[:, 0]]
    return float(hit.mean()), int((~hit).sum())


def _usual_height(boxes: NDArray[np.int64]) -> int:
    return max(6, int(np.median(boxes[:, 3] - boxes[:, 1])))


def _letter_marks(grey: Pixels, text_height_px: int) -> NDArray[np.int64]:
    """Centres (x, y) of the connected marks that could be letters."""
    paper = cv2.medianBlur(cv2.resize(grey, None, fx=0.125, fy=0.125), 11)
    paper = cv2.resize(paper, (grey.shape[1], grey.shape[0]))
    ink = (cv2.absdiff(grey, paper) >= _INK_CONTRAST).astype(np.uint8)
    count, _, stats, centres = cv2.connectedComponentsWithStats(ink, connectivity=8)
    if count < 2:
        return np.zeros((0, 2), dtype=np.int64)
    width, height, area = stats[1:, 2], stats[1:, 3], stats[1:, 4]
    letter = (
        (height >= max(4, text_height_px // 4))
        & (height <= 2 * text_height_px)
        & (width <= 4 * text_height_px)
        & (width >= 2)
        & (area >= height)
    )
    found: NDArray[np.int64] = np.rint(centres[1:][letter]).astype(np.int64)
    return found
