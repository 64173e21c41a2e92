"""Is this short text a heading? Evidence is weighed, no single sign decides."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ocr.layout.boxes import inside_share, middle_x
from ocr.layout.regions import Region
from ocr.layout.rows import Row

NUMBERED = re.compile(
    r"^\s*(?:(?P<dots>\d{1,2}(?:\.\d{1,2}){0,4})\.?|(?P<roman>[IVX]{1,5})\.|(?P<letter>[A-H])\.|"
    r"§\s?\d+|(?:Chapter|Kapitel|Chapitre|Section|Teil|Part|Anhang|Appendix|Abschnitt|Article|Artikel)"
    r"\s+[\dIVXA-Z]+[.:]?|第[一二三四五六七八九十\d]+[章节條条部])\s*(?=[^\W\d_])"
)
_NO_HEADING = re.compile(r"@|https?:|www\.|\d{4,}[-/ ]\d{3,}|[€$£¥]\s?\d|^\W*$|^\d+\W*\d*$|\.{4,}")
_AMOUNT = re.compile(r"\d[.,]\d\d\b")
ACCEPT = 2.0


@dataclass(frozen=True, slots=True)
class Setting:
    """What a page's ordinary text looks like, and where its edges are."""

    body_size: float
    body_bold: bool
    left: float
    right: float
    regions: tuple[Region, ...] = ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Distances in lines of body text to the rows above and below a candidate."""

    gap_above: float | None
    gap_below: float | None
    heads_prose: bool
    first_on_page: bool


def heading_score(rows: Sequence[Row], setting: Setting, around: Surroundings) -> float:
    """How much speaks for a heading; from `ACCEPT` on it is taken for one."""
    text = " ".join(row.text for row in rows)
    if len(rows) > 4 or len(text) > 160 or not any(char.isalpha() for char in text):
        return 0.0
    if _NO_HEADING.search(text) or any(row.split for row in rows):
        return 0.0
    if _AMOUNT.search(text) and min(row.size for row in rows) < 1.3 * setting.body_size:
        return 0.0
    score = _type_score(rows, setting) + _wording_score(text)
    score += _region_score(rows, setting)
    score += 0.4 if is_centred(rows, setting) else 0.0
    return score + _place_score(around)


def _type_score(rows: Sequence[Row], setting: Setting) -> float:
    ratio = min(row.size for row in rows) / setting.body_size
    score = 0.0
    for least, worth in ((1.3, 2.2), (1.15, 1.4), (1.07, 0.5), (0.92, 0.0), (0.0, -0.8)):
        if ratio >= least:
            score = worth
            break
    if all(row.bold for row in rows) and not setting.body_bold:
        score += 1.2
    if any(row.underlined for row in rows):
        score += 1.0
    return score


def _wording_score(text: str) -> float:
    score = 0.0
    numbered = NUMBERED.match(text)
    if numbered is not None and text[-1] not in ".;,":
        score += 1.5 if numbered.group("dots") and "." in numbered.group("dots") else 0.9
    letters = [char for char in text if char.isalpha()]
    if len(letters) >= 4 and sum(char.isupper() for char in letters) > 0.8 * len(letters):
        score += 0.5
    if text.rstrip()[-1] in ".,;-–":
        score -= 1.2
    elif text.rstrip()[-1] == ":":
        score -= 0.7
    if text.lstrip()[0].islower():
        score -= 1.5
    if sum(char.isdigit() for char in text) > 0.4 * len(text):
        score -= 1.5
    if len(text) > 90:
        score -= 0.5
    return score


def _region_score(rows: Sequence[Row], setting: Setting) -> float:
    best = 0.0
    for region in setting.regions:
        if region.kind == "title" and all(inside_share(row, region.bbox) > 0.55 for row in rows):
            best = max(best, region.score)
    return best


def _place_score(around: Surroundings) -> float:
    score = 0.0
    if around.gap_above is None or around.gap_above > 1.3:
        score += 0.4
    if around.heads_prose:
        score += 0.5
    if around.first_on_page:
        score += 0.3
        if around.gap_below is not None and around.gap_below > 1.2:
            score += 0.5
    return score


def is_centred(rows: Sequence[Row], setting: Setting) -> bool:
    """Whether the rows stand in the middle of the page, clear of both edges."""
    middle = (setting.left + setting.right) / 2
    width = setting.right - setting.left
    return all(
        abs(middle_x(row) - middle) < 0.03 * width and row.width < 0.8 * width for row in rows
    )


def numbering_depth(text: str) -> int | None:
    """1 for "2 Methods", 2 for "2.1 Data"; None without a number."""
    match = NUMBERED.match(text)
    if match is None:
        return None
    dots = match.group("dots")
    return dots.count(".") + 1 if dots else 1
