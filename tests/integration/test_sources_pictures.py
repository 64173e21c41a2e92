"""Pictures as scanners, fax machines and phones save them."""

from __future__ import annotations

import io
import os
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageChops, ImageFile
from PIL.TiffImagePlugin import AppendingTiffWriter
from pillow_heif import from_pillow

from ocr.engines.base import PageImage
from ocr.errors import (
    DamagedSource,
    PageError,
    SourceError,
    SourceTooLarge,
    UnsupportedSource,
)
from ocr.options import Limits, ReadOptions, TextLayer
from ocr.sources import open_source
from ocr.sources.sniffing import SourceKind
from tests.samples import degrade, jpeg_bytes, page_image, write_tiff

PLAIN = ReadOptions()


@pytest.fixture(scope="module")
def scan() -> Image.Image:
    return degrade(page_image(dpi=100))


@pytest.fixture(autouse=True)
def _pillow_is_left_as_it_was() -> object:
    before = Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, list(warnings.filters)
    yield
    assert (
        Image.MAX_IMAGE_PIXELS,
        ImageFile.LOAD_TRUNCATED_IMAGES,
        list(warnings.filters),
    ) == before


def only_page(path: Path, options: ReadOptions = PLAIN) -> PageImage:
    with open_source(path, options) as source:
        assert source.page_count == 1
        return source.page(0)


def damage_of(path: Path) -> str | None:
    try:
        return only_page(path).damage
    except (PageError, DamagedSource) as error:
        return str(error)


def pixels_of(page: PageImage) -> np.ndarray:
    assert page.pixels is not None
    assert page.pixels.dtype == np.uint8
    assert page.pixels.shape == (page.size_px[1], page.size_px[0], 3)
    return page.pixels


def looks_like(page: PageImage, image: Image.Image, tolerance: float = 6.0) -> bool:
    expected = np.asarray(image.convert("RGB"), dtype=np.float32)
    pixels = pixels_of(page)
    return pixels.shape == expected.shape and float(np.abs(pixels - expected).mean()) < tolerance


@pytest.mark.parametrize(
    ("name", "kind", "settings"),
    [
        ("JPEG", SourceKind.JPEG, {"quality": 85, "dpi": (100, 100)}),
        ("JPEG", SourceKind.JPEG, {"quality": 85, "progressive": True, "dpi": (100, 100)}),
        ("PNG", SourceKind.PNG, {"dpi": (100, 100)}),
        ("WEBP", SourceKind.WEBP, {"quality": 85}),
        ("BMP", SourceKind.BMP, {"dpi": (100, 100)}),
        ("TIFF", SourceKind.TIFF, {"dpi": (100, 100)}),
        ("TIFF", SourceKind.TIFF, {"compression": "jpeg", "dpi": (100, 100)}),
    ],
)
def test_every_kind_shows_the_page(
    tmp_path: Path, scan: Image.Image, name: str, kind: SourceKind, settings: dict[str, object]
) -> None:
    # The name says something else on purpose.
    path = tmp_path / "scan.doc"
    scan.save(path, name, **settings)
    with open_source(path, PLAIN) as source:
        assert source.kind is kind
        page = source.page(0)
    assert looks_like(page, scan)
    if "dpi" in settings:
        assert page.dpi == pytest.approx(100, abs=0.1)


def test_heic_is_read_upright(tmp_path: Path, scan: Image.Image) -> None:
    path = tmp_path / "phone.heic"
    from_pillow(scan).save(path, quality=80)
    assert looks_like(only_page(path), scan, tolerance=8)


def test_a_damaged_heic_says_so(tmp_path: Path, scan: Image.Image) -> None:
    path = tmp_path / "phone.heic"
    from_pillow(scan).save(path, quality=80)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises((DamagedSource, PageError), match="HEIC"):
        only_page(path)


def test_gif_and_animations_show_their_first_frame(tmp_path: Path, scan: Image.Image) -> None:
    other = Image.new("RGB", scan.size, "red")
    for name in ("GIF", "WEBP", "PNG"):
        path = tmp_path / f"moving.{name}"
        scan.convert("L").convert("RGB").save(path, name, save_all=True, append_images=[other])
        assert looks_like(only_page(path), scan, tolerance=8)


def test_a_stereo_photo_shows_its_first_frame(tmp_path: Path, scan: Image.Image) -> None:
    path = tmp_path / "camera.jpg"
    scan.save(path, "MPO", save_all=True, append_images=[Image.new("RGB", scan.size, "red")])
    assert looks_like(only_page(path), scan)


