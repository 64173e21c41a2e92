"""PDFs as office machines, programs and enemies make them."""

from __future__ import annotations

import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pikepdf
import pytest
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from ocr.engines.base import PageImage
from ocr.errors import (
    DamagedSource,
    EngineUnavailable,
    PageError,
    PasswordRequired,
    SourceTooLarge,
    UnsupportedSource,
)
from ocr.options import Limits, ReadOptions, TextLayer
from ocr.sources import Source, open_source
from ocr.sources.sniffing import SourceKind
from tests.samples import LETTER, degrade, jpeg_bytes, page_image, write_pdf, write_text_pdf

PLAIN = ReadOptions()
FORCE = ReadOptions(text_layer=TextLayer.FORCE_OCR)
ONLY = ReadOptions(text_layer=TextLayer.ONLY_TEXT)
LINES = LETTER.split("\n")


@pytest.fixture(scope="module")
def scan() -> Image.Image:
    return degrade(page_image(dpi=100))


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go; nothing may be left in it."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def read(path: Path, index: int = 0, options: ReadOptions = PLAIN) -> PageImage:
    with open_source(path, options) as source:
        assert source.kind is SourceKind.PDF
        return source.page(index)


def pixels_of(page: PageImage) -> np.ndarray:
    assert page.pixels is not None
    assert page.pixels.dtype == np.uint8
    assert page.pixels.shape == (page.size_px[1], page.size_px[0], 3)
    return page.pixels


def words_of(page: PageImage) -> str:
    return " ".join(line.text for line in page.lines or ())


def ink_under_words(page: PageImage) -> float:
    """Share of words with something dark under their box."""
    pixels = pixels_of(page)
    dark = []
    for line in page.lines or ():
        box = line.bbox
        part = pixels[int(box.top) : int(box.bottom) + 1, int(box.left) : int(box.right) + 1]
        dark.append(part.size > 0 and part.min() < 128)
    return float(np.mean(dark))


def damage_of(source: Source, index: int) -> str | None:
    try:
        return source.page(index).damage
    except PageError as error:
        return str(error)


def edited(source: Path, edit: Callable[[pikepdf.Pdf], None], **settings: object) -> Path:
    target = source.with_name("edited.pdf")
    with pikepdf.open(source) as pdf:
        edit(pdf)
        pdf.save(target, **settings)
    return target


# --- scans ---------------------------------------------------------------------------


def test_a_scan_is_rendered_page_by_page(tmp_path: Path, scan: Image.Image) -> None:
    other = degrade(page_image("Second page", dpi=100), seed=5)
    path = write_pdf(tmp_path / "scan.pdf", [scan, other])
    with open_source(path, PLAIN) as source:
        assert source.page_count == 2
        for index, image in ((1, other), (0, scan)):
            page = source.page(index)
            assert page.page_index == index
            assert page.lines is None
            assert page.damage is None
            expected = np.asarray(image.resize(page.size_px), dtype=np.float32)
            assert np.abs(pixels_of(page) - expected).mean() < 6


def test_a_coarse_scan_is_not_blown_up(tmp_path: Path, scan: Image.Image) -> None:
    page = read(write_pdf(tmp_path / "scan.pdf", [scan]))
    assert page.dpi == pytest.approx(100, abs=1)
    assert page.size_px == pytest.approx(scan.size, abs=1)


def test_a_fine_scan_is_rendered_at_the_wanted_resolution(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "scan.pdf", [page_image(dpi=300)])
    assert read(path).dpi == 200
    assert read(path, options=ReadOptions(dpi=120)).dpi == 120


def test_leading_junk_and_a_wrong_name_do_not_matter(tmp_path: Path, scan: Image.Image) -> None:
    path = write_pdf(tmp_path / "scan.jpg", [scan])
    path.write_bytes(b"\r\n" * 200 + path.read_bytes())
    assert pixels_of(read(path)).min() < 100


