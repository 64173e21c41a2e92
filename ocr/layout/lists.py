"""List markers: bullets, numbers, letters, and how deep an item is nested."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# What printers set as a bullet, and what recognisers make of one.
BULLETS = "•◦‣▪▫■□●○◆◇►▶➢➤✓✔★❖·∙⁃⚫–—*-"
_BULLET = re.compile(rf"^\s*([{re.escape(BULLETS)}])\s*(?=\S)")
_NUMBER = re.compile(
    r"^\s*(\(?\d{1,3}[.)]|\(?[a-hA-Z][.)]|\(?[ivx]{1,5}[.)]|[①-⑳])(?:\s+|(?=[^\W\d_]))(?=\S)"
)
_SECTION = re.compile(r"^\s*(\d{1,2}(?:\.\d{1,2}){0,4})\.?\s*(?=[^\W\d_])")
_GLUED_OK = "•◦‣▪▫■□●○◆◇►▶➢➤✓✔★❖∙⁃⚫"


@dataclass(frozen=True, slots=True)
class Marker:
    """A printed list marker and the text behind it."""

    mark: str
    rest: str
    ordered: bool


def find_marker(text: str) -> Marker | None:
    """The list marker that `text` begins with, if it has one."""
    bullet = _BULLET.match(text)
    if bullet is not None:
        mark, rest = bullet.group(1), text[bullet.end() :]
        spaced = text[bullet.end(1) : bullet.end(1) + 1].isspace()
        if mark in _GLUED_OK or spaced:
            return Marker(mark, rest, ordered=False)
        return None
    number = _NUMBER.match(text)
    if number is None:
        return None
    return Marker(number.group(1), text[number.end() :].strip(), ordered=True)


def section_number(text: str) -> tuple[int, ...] | None:
    """The number of an entry in a contents list ("4.2 Methods"), or None."""
    bullet = _BULLET.match(text)
    match = _SECTION.match(text[bullet.end() :] if bullet is not None else text)
    return tuple(int(part) for part in match.group(1).split(".")) if match is not None else None


def contents_length(texts: Sequence[str]) -> int:
    """How many of the leading texts are entries that count up section by section."""
    count = 0
    before: tuple[int, ...] | None = None
    for text in texts:
        number = section_number(text)
        if number is None or (before is not None and not _follows(before, number)):
            break
        before = number
        count += 1
    return count


def continues_contents(before: str, text: str) -> bool:
    """Whether `text` is the next entry of a contents list after `before`."""
    first, second = section_number(before), section_number(text)
    return first is not None and second is not None and _follows(first, second)


def _follows(before: tuple[int, ...], number: tuple[int, ...]) -> bool:
    if len(number) > len(before):
        return number[: len(before)] == before and number[len(before)] in (0, 1)
    depth = len(number) - 1
    return number[:depth] == before[:depth] and number[depth] == before[depth] + 1


def nesting(lefts: Sequence[float], em: float) -> list[int]:
    """Nesting depth of each item of one list from its left edge, 0 outermost."""
    stack: list[float] = []
    depths: list[int] = []
    for left in lefts:
        while stack and left < stack[-1] - 0.6 * em:
            stack.pop()
        if not stack or left > stack[-1] + 0.6 * em:
            stack.append(left)
        depths.append(len(stack) - 1)
    return depths