@pytest.mark.parametrize("orientation", [0, 1, 3, 6, 8, 9, 700])
def test_exif_orientation(tmp_path: Path, scan: Image.Image, orientation: int) -> None:
    turn = {
        3: Image.Transpose.ROTATE_180,
        6: Image.Transpose.ROTATE_90,
        8: Image.Transpose.ROTATE_270,
    }
    stored = scan.transpose(turn[orientation]) if orientation in turn else scan
    exif = Image.Exif()
    exif[274] = orientation
    path = tmp_path / "photo.jpg"
    stored.save(path, "JPEG", quality=90, exif=exif)
    assert looks_like(only_page(path), scan)


def test_broken_exif_does_not_matter(tmp_path: Path, scan: Image.Image) -> None:
    path = tmp_path / "photo.jpg"
    scan.save(path, "JPEG", quality=90, exif=b"Exif\0\0II*\0\xff\xff\xff\xff" + b"\x99" * 40)
    assert looks_like(only_page(path), scan)


@pytest.mark.parametrize("adobe", [True, False])
def test_cmyk_jpeg_is_not_a_negative(tmp_path: Path, scan: Image.Image, adobe: bool) -> None:
    content = jpeg_bytes(scan.convert("CMYK"), quality=90)
    if not adobe:
        # Pillow writes the inks the way Adobe does; without Adobe's segment, the
        # other way must be understood as well.
        content = jpeg_bytes(ImageChops.invert(scan.convert("CMYK")), quality=90)
        at = content.index(b"Adobe") - 4
        content = content[:at] + content[at + 2 + int.from_bytes(content[at + 2 : at + 4]) :]
    path = tmp_path / "print.jpg"
    path.write_bytes(content)
    assert looks_like(only_page(path), scan)