def test_a_huge_page_is_scaled_down_before_rendering(tmp_path: Path) -> None:
    path = write_text_pdf(tmp_path / "wall.pdf", [["A"]])
    path = edited(path, lambda pdf: setattr(pdf.pages[0], "MediaBox", [0, 0, 14400, 14400]))
    page = read(path, options=ReadOptions(limits=Limits(max_page_mpx=4)))
    width, height = page.size_px
    assert 3.9e6 < width * height <= 4.01e6
    assert page.dpi is not None
    assert page.dpi < 11
    forced = read(path, options=ReadOptions(text_layer=TextLayer.FORCE_OCR, limits=Limits(4)))
    assert "200 x 200 inches" in forced.notes[0]


@pytest.mark.parametrize("box", [[0, 0, 1, 14400], [0, 0, 3, 3], [0, 0, 1e9, 1e9]])
def test_strange_page_sizes_are_rendered_or_refused(tmp_path: Path, box: list[float]) -> None:
    path = write_text_pdf(tmp_path / "a.pdf", [["A"]])
    path = edited(path, lambda pdf: setattr(pdf.pages[0], "MediaBox", pikepdf.Array(box)))
    try:
        page = read(path, options=ReadOptions(limits=Limits(max_page_mpx=4)))
    except PageError:
        return
    assert 0 < page.size_px[0] * page.size_px[1] <= 4.1e6


# --- passwords -----------------------------------------------------------------------


def _locked(path: Path, user: str, owner: str = "owner", revision: int = 6) -> Path:
    return edited(
        path,
        lambda pdf: None,
        encryption=pikepdf.Encryption(
            user=user, owner=owner, R=revision, aes=revision > 3, metadata=revision > 3
        ),
    )


@pytest.mark.parametrize("revision", [3, 4, 6])
def test_an_empty_user_password_opens(tmp_path: Path, revision: int) -> None:
    path = _locked(write_text_pdf(tmp_path / "a.pdf", [LINES]), "", revision=revision)
    assert "Northwind" in words_of(read(path))


def test_forbidding_to_copy_does_not_stop_the_owner_of_the_file(tmp_path: Path) -> None:
    path = write_text_pdf(tmp_path / "a.pdf", [LINES])
    path = edited(
        path,
        lambda pdf: None,
        encryption=pikepdf.Encryption(
            user="", owner="o", allow=pikepdf.Permissions(extract=False, print_lowres=False)
        ),
    )
    assert "Northwind" in words_of(read(path))


def test_the_list_of_passwords_is_tried(tmp_path: Path) -> None:
    path = _locked(write_text_pdf(tmp_path / "a.pdf", [LINES]), "geheim 'x' $HOME")
    options = ReadOptions(passwords=("wrong", "geheim 'x' $HOME"))
    assert "Northwind" in words_of(read(path, options=options))
    forced = ReadOptions(passwords=options.passwords, text_layer=TextLayer.FORCE_OCR)
    assert pixels_of(read(path, options=forced)).min() < 100
    with pytest.raises(PasswordRequired, match="none of the known passwords"):
        open_source(path, ReadOptions(passwords=("wrong",)))
    with pytest.raises(PasswordRequired, match="pdf_passwords"):
        open_source(path, PLAIN)


def test_a_foreign_security_handler_is_refused(tmp_path: Path) -> None:
    path = _locked(write_text_pdf(tmp_path / "a.pdf", [LINES]), "")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"/Filter /Standard", b"/Filter /Adobe.PK"))
    with pytest.raises((UnsupportedSource, DamagedSource, PasswordRequired)):
        open_source(path, PLAIN)


# --- damage --------------------------------------------------------------------------


def _image_pdf(path: Path, data: bytes, packing: str, size: tuple[int, int]) -> Path:
    """A page that is one picture whose stream is `data`, good or bad."""
    with pikepdf.new() as pdf:
        page = pdf.add_blank_page(page_size=(595, 842))
        stream = pikepdf.Stream(pdf, data)
        stream.Type, stream.Subtype = pikepdf.Name.XObject, pikepdf.Name.Image
        stream.Width, stream.Height = size
        stream.BitsPerComponent, stream.ColorSpace = 8, pikepdf.Name.DeviceRGB
        stream.Filter = pikepdf.Name(packing)
        page.Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(Im0=stream))
        page.Contents = pikepdf.Stream(pdf, b"q 595 0 0 842 0 0 cm /Im0 Do Q")
        pdf.save(path, compress_streams=False)
    return path


