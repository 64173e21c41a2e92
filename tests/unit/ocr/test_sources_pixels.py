"""Whatever the colours of a picture, engines get black on white RGB."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from ocr.sources.pixels import squared, stated_dpi, to_rgb, turned


def _corners(image: Image.Image) -> tuple[list[int], list[int]]:
    pixels = to_rgb(image)
    assert pixels.dtype == np.uint8
    assert pixels.shape == (image.height, image.width, 3)
    return pixels[0, 0].tolist(), pixels[-1, -1].tolist()


def test_black_text_on_nothing_is_not_a_black_page() -> None:
    page = Image.new("RGBA", (4, 4), (0, 0, 0, 0))
    page.putpixel((3, 3), (0, 0, 0, 255))
    assert _corners(page) == ([255] * 3, [0] * 3)
    assert _corners(page.convert("LA")) == ([255] * 3, [0] * 3)


def test_a_palette_with_a_transparent_entry_is_laid_on_white() -> None:
    page = Image.new("P", (4, 4), 0)
    page.putpalette([0, 0, 0, 200, 0, 0])
    page.putpixel((3, 3), 1)
    page.info["transparency"] = 0
    assert _corners(page) == ([255] * 3, [200, 0, 0])


def test_a_transparent_grey_is_laid_on_white() -> None:
    page = Image.new("L", (4, 4), 7)
    page.putpixel((3, 3), 90)
    page.info["transparency"] = 7
    assert _corners(page) == ([255] * 3, [90] * 3)


@pytest.mark.parametrize("mode", ["I;16", "I;16B", "I"])
def test_16_bits_are_scaled_and_not_clipped(mode: str) -> None:
    values = np.array([[0, 25_700], [51_400, 65_535]], dtype=np.uint16)
    image = Image.fromarray(values)
    if mode != "I;16":
        image = (
            image.convert("I")
            if mode == "I"
            else Image.frombytes("I;16B", (2, 2), values.astype(">u2").tobytes())
        )
    assert to_rgb(image)[:, :, 0].tolist() == [[0, 100], [200, 255]]


def test_floating_point_is_stretched_and_nan_survived() -> None:
    values = np.array([[0.0, 0.5], [1.0, np.nan]], dtype=np.float32)
    assert to_rgb(Image.fromarray(values))[:, :, 0].tolist() == [[0, 128], [255, 0]]


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "CMYK", "YCbCr", "HSV", "LAB"])
def test_every_mode_of_pillow_becomes_rgb(mode: str) -> None:
    first, _ = _corners(Image.new(mode, (4, 3)))
    assert len(first) == 3


def _mark() -> Image.Image:
    image = Image.new("L", (3, 2), 255)
    image.putpixel((0, 0), 0)
    return image


@pytest.mark.parametrize(
    ("orientation", "size", "black_at"),
    [
        (1, (3, 2), (0, 0)),
        (2, (3, 2), (2, 0)),
        (3, (3, 2), (2, 1)),
        (4, (3, 2), (0, 1)),
        (5, (2, 3), (0, 0)),
        (6, (2, 3), (1, 0)),
        (7, (2, 3), (1, 2)),
        (8, (2, 3), (0, 2)),
        (0, (3, 2), (0, 0)),
        (9, (3, 2), (0, 0)),
        (None, (3, 2), (0, 0)),
    ],
)
def test_orientation(
    orientation: int | None, size: tuple[int, int], black_at: tuple[int, int]
) -> None:
    upright = turned(_mark(), orientation)
    assert upright.size == size
    assert upright.getpixel(black_at) == 0


@pytest.mark.parametrize(
    ("stated", "believed"),
    [
        ((300, 300), (300.0, 300.0)),
        ((1, 1), None),
        ((0, 0), None),
        ((72_000, 72_000), None),
        ((float("nan"), 300), None),
        ("300", None),
        (300, None),
        (None, None),
    ],
)
def test_nonsense_resolutions_are_not_believed(
    stated: object, believed: tuple[float, float] | None
) -> None:
    image = Image.new("L", (2, 2))
    image.info["dpi"] = stated
    assert stated_dpi(image) == believed


def test_a_fax_gets_square_pixels() -> None:
    image, dpi, note = squared(Image.new("1", (1728, 1078)), (204.0, 98.0))
    assert image.size == (1728, 2244)
    assert dpi == 204.0
    assert note is not None
