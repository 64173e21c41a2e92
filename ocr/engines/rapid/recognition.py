"""What the lines say: PP-OCR's recogniser and CTC decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from ocr.engines.rapid.detection import TextBox
    from ocr.engines.rapid.network import Network

HEIGHT_PX = 48
"""Height that the recogniser was trained on."""
_STEP_PX = 8
"""Columns of the crop for each decision of the network."""
_ROUND_PX = ((256, 32), (768, 64), (1 << 30, 128))
"""Crops up to the first width are rounded up to the second, so that few shapes need
compiled kernels, which cost more memory than the models."""
_TOGETHER = 4
_TOGETHER_PX = 512
"""Crops up to this width are read four at once; wider ones gain nothing by it."""
_BEYOND_DOUBT = 0.98
_WORTH_A_LOOK = 0.005


@dataclass(frozen=True, slots=True)
class Character:
    """One character as the network saw it.

    Args:
        text: The character.
        position: Where it stands along the line, 0..1 of the width.
        confidence: How sure, 0..1.
        second: What it would be otherwise; empty when the network sees no other.
        gap: How likely a space stands between the character before and this one.
    """

    text: str
    position: float
    confidence: float
    second: str = ""
    gap: float = 0.0


@dataclass(frozen=True, slots=True)
class Reading:
    """The characters of one line, left to right."""

    characters: tuple[Character, ...]

    @property
    def text(self) -> str:
        """The line as plain text."""
        return "".join(character.text for character in self.characters)

    @property
    def confidence(self) -> float:
        """Mean over the characters; 0 for an empty line."""
        found = [character.confidence for character in self.characters]
        return sum(found) / len(found) if found else 0.0


def alphabet(characters: str) -> list[str]:
    """The characters by class, from one a line: 0 is CTC's blank, the last one a space."""
    return ["", *characters.split("\n"), " "]


def cut_out(image: NDArray[np.uint8], box: TextBox) -> NDArray[np.uint8]:
    """The line of a box, straight, 48 px high, uint8 RGB; tall boxes are laid on their side."""
    corners = box.corners
    across = float(
        max(np.linalg.norm(corners[1] - corners[0]), np.linalg.norm(corners[2] - corners[3]))
    )
    down = float(
        max(np.linalg.norm(corners[3] - corners[0]), np.linalg.norm(corners[2] - corners[1]))
    )
    width = max(8, round(across * HEIGHT_PX / max(down, 1.0)))
    target = np.array([[0, 0], [width, 0], [width, HEIGHT_PX], [0, HEIGHT_PX]], np.float32)
    source = corners.astype(np.float32)
    flat = _axis_parallel(source)
    if flat is not None:
        left, top, right, bottom = flat
        patch = image[top:bottom, left:right]
        how = cv2.INTER_AREA if patch.shape[0] > HEIGHT_PX else cv2.INTER_CUBIC
        return np.asarray(cv2.resize(patch, (width, HEIGHT_PX), interpolation=how), np.uint8)
    matrix = cv2.getPerspectiveTransform(source, target)
    how = cv2.INTER_CUBIC if down < 2 * HEIGHT_PX else cv2.INTER_AREA
    warped = cv2.warpPerspective(
        image, matrix, (width, HEIGHT_PX), flags=how, borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(warped, np.uint8)


def _axis_parallel(corners: NDArray[np.float32]) -> tuple[int, int, int, int] | None:
    """The box as whole pixels when it is tilted by less than a pixel."""
    left, top = corners.min(axis=0)
    right, bottom = corners.max(axis=0)
    square = np.array([[left, top], [right, top], [right, bottom], [left, bottom]])
    if float(np.abs(square - corners).max()) > 1.0:
        return None
    return (
        int(left),
        int(top),
        max(int(left) + 1, int(np.ceil(right))),
        max(int(top) + 1, int(np.ceil(bottom))),
    )


class Recogniser:
    """Reads straight crops of lines.

    Args:
        network: The recognition model.
        characters: Its dictionary, one character a line.
    """

    def __init__(self, network: Network, characters: str) -> None:
        self._network = network
        self._alphabet = alphabet(characters)

    def read(
        self, crops: Sequence[NDArray[np.uint8]], progress: Callable[[], None] | None = None
    ) -> list[Reading]:
        """One reading for each crop.

        Args:
            crops: uint8 RGB, 48 px high, any width.
            progress: Called after every batch.
        """
        readings: list[Reading] = [Reading(())] * len(crops)
        for indices, width in _batches([crop.shape[1] for crop in crops]):
            batch = _normalised([crops[i] for i in indices], width)
            scores = self._network(batch)[0]
            for i, row in zip(indices, scores, strict=True):
                readings[i] = self._decoded(row, crops[i].shape[1], width)
            if progress is not None:
                progress()
        return readings

    def _decoded(self, scores: NDArray[np.float32], crop_width: int, padded_width: int) -> Reading:
        """Best path: merge repeats, drop blanks; a character's position is its peak."""
        best = scores.argmax(axis=1)
        sure = np.take_along_axis(scores, best[:, None], axis=1)[:, 0]
        spaces = scores[:, -1]
        column = padded_width / len(best) / crop_width
        edges = np.flatnonzero(np.diff(best)) + 1
        characters: list[Character] = []
        before = 0
        for start, end in zip([0, *edges], [*edges, len(best)], strict=True):
            if best[start] == 0:
                continue
            peak = int(start) + int(sure[start:end].argmax())
            between = spaces[before : start + 1]
            characters.append(
                Character(
                    self._alphabet[int(best[start])],
                    min(1.0, (peak + 0.5) * column),
                    float(sure[peak]),
                    self._second(scores[peak], int(best[start])),
                    float(between.max()) if characters else 0.0,
                )
            )
            before = int(end) - 1
        return Reading(tuple(characters))

    def _second(self, scores: NDArray[np.float32], best: int) -> str:
        """The next best character, looked for only where the best one is in doubt."""
        if scores[best] > _BEYOND_DOUBT:
            return ""
        for candidate in np.argpartition(scores, -3)[-3:][::-1]:
            if candidate not in (0, best) and scores[candidate] > _WORTH_A_LOOK:
                return self._alphabet[int(candidate)]
        return ""


def _batches(widths: Sequence[int]) -> Iterator[tuple[list[int], int]]:
    """Indices that are read together, of one padded width, with that width."""
    by_width: dict[int, list[int]] = {}
    for i, width in enumerate(widths):
        by_width.setdefault(_rounded(width), []).append(i)
    for padded, indices in sorted(by_width.items()):
        fours = len(indices) // _TOGETHER * _TOGETHER if padded <= _TOGETHER_PX else 0
        for start in range(0, fours, _TOGETHER):
            yield indices[start : start + _TOGETHER], padded
        for i in indices[fours:]:
            yield [i], padded


def _rounded(width: int) -> int:
    step = next(step for most, step in _ROUND_PX if width <= most)
    return -(-width // step) * step


def _normalised(crops: Sequence[NDArray[np.uint8]], width: int) -> NDArray[np.float32]:
    """float32 -1..1 BGR, shape (n, 3, 48, width), zero (mid grey) right of each crop."""
    batch = np.zeros((len(crops), 3, HEIGHT_PX, width), np.float32)
    for target, crop in zip(batch, crops, strict=True):
        plain = crop[:, :, ::-1].transpose(2, 0, 1)
        np.multiply(plain, 1 / 127.5, out=target[:, :, : crop.shape[1]], dtype=np.float32)
        target[:, :, : crop.shape[1]] -= 1.0
    return batch