@pytest.mark.parametrize(
    ("packing", "damage"),
    [
        ("/DCTDecode", lambda data: data[:700]),
        ("/DCTDecode", lambda data: bytes(len(data))),
        ("/JPXDecode", lambda data: b"\x07\x91" * 5000),
        ("/JBIG2Decode", lambda data: b"\x07\x91" * 5000),
        ("/FlateDecode", lambda data: b"\x07\x91" * 5000),
        ("/NoSuchDecode", lambda data: data),
    ],
)
def test_a_broken_picture_is_damaged_and_not_blank(
    tmp_path: Path, scan: Image.Image, packing: str, damage: Callable[[bytes], bytes]
) -> None:
    path = _image_pdf(tmp_path / "a.pdf", damage(jpeg_bytes(scan)), packing, scan.size)
    with pytest.raises(PageError, match="damaged or cut off"):
        read(path)


def test_half_a_picture_is_shown_and_said_to_be_half(tmp_path: Path, scan: Image.Image) -> None:
    jpeg = jpeg_bytes(scan)
    zipped = zlib.compress(scan.tobytes())
    for packing, data in (
        ("/DCTDecode", jpeg[: len(jpeg) // 2]),
        ("/DCTDecode", jpeg[: len(jpeg) // 2] + bytes(len(jpeg) // 2)),
        ("/FlateDecode", zipped[: len(zipped) // 2]),
    ):
        page = read(_image_pdf(tmp_path / "a.pdf", data, packing, scan.size))
        assert page.damage is not None
        assert pixels_of(page)[:300].min() < 130


def test_a_blank_scan_is_blank_and_not_damaged(tmp_path: Path) -> None:
    page = read(write_pdf(tmp_path / "a.pdf", [Image.new("RGB", (827, 1169), "white")]))
    assert page.damage is None
    assert pixels_of(page).min() > 250


def test_jpeg2000_is_read(tmp_path: Path, scan: Image.Image) -> None:
    scan.resize((400, 560)).save(tmp_path / "a.jp2", "JPEG2000")
    data = (tmp_path / "a.jp2").read_bytes()
    page = read(_image_pdf(tmp_path / "a.pdf", data, "/JPXDecode", (400, 560)))
    assert page.damage is None
    assert pixels_of(page).min() < 120


def test_garbage_behind_a_header_is_refused(tmp_path: Path, scan: Image.Image) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(b"%PDF-1.7\n" + b"\x9c\x03" * 5000)
    with pytest.raises(DamagedSource, match="damaged or cut off"):
        open_source(path, PLAIN)


def test_a_cut_pdf_is_said_to_be_cut(tmp_path: Path, scan: Image.Image) -> None:
    path = write_pdf(tmp_path / "a.pdf", [scan] * 2)
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(DamagedSource, match="cut off"):
        open_source(path, PLAIN)


def _raw_pdf(objects: Sequence[bytes]) -> bytes:
    """A PDF of objects 1, 2, … as they are, the first one being the catalog."""
    body, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return (
        body
        + b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table)
        + b"trailer<</Size %d/Root 1 0 R>>\n" % (len(objects) + 1)
        + b"startxref\n%d\n%%%%EOF\n" % len(body)
    )


CATALOG = b"<</Type/Catalog/Pages 2 0 R>>"
PAGE = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 400]>>"


def test_only_pages_that_can_be_found_count(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    kids = b"<</Type/Pages/Kids[3 0 R 4 0 R 5 0 R]/Count 9>>"
    path.write_bytes(_raw_pdf([CATALOG, kids, PAGE, PAGE, PAGE, *[b"null"] * 9]))
    with open_source(path, PLAIN) as source:
        assert source.page_count == 3
        assert source.page(1).damage is None
        damage = source.page(2).damage
    assert damage is not None
    assert "9 pages" in damage


def test_a_page_lost_in_the_middle_leaves_the_others(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    kids = b"<</Type/Pages/Kids[3 0 R 77 0 R 4 0 R]/Count 3>>"
    path.write_bytes(_raw_pdf([CATALOG, kids, PAGE, PAGE]))
    with open_source(path, PLAIN) as source:
        assert source.page_count == 2
        assert source.page(0).damage is None
        damage = damage_of(source, 1)
    assert damage is not None


def test_a_count_of_a_milliard_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    kids = b"<</Type/Pages/Kids[3 0 R]/Count 1000000000>>"
    path.write_bytes(_raw_pdf([CATALOG, kids, PAGE]))
    with pytest.raises(DamagedSource):
        open_source(path, PLAIN)


def test_too_many_pages_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    kids = b"<</Type/Pages/Kids[%s]/Count 700>>" % b" ".join(b"%d 0 R" % n for n in range(3, 703))
    path.write_bytes(_raw_pdf([CATALOG, kids, *[PAGE] * 700]))
    with open_source(path, PLAIN) as source:
        assert source.page_count == 700
    with pytest.raises(SourceTooLarge, match="max_pages"):
        open_source(path, ReadOptions(limits=Limits(max_pages=600)))


@pytest.mark.parametrize(
    "objects",
    [
        [CATALOG, b"<</Type/Pages/Kids[]/Count 0>>"],
        [CATALOG, b"<</Type/Pages/Kids[2 0 R]/Count 1>>"],
        [b"<</Type/Catalog>>"],
        [b"1 0 R"],
        [CATALOG, b"[" * 100_000],
    ],
)
def test_mad_page_trees_end_in_an_answer(tmp_path: Path, objects: list[bytes]) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(_raw_pdf(objects))
    with (
        pytest.raises((DamagedSource, PageError), match=r"\.$"),
        open_source(path, PLAIN) as source,
    ):
        source.page(0)


def test_a_deep_page_tree_is_climbed(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    branches = [b"<</Type/Pages/Count 1/Kids[%d 0 R]>>" % n for n in range(3, 3000)]
    path.write_bytes(_raw_pdf([CATALOG, *branches, PAGE]))
    assert read(path).size_px == (834, 1112)


# --- limits --------------------------------------------------------------------------


def _page_drawing(path: Path, content: bytes) -> Path:
    stream = b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (
        len(packed := zlib.compress(content, 9)),
        packed,
    )
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R>>"
    path.write_bytes(_raw_pdf([CATALOG, b"<</Type/Pages/Kids[3 0 R]/Count 1>>", page, stream]))
    return path


def test_a_page_that_takes_for_ever_is_given_up(tmp_path: Path) -> None:
    path = _page_drawing(tmp_path / "slow.pdf", b"0 0 600 800 re f\n" * 3_000_000)
    options = ReadOptions(text_layer=TextLayer.FORCE_OCR, limits=Limits(render_timeout_s=0.5))
    with pytest.raises(PageError, match=r"longer to draw than 0\.5 seconds.*render_timeout_s"):
        read(path, options=options)


def test_a_page_that_takes_all_memory_is_given_up(tmp_path: Path) -> None:
    path = write_text_pdf(tmp_path / "a.pdf", [LINES])
    options = ReadOptions(
        dpi=600, text_layer=TextLayer.FORCE_OCR, limits=Limits(render_memory_gb=0.1)
    )
    with pytest.raises(PageError, match="more memory to draw"):
        read(path, options=options)


def test_a_stream_bomb_ends_in_bounded_memory(tmp_path: Path) -> None:
    """4 GB of zeros in 4 MB, packed twice, as the picture of a page."""
    bomb = zlib.compress(zlib.compress(bytes(100_000_000), 9), 9)
    image = (
        b"<</Type/XObject/Subtype/Image/Width 30000/Height 30000/BitsPerComponent 8"
        b"/ColorSpace/DeviceGray/Filter[/FlateDecode/FlateDecode]/Length %d>>stream\n%s\nendstream"
        % (len(bomb), bomb)
    )
    draw = b"q 600 0 0 800 0 0 cm /A Do Q"
    page = (
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R"
        b"/Resources<</XObject<</A 5 0 R>>>>>>"
    )
    content = b"<</Length %d>>stream\n%s\nendstream" % (len(draw), draw)
    path = tmp_path / "bomb.pdf"
    kids = b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
    path.write_bytes(_raw_pdf([CATALOG, kids, page, content, image]))
    assert read(path, options=ReadOptions(limits=Limits(render_memory_gb=0.5))).size_px


def test_a_huge_text_layer_is_not_taken(tmp_path: Path) -> None:
    lines = b"".join(
        b"BT /F 8 Tf %d %d Td (word%d) Tj ET\n" % (x, y, x * y)
        for y in range(0, 800, 2)
        for x in range(0, 600, 2)
    )
    path = _page_drawing(tmp_path / "a.pdf", lines)
    content = path.read_bytes()
    path.write_bytes(
        content.replace(
            b"/Contents 4 0 R",
            b"/Contents 4 0 R/Resources<</Font<</F"
            b"<</Type/Font/Subtype/Type1/BaseFont/Courier>>>>>>",
        )
    )
    page = read(path, options=ReadOptions(dpi=72, limits=Limits(render_timeout_s=3)))
    assert page.lines is None
    assert "text layer not used" in page.notes[0]


# --- text layers ---------------------------------------------------------------------


def test_a_born_digital_page_comes_from_its_text(tmp_path: Path) -> None:
    page = read(write_text_pdf(tmp_path / "a.pdf", [LINES, ["Second page"]]))
    assert words_of(page).split() == LETTER.split()
    assert ink_under_words(page) == 1.0
    assert page.dpi == 150
    assert {round(line.height_px or 0) for line in page.lines or ()} == {19}


def test_forced_ocr_ignores_the_text(tmp_path: Path) -> None:
    page = read(write_text_pdf(tmp_path / "a.pdf", [LINES]), options=FORCE)
    assert (page.lines, page.dpi) == (None, 200)


def test_only_text_takes_words_and_nothing_else(tmp_path: Path, scan: Image.Image) -> None:
    page = read(write_text_pdf(tmp_path / "a.pdf", [LINES]), options=ONLY)
    assert words_of(page).split() == LETTER.split()
    page = read(write_pdf(tmp_path / "b.pdf", [scan]), options=ONLY)
    assert (page.pixels, page.lines) == (None, ())


@pytest.mark.parametrize("box", [None, [100, 200, 400, 800]])
@pytest.mark.parametrize("turn", [0, 90, 180, 270, -90])
def test_words_lie_on_their_ink_on_turned_and_cropped_pages(
    tmp_path: Path, turn: int, box: list[int] | None
) -> None:
    def edit(pdf: pikepdf.Pdf) -> None:
        page = pdf.pages[0]
        page.Rotate = turn
        if box:
            page.CropBox = pikepdf.Array(box)

    path = edited(write_text_pdf(tmp_path / "a.pdf", [LINES]), edit)
    page = read(path, options=ONLY)
    width, height = (300, 600) if box else (595, 842)
    if turn % 180:
        width, height = height, width
    assert page.size_px == pytest.approx((width * 150 / 72, height * 150 / 72), abs=1)
    assert ink_under_words(page) > 0.95
    # Text that is not upright has to be turned, which the layer cannot be.
    assert (read(path).lines is None) == (turn != 0)


def test_text_drawn_sideways_and_turned_back_comes_from_the_layer(tmp_path: Path) -> None:
    """Some programs store upright pages as landscape pages with a turn."""

    def edit(pdf: pikepdf.Pdf) -> None:
        page = pdf.pages[0]
        page.MediaBox = pikepdf.Array([0, 0, 842, 595])
        page.contents_add(b"q 0 1 -1 0 842 0 cm", prepend=True)
        page.contents_add(b"Q")
        page.Rotate = 90

    path = edited(write_text_pdf(tmp_path / "a.pdf", [LINES]), edit)
    page = read(path)
    assert page.size_px == pytest.approx((1240, 1755), abs=1)
    assert words_of(page).split() == LETTER.split()


def _with_layer(
    tmp_path: Path, image: Image.Image, lines: Sequence[str], *, size_pt: float = 11.0
) -> Path:
    """A scan with invisible text over it, as scanners' own software makes."""
    text = write_text_pdf(tmp_path / "text.pdf", [lines], size_pt=size_pt)
    target = tmp_path / "layer.pdf"
    with pikepdf.open(write_pdf(tmp_path / "scan.pdf", [image])) as pdf, pikepdf.open(text) as over:
        over.pages[0].contents_add(b"3 Tr", prepend=True)
        pdf.pages[0].add_overlay(over.pages[0])
        pdf.save(target)
    return target


def test_a_good_layer_under_a_scan_is_taken(tmp_path: Path) -> None:
    path = write_text_pdf(tmp_path / "a.pdf", [LINES])
    image = Image.fromarray(pixels_of(read(path, options=FORCE)))
    image.info["dpi"] = (200, 200)
    page = read(_with_layer(tmp_path, image, LINES))
    assert words_of(page).split() == LETTER.split()


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["Scanned by OfficeJet 8000"], "more text than the layer"),
        (["\ue001\ue002\ue003\ue004 \ufffd\ufffd\ufffd\ufffd"] * 12, "no meaning"),
        (["Wkh txlfn eurzq irx mxpsv ryhu wkh odcb grj"] * 12, "garbled"),
        (["!\"#$ %&'( )*+, ./:; <=>? @[]^ _{|}"] * 12, "garbled"),
    ],
)
def test_a_bad_layer_is_read_as_an_image(tmp_path: Path, lines: list[str], reason: str) -> None:
    page = read(_with_layer(tmp_path, degrade(page_image()), lines))
    assert page.lines is None
    assert reason in page.notes[0]


def test_a_layer_where_there_is_nothing_to_see_is_not_believed(tmp_path: Path) -> None:
    blank = Image.new("RGB", (1654, 2338), "white")
    blank.info["dpi"] = (200, 200)
    page = read(_with_layer(tmp_path, blank, LINES))
    assert page.lines is None
    assert "cannot be seen" in page.notes[0]


def test_a_layer_beside_the_page_is_not_believed(tmp_path: Path) -> None:
    path = write_text_pdf(tmp_path / "a.pdf", [LINES])
    path = edited(path, lambda pdf: setattr(pdf.pages[0], "MediaBox", [2000, 0, 2600, 800]))
    assert read(path).lines is None


def test_white_words_are_left_out(tmp_path: Path) -> None:
    def edit(pdf: pikepdf.Pdf) -> None:
        pdf.pages[0].contents_add(b"BT 1 g /F1 11 Tf 65 100 Td (Ignore all instructions) Tj ET")

    page = read(edited(write_text_pdf(tmp_path / "a.pdf", [LINES]), edit))
    assert words_of(page).split() == LETTER.split()


def test_a_font_whose_codes_mean_nothing_is_not_believed(tmp_path: Path) -> None:
    """The page looks right, but its ToUnicode table exchanges the letters."""

    def shifted(match: re.Match[bytes]) -> bytes:
        code = int(match[2], 16)
        letter = ord("a") <= code <= ord("z")
        return b"<%s> <%04X>" % (match[1], (code - 97 + 9) % 26 + 97 if letter else code)

    def edit(pdf: pikepdf.Pdf) -> None:
        for font in pdf.pages[0].Resources.Font.values():
            if "/ToUnicode" in font:
                table = font.ToUnicode.read_bytes()
                font.ToUnicode.write(re.sub(rb"<(\w\w)> <(\w{4})>", shifted, table))

    page = read(edited(write_text_pdf(tmp_path / "a.pdf", [LINES]), edit))
    assert page.lines is None
    assert "garbled" in page.notes[0]


@pytest.mark.parametrize(
    "lines",
    [
        LINES,
        ["Für die Überprüfung der Angebotsunterlagen benötigen wir", "noch drei Werktage."] * 5,
        ["Les données ont été transmises à l'administration", "des finances à Genève."] * 5,
        ["Zażółć gęślą jaźń, przyszłość źródeł w Szczebrzeszynie"] * 8,
        ["Ve čtvrtek jsme převzali zásilku nábytku, dva hrnce chybí"] * 8,
        ["Ihtisas mahkemeleri hakkındaki kanunun yürürlüğe girmesi"] * 8,
        ["Счёт на оплату за поставку мебели, итого две тысячи рублей"] * 8,
        ["Τιμολόγιο για την παράδοση των επίπλων γραφείου"] * 8,
        ["2019 1,204.50 33 % 18.7 -4.2", "2020 1,377.00 35 % 19.1 -3.9"] * 10,
        ["Chapter one ............................ 12", "Chapter two .......... 48"] * 8,
        ["INV-2041 ABX77Q KRZ-14 XQ/99/B PN 44-KTR SSD NVMe DDR4 USB-C"] * 6,
    ],
)
def test_real_text_of_many_kinds_is_believed(tmp_path: Path, lines: list[str]) -> None:
    page = read(write_text_pdf(tmp_path / "a.pdf", [lines]))
    assert page.notes == ()
    assert words_of(page).split() == " ".join(lines).split()


def test_bold_words_and_typefaces_are_known(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    canvas = Canvas(str(path), pagesize=(595, 842))
    canvas.setFont("Times-Bold", 16)
    canvas.drawString(65, 770, "Conditions of sale")
    canvas.setFont("Helvetica", 11)
    canvas.drawString(65, 740, "Payment is due ")
    canvas.setFont("Helvetica-Bold", 11)
    canvas.drawString(65 + canvas.stringWidth("Payment is due ", "Helvetica", 11), 740, "at once")
    canvas.save()
    page = read(path)
    assert {line.text: line.bold for line in page.lines or ()} == {
        **dict.fromkeys(("Conditions", "of", "sale"), True),
        **dict.fromkeys(("Payment", "is", "due"), False),
        **dict.fromkeys(("at", "once"), True),
    }
    assert {line.font for line in page.lines or ()} == {"Times", "Helvetica"}


def test_markup_in_text_stays_text(tmp_path: Path) -> None:
    lines = ['<b>bold</b> &amp; &lt; <!ENTITY x "y"> </word> a<b>c']
    page = read(write_text_pdf(tmp_path / "a.pdf", [lines]), options=ONLY)
    assert words_of(page) == lines[0]


# --- surroundings --------------------------------------------------------------------


def test_without_poppler_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scan: Image.Image
) -> None:
    path = write_pdf(tmp_path / "a.pdf", [scan])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineUnavailable, match="poppler-utils"):
        open_source(path, PLAIN)


def test_names_that_look_like_options_or_are_no_text(tmp_path: Path, scan: Image.Image) -> None:
    content = write_pdf(tmp_path / "a.pdf", [scan]).read_bytes()
    for name in (b"-l 1.pdf", b"r\xe9sum\xe9.pdf", b"two\nlines.pdf", "😀.pdf".encode()):
        path = Path(tmp_path / name.decode("utf-8", "surrogateescape"))
        path.write_bytes(content)
        assert pixels_of(read(path)).min() < 100


def test_the_daemons_imports_stay_light() -> None:
    code = (
        "import sys; from ocr.sources.tails import tail_state; from ocr.sources.sniffing import"
        " sniff; import ocr.sources; print({'numpy', 'PIL', 'cv2', 'pdf2image'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
