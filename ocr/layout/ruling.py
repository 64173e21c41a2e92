"""Printed rules: the straight lines of tables, boxes, underlines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ocr.layout.textlines import TextLine

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Rule:
    """One straight line; `at` is its position across, `start`/`end` along it, in pixels."""

    at: float
    start: float
    end: float

    @property
    def length(self) -> float:
        """Length in pixels."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a page: horizontal ones top to bottom, vertical ones left to right."""

    horizontal: tuple[Rule, ...] = ()
    vertical: tuple[Rule, ...] = field(default=())


def find_rules(image: NDArray[np.uint8] | None, em: float) -> Rules:
    """The rules of an upright page.

    A local threshold is used, because a global one loses rules on coloured
    table heads.

    Args:
        image: Upright page, uint8, shape (height, width, 3) or (height, width).
        em: Type size of the body text in pixels.
    """
    if image is None:
        return Rules()
    import cv2
    import numpy as np

    grey = image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    # Type of 30 pixels shows every rule; more pixels only cost time.
    shrink = max(1.0, em / 30)
    if shrink > 1.2:
        grey = cv2.resize(grey, None, fx=1 / shrink, fy=1 / shrink, interpolation=cv2.INTER_AREA)
        small = find_rules(np.ascontiguousarray(grey), em / shrink)
        return Rules(
            tuple(_scaled(rule, shrink) for rule in small.horizontal),
            tuple(_scaled(rule, shrink) for rule in small.vertical),
        )
    block = max(15, int(1.2 * em)) | 1
    dark = cv2.adaptiveThreshold(
        grey, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY_INV, block, 10
    )
    along = max(20, int(2.4 * em))
    thick = max(4.0, 0.4 * em)
    horizontal = _straight(dark, along, thick)
    vertical = _straight(cv2.transpose(dark), along, thick)
    return Rules(tuple(_merged(horizontal, em)), tuple(_merged(vertical, em)))


def _scaled(rule: Rule, factor: float) -> Rule:
    return Rule(rule.at * factor, rule.start * factor, rule.end * factor)


def _straight(dark: NDArray[np.uint8], along: int, thick: float) -> list[Rule]:
    import cv2

    # A rule may lose a pixel here and there and climb one over its length; on
    # small type the same bridge would join the feet of letters.
    bridge = (5, 3) if along > 40 else (3, 1)
    bridged = cv2.morphologyEx(dark, cv2.MORPH_CLOSE, cv2.getStructuringElement(0, bridge))
    opened = cv2.morphologyEx(bridged, cv2.MORPH_OPEN, cv2.getStructuringElement(0, (along, 1)))
    count, _, stats, _ = cv2.connectedComponentsWithStats(opened, connectivity=8)
    rules: list[Rule] = []
    for left, top, width, height, area in stats[1:count]:
        # Slope adds height, thickness adds area over the width.
        if width < 0.8 * along or area / width > thick or height > thick + 0.02 * width:
            continue
        rules.append(Rule(float(top + height / 2), float(left), float(left + width)))
    return rules


def _merged(rules: Sequence[Rule], em: float) -> list[Rule]:
    """Pieces of one rule joined over small gaps."""
    merged: list[Rule] = []
    for rule in sorted(rules, key=lambda item: (item.at, item.start)):
        for index in range(len(merged) - 1, max(-1, len(merged) - 12), -1):
            other = merged[index]
            gap = max(rule.start, other.start) - min(rule.end, other.end)
            if abs(other.at - rule.at) <= max(2.0, 0.15 * em) and gap < 0.8 * em:
                merged[index] = Rule(
                    (other.at * other.length + rule.at * rule.length)
                    / (other.length + rule.length),
                    min(rule.start, other.start),
                    max(rule.end, other.end),
                )
                break
        else:
            merged.append(rule)
    return sorted(merged, key=lambda item: item.at)


def part_underlines(
    rules: Rules, lines: Sequence[TextLine], em: float
) -> tuple[Rules, list[TextLine]]:
    """Rules that are no underlines or dashes, and the lines with underlines noted."""
    underlined: set[int] = set()
    kept: list[Rule] = []
    for rule in rules.horizontal:
        owner = next((i for i, item in enumerate(lines) if _within(rule, item, em)), None)
        if owner is None:
            kept.append(rule)
        elif _underlines(rule, lines[owner]):
            underlined.add(owner)
    marked = [
        replace(item, underlined=True) if index in underlined else item
        for index, item in enumerate(lines)
    ]
    return Rules(tuple(kept), rules.vertical), marked


def _underlines(rule: Rule, item: TextLine) -> bool:
    low = rule.at > item.bottom - 0.25 * item.height
    return low and len(item.text) > 3 and rule.length > 0.8 * item.width


def _within(rule: Rule, item: TextLine, em: float) -> bool:
    slack = 0.6 * em
    sideways = rule.start > item.left - slack and rule.end < item.right + slack
    return sideways and item.top < rule.at < item.bottom + 0.4 * em
