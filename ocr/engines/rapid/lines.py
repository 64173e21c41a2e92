"""From boxes and readings to lines with words, in pixels of the upright page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ocr.document import BBox, Line
from ocr.engines.rapid.upended import is_upended

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocr.engines.rapid.detection import TextBox
    from ocr.engines.rapid.recognition import Character, Reading

_TRUSTED = 0.5
"""Lines read with less mean confidence are specks, frames and pictures."""
_SLIM = 0.04
"""Share of the height that the detector's boxes stand off above and below."""


def line_from(box: TextBox, reading: Reading) -> Line | None:
    """The line, or None when nothing was read there that can be trusted.

    Args:
        box: Where the detector saw it.
        reading: What the recogniser saw there, spaces included.
    """
    if not reading.text.strip() or reading.confidence < _TRUSTED:
        return None
    corners = _slimmer(box.corners)
    height = (
        float(np.linalg.norm(corners[3] - corners[0]) + np.linalg.norm(corners[2] - corners[1])) / 2
    )
    # The characters of an upended line do not stand along its upper edge.
    words = () if is_upended(box) else tuple(_words(corners, reading.characters))
    return Line(
        text=" ".join(reading.text.split()),
        bbox=_hull(corners),
        confidence=round(reading.confidence, 4),
        height_px=round(height, 1),
        words=words,
    )


def _words(corners: NDArray[np.float32], characters: Sequence[Character]) -> list[Line]:
    """The runs of characters between spaces, boxed by where the characters stand."""
    advance = _advance(characters)
    words = []
    for run in re.finditer(r"[^ ]+", "".join(character.text for character in characters)):
        first, last = run.start(), run.end() - 1
        left = characters[first].position - advance / 2
        right = characters[last].position + advance / 2
        if first >= 2:
            left = max(left, (characters[first].position + characters[first - 2].position) / 2)
        if last + 2 < len(characters):
            right = min(right, (characters[last].position + characters[last + 2].position) / 2)
        inside = characters[first : last + 1]
        words.append(
            Line(
                text=run.group(),
                bbox=_hull(_part(corners, max(0.0, left), min(1.0, right))),
                confidence=round(sum(c.confidence for c in inside) / len(inside), 4),
            )
        )
    return words


def _advance(characters: Sequence[Character]) -> float:
    """Width that one character takes, as a share of the line."""
    steps = np.diff([character.position for character in characters])
    return float(np.median(steps)) if len(steps) else 1.0


def _slimmer(corners: NDArray[np.float32]) -> NDArray[np.float32]:
    down_left = (corners[3] - corners[0]) * _SLIM
    down_right = (corners[2] - corners[1]) * _SLIM
    moved = [
        corners[0] + down_left,
        corners[1] + down_right,
        corners[2] - down_right,
        corners[3] - down_left,
    ]
    return np.array(moved, np.float32)


def _part(corners: NDArray[np.float32], left: float, right: float) -> NDArray[np.float32]:
    top, bottom = corners[1] - corners[0], corners[2] - corners[3]
    points = [
        corners[0] + top * left,
        corners[0] + top * right,
        corners[3] + bottom * right,
        corners[3] + bottom * left,
    ]
    return np.array(points, np.float32)


def _hull(corners: NDArray[np.float32]) -> BBox:
    left, top = (round(float(v), 2) for v in corners.min(axis=0))
    right, bottom = (round(float(v), 2) for v in corners.max(axis=0))
    return BBox(left, top, right, bottom)
