"""What the ink of one line says: where it is, how tall and how heavy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ocr.document import BBox


@dataclass(frozen=True, slots=True)
class Ink:
    """Ink of one line, in page pixels.

    `top` and `bottom` bound the ink; `core_px` is the height of its dense band
    (x-height of running text); `density` is the ink's share of that band, 0..1,
    counted over the columns that hold ink.
    """

    top: float
    bottom: float
    core_px: float
    density: float


def measure_ink(image: NDArray[np.uint8], box: BBox) -> Ink | None:
    """The ink inside `box`, or None where there is no text to be seen.

    Args:
        image: Upright page, uint8, shape (height, width, 3) or (height, width).
        box: A line's box in the same pixels.
    """
    top, left = max(0, int(box.top)), max(0, int(box.left))
    crop = image[top : int(box.bottom) + 1, left : int(box.right) + 1]
    if crop.shape[0] < 5 or crop.shape[1] < 5:
        return None
    ink = _inked(crop.mean(axis=2) if crop.ndim == 3 else crop.astype(np.float64))
    if ink is None:
        return None
    profile = ink.mean(axis=1)
    first, last = _central_run(profile)
    if last - first < 3:
        return None
    band = profile[first : last + 1]
    full = np.sort(band)[-max(1, len(band) // 5) :].mean()
    dense = band > 0.5 * full
    used = ink[first : last + 1].any(axis=0).mean()
    return Ink(
        top=top + first,
        bottom=top + last + 1,
        core_px=float(dense.sum()),
        density=float(band[dense].mean() / max(0.05, used)),
    )


def _inked(grey: NDArray[np.float64]) -> NDArray[np.float64] | None:
    dark, light = np.percentile(grey, (3, 97))
    if light - dark < 24:
        return None
    if np.median(grey) - dark < light - np.median(grey):
        # White on dark: the ink is the rarer of the two.
        grey, dark, light = 255 - grey, 255 - light, 255 - dark
    ink: NDArray[np.float64] = np.clip((light - grey) / (light - dark), 0, 1)
    ink[ink < 0.25] = 0
    return ink


def _central_run(profile: NDArray[np.float64]) -> tuple[int, int]:
    """First and last row of the ink around the middle; gaps of one row pass.

    Rows beyond a gap belong to the neighbouring lines or to a rule.
    """
    strong = profile > 0.06 * np.percentile(profile, 90)
    last_row = len(profile) - 1
    first = last = len(profile) // 2
    while first > 0 and strong[max(0, first - 2) : first].any():
        first -= 1
    while last < last_row and strong[last + 1 : last + 3].any():
        last += 1
    return first, last
