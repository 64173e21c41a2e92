"""From any Pillow image to what engines take: uint8 RGB, upright, on white paper."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops

Pixels = NDArray[np.uint8]
Dpi = tuple[float, float]

LOWEST_DPI, HIGHEST_DPI = 40.0, 4800.0
"""Outside of these a stated resolution is nonsense (1 dpi, 72000 dpi)."""
_SQUARE_ENOUGH = 1.05
_MOST_STRETCHED = 4.0

_warnings_lock = threading.RLock()

_ORIENTATIONS = {
    2: (Image.Transpose.FLIP_LEFT_RIGHT,),
    3: (Image.Transpose.ROTATE_180,),
    4: (Image.Transpose.FLIP_TOP_BOTTOM,),
    5: (Image.Transpose.TRANSPOSE,),
    6: (Image.Transpose.ROTATE_270,),
    7: (Image.Transpose.TRANSVERSE,),
    8: (Image.Transpose.ROTATE_90,),
}


@contextlib.contextmanager
def quiet_pillow() -> Iterator[None]:
    """Keep Pillow's warnings (odd metadata, its own size guess) to ourselves.

    Our own limits have already been checked when it matters, and a warning about
    a broken EXIF entry is of no use to anybody.
    """
    with _warnings_lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def to_rgb(image: Image.Image) -> Pixels:
    """The image's pixels as uint8 RGB, shape (height, width, 3).

    Transparency is laid on white (black text on nothing must not become a black
    page), 16 bits are scaled down and not clipped, palettes resolved.

    Args:
        image: Any mode that Pillow can decode.
    """
    if image.mode == "CMYK" and "adobe" not in image.info and image.format == "JPEG":
        image = _least_dark(image)
    if image.mode.startswith(("I", "F")):
        return _from_deep(image)
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    if image.mode in {"PA", "La", "RGBa"}:
        image = image.convert({"PA": "RGBA", "La": "LA", "RGBa": "RGBA"}[image.mode])
    if image.mode in {"L", "RGB", "1"} and "transparency" in image.info:
        image = image.convert("RGBA")
    if image.mode in {"LA", "RGBA"}:
        return _on_white(image)
    return np.array(image if image.mode == "RGB" else image.convert("RGB"), dtype=np.uint8)


def _least_dark(image: Image.Image) -> Image.Image:
    """A CMYK JPEG that does not say which way its inks run, as dark text on light paper.

    Pillow takes all of them for Adobe's, who store 0 for full ink.
    """
    light = image.convert("L").resize((16, 16), Image.Resampling.BOX).getextrema()[1]
    return image if isinstance(light, int | float) and light >= 128 else ImageChops.invert(image)


def _on_white(image: Image.Image) -> Pixels:
    paper = Image.new("RGB", image.size, "white")
    colour = image if image.mode == "RGBA" else image.convert("RGBA")
    paper.paste(colour, mask=colour.getchannel("A"))
    return np.array(paper, dtype=np.uint8)


def _from_deep(image: Image.Image) -> Pixels:
    """Grey with 16 or 32 bits per pixel, or floating point."""
    values = np.array(image, dtype=np.float32)
    if image.mode.startswith("I;16") or (image.mode == "I" and _fits_16_bits(values)):
        grey = values / 257.0
    else:
        finite = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
        low, high = float(finite.min()), float(finite.max())
        # Floating point is commonly 0..1, but anything occurs: stretch to the range.
        grey = (finite - low) * (255.0 / (high - low)) if high > low else finite * 0.0 + 255.0
    flat = np.clip(np.rint(grey), 0, 255).astype(np.uint8)
    return np.repeat(flat[:, :, None], 3, axis=2)


def _fits_16_bits(values: NDArray[np.float32]) -> bool:
    return bool(values.min() >= 0.0 and values.max() <= 65535.0)


def turned(image: Image.Image, orientation: object) -> Image.Image:
    """The image as it is meant to be seen; invalid orientations count as upright.

    Args:
        image: A decoded image.
        orientation: EXIF tag 274, 1..8.
    """
    steps = _ORIENTATIONS.get(orientation, ()) if isinstance(orientation, int) else ()
    for step in steps:
        image = image.transpose(step)
    return image


def exif_orientation(image: Image.Image) -> int | None:
    """EXIF tag 274, None where there is none or it cannot be read."""
    try:
        value = image.getexif().get(274)
    except Exception:  # noqa: BLE001 - broken EXIF raises nearly anything
        return None
    return value if isinstance(value, int) else None


def stated_dpi(image: Image.Image) -> Dpi | None:
    """The resolution that the file states, across and down; None for nonsense."""
    try:
        across, down = (float(value) for value in image.info["dpi"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    if not (LOWEST_DPI <= across <= HIGHEST_DPI and LOWEST_DPI <= down <= HIGHEST_DPI):
        return None
    return across, down


def squared(image: Image.Image, dpi: Dpi | None) -> tuple[Image.Image, float | None, str | None]:
    """The image with square pixels, its dpi, and a note if that took a change.

    A standard fax has 204 by 98 dots per inch: its letters are squashed to half
    their height until the rows are stretched.
    """
    if dpi is None:
        return image, None, None
    across, down = dpi
    ratio = max(across, down) / min(across, down)
    if ratio <= _SQUARE_ENOUGH or ratio > _MOST_STRETCHED:
        return image, max(across, down) if ratio <= _SQUARE_ENOUGH else None, None
    finest = max(across, down)
    size = (round(image.width * finest / across), round(image.height * finest / down))
    if image.mode in {"1", "P"}:
        image = image.convert("L" if image.mode == "1" else "RGBA")
    note = f"resolution {across:g} x {down:g} dpi made square"
    return image.resize(size, Image.Resampling.BICUBIC), finest, note