def test_alpha_and_16_bit_png(tmp_path: Path) -> None:
    clear = page_image(dpi=60).convert("L")
    black = Image.new("RGBA", clear.size, (0, 0, 0, 0))
    black.putalpha(clear.point(lambda v: 255 - v))
    black.save(tmp_path / "alpha.png")
    assert looks_like(only_page(tmp_path / "alpha.png"), clear, tolerance=1)

    deep = (np.asarray(clear, dtype=np.uint32) * 100 + 8_000).astype(np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    grey = pixels_of(only_page(tmp_path / "deep.png"))
    assert (grey.min(), grey.max()) == (31, 130)


def test_a_cut_jpeg_shows_what_there_is_and_says_so(tmp_path: Path, scan: Image.Image) -> None:
    content = jpeg_bytes(scan, quality=90)
    path = tmp_path / "cut.jpg"
    path.write_bytes(content[: len(content) // 2])
    page = only_page(path)
    assert page.damage is not None
    assert "cut off" in page.damage
    top = pixels_of(page)[:200].astype(np.float32)
    assert np.abs(top - np.asarray(scan, dtype=np.float32)[:200]).mean() < 6


def test_a_jpeg_with_a_broken_spot_says_so(tmp_path: Path, scan: Image.Image) -> None:
    content = bytearray(jpeg_bytes(scan, quality=90))
    middle = len(content) // 2
    content[middle : middle + 4096] = bytes(4096)
    path = tmp_path / "spot.jpg"
    path.write_bytes(content)
    page = only_page(path)
    assert page.damage is not None
    assert "may be missing" in page.damage


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_a_good_jpeg_is_not_suspected(tmp_path: Path, scan: Image.Image, mode: str) -> None:
    path = tmp_path / "good.jpg"
    path.write_bytes(jpeg_bytes(scan.convert(mode), progressive=True))
    assert only_page(path).damage is None


def test_a_jpeg_of_nothing_is_damaged_and_not_blank(tmp_path: Path, scan: Image.Image) -> None:
    content = jpeg_bytes(scan, quality=90)
    header = content.index(b"\xff\xda")
    path = tmp_path / "cut.jpg"
    path.write_bytes(content[: header + 14])
    with pytest.raises(PageError, match="damaged"):
        only_page(path)


@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP", "WEBP", "TIFF"])
def test_cut_pictures_never_pass_for_whole(tmp_path: Path, scan: Image.Image, kind: str) -> None:
    path = tmp_path / "cut"
    scan.save(path, kind)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert damage_of(path) is not None


def _png_header(width: int, height: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    data = zlib.compress(b"\0" * 1_000_000, 9)
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def test_a_bomb_is_refused_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(_png_header(60_000, 60_000))
    with pytest.raises(SourceTooLarge, match=r"60000 by 60000.*max_page_mpx is 150"):
        only_page(path)


def test_a_tiff_bomb_is_refused_page_by_page(tmp_path: Path, scan: Image.Image) -> None:
    path = write_tiff(tmp_path / "a.tif", [scan, scan])
    content = bytearray(path.read_bytes())
    for tag, side in zip((256, 257), scan.size, strict=True):
        at = content.rindex(struct.pack("<HHII", tag, 4, 1, side))
        content[at + 8 : at + 12] = struct.pack("<I", 60_000)
    path.write_bytes(content)
    with open_source(path, PLAIN) as source:
        assert looks_like(source.page(0), scan)
        with pytest.raises(PageError, match="max_page_mpx"):
            source.page(1)


def test_pages_over_pillows_own_limit_are_read_quietly(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    Image.new("1", (10_000, 9_100), 1).save(path)
    assert pixels_of(only_page(path)).min() == 255
    with pytest.raises(SourceTooLarge):
        only_page(path, ReadOptions(limits=Limits(max_page_mpx=20)))


def test_a_multi_page_tiff_of_every_kind(tmp_path: Path, scan: Image.Image) -> None:
    names = ["group4", "group3", "tiff_lzw", "jpeg", "packbits", None]
    path = write_tiff(tmp_path / "all.tif", [scan] * len(names), names)
    with open_source(path, PLAIN) as source:
        assert source.page_count == len(names)
        # Out of order, because a restarted job begins in the middle.
        for index in (5, 0, 3, 1, 2, 4):
            page = source.page(index)
            assert page.page_index == index
            assert page.dpi == pytest.approx(100)
            assert looks_like(page, scan, tolerance=30)


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK", "RGBA", "LA", "I;16"])
def test_tiff_modes(tmp_path: Path, mode: str) -> None:
    clear = page_image(dpi=60).convert("L")
    if mode == "I;16":
        image = Image.fromarray(np.asarray(clear, dtype=np.uint16) * 257)
    else:
        image = clear.convert("RGB").convert(mode)
    image.save(tmp_path / "mode.tif")
    assert looks_like(only_page(tmp_path / "mode.tif"), clear, tolerance=12)


@pytest.mark.parametrize("mode", ["1", "L", "I;16"])
def test_tiff_with_white_as_zero(tmp_path: Path, mode: str) -> None:
    clear = page_image(dpi=60).convert("L")
    negative = clear.point(lambda v: 255 - v)
    if mode == "I;16":
        image = Image.fromarray(np.asarray(negative, dtype=np.uint16) * 257)
    else:
        # For these, Pillow exchanges black and white itself while saving.
        image = clear.convert(mode)
    path = tmp_path / "fax.tif"
    image.save(path, tiffinfo={262: 0})
    page = only_page(path)
    reference = clear if mode != "1" else clear.convert("1")
    assert looks_like(page, reference, tolerance=12)


def test_a_fax_is_stretched_to_its_true_shape(tmp_path: Path) -> None:
    page = page_image(dpi=204)
    squashed = page.resize((page.width, round(page.height * 98 / 204))).convert("1")
    squashed.save(tmp_path / "fax.tif", compression="group3", dpi=(204, 98))
    read = only_page(tmp_path / "fax.tif")
    assert read.size_px == pytest.approx(page.size, abs=2)
    assert read.dpi == pytest.approx(204)
    assert "square" in read.notes[0]


def test_thumbnails_in_a_tiff_are_no_pages(tmp_path: Path, scan: Image.Image) -> None:
    path = tmp_path / "camera.tif"
    with AppendingTiffWriter(path, new=True) as writer:
        for subfile_type, image in ((1, scan.resize((80, 110))), (0, scan)):
            buffer = io.BytesIO()
            image.save(buffer, "TIFF", tiffinfo={254: subfile_type})
            writer.write(buffer.getvalue())
            writer.newFrame()
    assert looks_like(only_page(path), scan)


def test_a_tiff_that_bites_its_tail_ends(tmp_path: Path, scan: Image.Image) -> None:
    path = write_tiff(tmp_path / "loop.tif", [scan, scan])
    content = bytearray(path.read_bytes())
    first = int.from_bytes(content[4:8], "little")
    count = int.from_bytes(content[first : first + 2], "little")
    second = int.from_bytes(content[first + 2 + 12 * count :][:4], "little")
    count = int.from_bytes(content[second : second + 2], "little")
    at = second + 2 + 12 * count
    content[at : at + 4] = first.to_bytes(4, "little")
    path.write_bytes(content)
    with open_source(path, PLAIN) as source:
        assert source.page_count == 2
        assert source.page(0).damage is None
        damage = source.page(1).damage
    assert damage is not None
    assert "circle" in damage


def test_too_many_tiff_pages_are_refused(tmp_path: Path, scan: Image.Image) -> None:
    path = write_tiff(tmp_path / "many.tif", [scan.resize((50, 60))] * 4)
    with pytest.raises(SourceTooLarge, match="max_pages"):
        open_source(path, ReadOptions(limits=Limits(max_pages=3)))


def test_one_broken_tiff_page_leaves_the_others(tmp_path: Path, scan: Image.Image) -> None:
    path = write_tiff(tmp_path / "a.tif", [scan] * 3, ["group4"] * 3)
    content = bytearray(path.read_bytes())
    third = len(content) // 3
    content[third + 200 : 2 * third - 400] = bytes(third - 600)
    path.write_bytes(content)
    with open_source(path, PLAIN) as source:
        assert source.page_count == 3
        assert source.page(0).damage is None
        assert source.page(2).damage is None
        damage = source.page(1).damage
    assert damage is not None
    assert "part of it is missing" in damage


def test_a_fax_page_of_nothing_is_damaged_and_not_blank(tmp_path: Path, scan: Image.Image) -> None:
    path = write_tiff(tmp_path / "a.tif", [scan], ["group4"])
    content = bytearray(path.read_bytes())
    content[8:3000] = bytes(2992)
    path.write_bytes(content)
    with pytest.raises(PageError, match="damaged"):
        only_page(path)


@pytest.mark.parametrize("compression", ["group3", "group4"])
def test_a_blank_fax_page_is_blank(tmp_path: Path, compression: str) -> None:
    blank = Image.new("1", (1654, 2338), 1)
    page = only_page(write_tiff(tmp_path / "a.tif", [blank], [compression]))
    assert page.damage is None
    assert pixels_of(page).min() == 255


def test_only_text_reads_no_pictures(tmp_path: Path, scan: Image.Image) -> None:
    path = tmp_path / "scan.png"
    scan.save(path)
    page = only_page(path, ReadOptions(text_layer=TextLayer.ONLY_TEXT))
    assert (page.pixels, page.lines) == (None, ())


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (b"", DamagedSource, "empty"),
        (b"\0" * 9000, DamagedSource, "zeros"),
        (b"<html><body>Not found</body></html>", UnsupportedSource, "HTML page"),
        (b"PK\x03\x04\x14\0\0\0\0\0word/document.xml", UnsupportedSource, "Word document"),
        (b"\0\0\0\x18ftypavif\0\0\0\0mif1avif", UnsupportedSource, "AVIF"),
        (b"II*\0\0\0\0\0", DamagedSource, "no pages yet"),
        (b"\xff\xd8\xff\xe0", DamagedSource, "JPEG"),
        (b"\x89PNG\r\n\x1a\n", DamagedSource, "PNG"),
        (b"GIF89a", DamagedSource, "GIF"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(
    tmp_path: Path, content: bytes, error: type[SourceError], words: str
) -> None:
    path = tmp_path / "scan.pdf"
    path.write_bytes(content)
    with pytest.raises(error, match=words) as caught:
        open_source(path, PLAIN)
    assert str(caught.value).endswith(".")


def test_fifos_folders_and_missing_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.pdf")
    with pytest.raises(UnsupportedSource, match="no ordinary file"):
        open_source(tmp_path / "fifo.pdf", PLAIN)
    with pytest.raises(UnsupportedSource, match="no ordinary file"):
        open_source(tmp_path, PLAIN)
    with pytest.raises(SourceError, match="cannot be opened"):
        open_source(tmp_path / "gone.pdf", PLAIN)


def test_a_file_over_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.pdf"
    with path.open("wb") as file:
        file.write(b"%PDF-1.7\n")
        file.truncate(3_000_000_000)
    with pytest.raises(SourceTooLarge, match=r"3\.0 GB.*max_file_gb is 2"):
        open_source(path, PLAIN)
