"""The CPU engine reads pages of known truth with its real models."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from ocr.document import BBox, BlockKind, Line, Page, TextOrigin
from ocr.engines.base import PageImage
from ocr.engines.rapid.engine import RapidEngine
from ocr.imaging.transform import Transform
from ocr.options import Profile, ReadOptions
from tests.samples import degrade, page_image

ENGLISH = (
    "Quarterly report of the harbour office\n\n"
    "The number of ships that entered the port rose by twelve\n"
    "percent, from 1,284 to 1,438. Most of them carried timber,\n"
    "paper and machine parts; only 96 came in for repairs.\n\n"
    "Fees of 48,250.75 were collected and paid to the council."
)
GERMAN = (
    "Sehr geehrte Frau Müller,\n\n"
    "wir bestätigen den Eingang Ihrer Bestellung über zwölf\n"
    "Aktenschränke. Die Lieferung erfolgt am 14. März an die\n"
    "Straße Am Brückenkopf 7 in Köln. Größe: 180 × 90 cm."
)
FRENCH = (
    "Madame, Monsieur,\n\n"
    "Nous avons bien reçu votre commande du 3 février et vous\n"
    "remercions de votre confiance. Le délai de livraison est\n"
    "de six semaines; le règlement s'effectue à réception."
)
SPANISH = (
    "Estimada señora Núñez:\n\n"
    "Le enviamos la factura número 4071 por el suministro del\n"
    "año pasado. ¿Podría confirmarnos la dirección de envío?\n"
    "El pago se realizará en un plazo de treinta días."
)


@pytest.fixture(scope="module")
def engine() -> Iterator[RapidEngine]:
    loaded = RapidEngine(threads=2)
    loaded.load()
    yield loaded
    loaded.unload()


def _read(engine: RapidEngine, pixels: np.ndarray, options: ReadOptions | None = None) -> Page:
    image = PageImage(0, (pixels.shape[1], pixels.shape[0]), pixels)
    return engine.read(image, options or ReadOptions())


def _words(text: str) -> list[str]:
    return text.split()


def _found(page: Page, truth: str) -> float:
    """Share of the words that were read, in their order."""
    read = [word for block in page.blocks for word in _words(block.text)]
    meant = _words(truth)
    same = difflib.SequenceMatcher(None, meant, read, autojunk=False).get_matching_blocks()
    return sum(block.size for block in same) / len(meant)


def _scan(text: str, *, seed: int, dpi: int = 150, font: str = "DejaVuSans.ttf") -> np.ndarray:
    page = page_image(text, dpi=dpi, font=font, paper_in=(6.5, 4.0), margin_in=0.6)
    return np.asarray(degrade(page, seed=seed))


@pytest.mark.parametrize(
    ("text", "font"),
    [
        (ENGLISH, "DejaVuSerif.ttf"),
        (GERMAN, "DejaVuSans.ttf"),
        (FRENCH, "DejaVuSans-Bold.ttf"),
        (SPANISH, "DejaVuSans.ttf"),
        (ENGLISH, "DejaVuSansMono.ttf"),
    ],
)
@pytest.mark.parametrize("profile", list(Profile))
def test_european_languages_are_read(
    engine: RapidEngine, text: str, font: str, profile: Profile
) -> None:
    page = _read(engine, _scan(text, seed=7, font=font), ReadOptions(profile=profile))
    assert _found(page, text) >= 0.95


@pytest.mark.parametrize("turns", [1, 2, 3])
@pytest.mark.parametrize("tilt", [-10.0, 0.0, 6.0])
def test_any_side_up_and_any_tilt(engine: RapidEngine, turns: int, tilt: float) -> None:
    scan = _scan(ENGLISH, seed=3)
    chain = Transform.identity((scan.shape[1], scan.shape[0])).tilt(tilt).turn(turns)
    page = _read(engine, chain.apply(scan, border=240))
    assert _found(page, ENGLISH) >= 0.95
    box = next(word for line in _lines(page) for word in line.words if word.text == "collected")
    upright = _read(engine, scan)
    meant = next(w for line in _lines(upright) for w in line.words if w.text == "collected")
    centre = chain.from_scan([_centre(meant.bbox)])[0]
    assert np.hypot(*(centre - _centre(box.bbox))) < 12, "boxes are in pixels of the scan"


def _lines(page: Page) -> list[Line]:
    return [line for block in page.blocks for line in block.lines]


def _centre(box: BBox) -> tuple[float, float]:
    return ((box.left + box.right) / 2, (box.top + box.bottom) / 2)


def test_without_pre_correction_a_page_is_not_turned(engine: RapidEngine) -> None:
    scan = np.ascontiguousarray(np.rot90(_scan(ENGLISH, seed=3), 2))
    page = _read(engine, scan, ReadOptions(pre_correction=False))
    assert not any("turn" in note for note in page.notes)
    assert _found(page, ENGLISH) < 0.5


@pytest.mark.parametrize("dpi", [72, 100, 400])
def test_coarse_and_fine_scans(engine: RapidEngine, dpi: int) -> None:
    assert _found(_read(engine, _scan(ENGLISH, seed=5, dpi=dpi)), ENGLISH) >= 0.9


def test_a_fax_with_specks_is_read(engine: RapidEngine) -> None:
    grey = cv2.cvtColor(_scan(ENGLISH, seed=2, dpi=200), cv2.COLOR_RGB2GRAY)
    fax = np.where(grey > 150, 255, 0).astype(np.uint8)
    chance = np.random.default_rng(9).random(fax.shape)
    fax[chance < 0.01] = 0
    fax[chance > 0.99] = 255
    page = _read(engine, np.repeat(fax[..., None], 3, axis=2))
    assert _found(page, ENGLISH) >= 0.9


def test_a_photographed_sheet_is_flattened_and_read(engine: RapidEngine) -> None:
    sheet = _scan(ENGLISH, seed=4, dpi=200)
    height, width = sheet.shape[:2]
    flat = np.float32([[0, 0], [width, 0], [width, height], [0, height]])
    corners = np.float32([[160, 190], [1260, 120], [1380, 900], [90, 830]])
    matrix = cv2.getPerspectiveTransform(flat, corners)
    photo = cv2.warpPerspective(sheet, matrix, (1500, 1050), borderValue=(60, 50, 40))
    shade = np.linspace(1.0, 0.55, 1500)[None, :, None]
    page = _read(engine, (photo * shade).astype(np.uint8))
    assert any("flatten" in note for note in page.notes)
    assert _found(page, ENGLISH) >= 0.95


@pytest.mark.parametrize("paper", [(255, 240, 120), (170, 210, 255)])
def test_coloured_paper(engine: RapidEngine, paper: tuple[int, int, int]) -> None:
    scan = _scan(ENGLISH, seed=6).astype(np.float32) / 255 * np.array(paper)
    assert _found(_read(engine, scan.astype(np.uint8)), ENGLISH) >= 0.95


def test_chinese_keeps_its_punctuation(engine: RapidEngine) -> None:
    fonts = [
        *Path("/usr/share/fonts").rglob("DroidSansFallback*.ttf"),
        *Path("/usr/share/fonts").rglob("NotoSansCJK*Regular*"),
    ]
    if not fonts:
        pytest.skip("no font with Chinese characters is installed")
    page = Image.new("RGB", (900, 260), "white")
    face = ImageFont.truetype(str(fonts[0]), 30)
    lines = ["第一组由班长、射手和助手组成。", "总金额为三千二百元，请在月底前付清。"]
    for number, line in enumerate(lines):
        ImageDraw.Draw(page).text((60, 50 + number * 70), line, fill="black", font=face)
    text = "".join(block.text for block in _read(engine, np.asarray(page)).blocks)
    assert "第一组由班长、射手和助手组成。" in text
    assert "总金额为三千二百元，请在月底前付清。" in text


@pytest.mark.parametrize("way", [Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_270])
def test_a_label_that_runs_up_or_down_the_page(engine: RapidEngine, way: Image.Transpose) -> None:
    page = page_image(ENGLISH, dpi=150, paper_in=(7.0, 4.0), margin_in=1.0)
    face = ImageFont.truetype("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", 26)
    label = Image.new("RGB", (300, 40), "white")
    ImageDraw.Draw(label).text((5, 4), "Tonnage per month", fill="black", font=face)
    page.paste(label.transpose(way), (40, 120))
    read = " ".join(block.text for block in _read(engine, np.asarray(page)).blocks)
    assert "Tonnage per month" in read
    assert "machine parts; only 96" in read


def test_words_of_a_text_layer_are_taken_as_they_are(engine: RapidEngine) -> None:
    words = ("Zahlbar", "bis", "Freitag")
    lines = tuple(
        Line(word, BBox(100 + 130 * i, 100, 210 + 130 * i, 130)) for i, word in enumerate(words)
    )
    page = engine.read(PageImage(4, (800, 600), None, lines=lines), ReadOptions())
    assert page.origin is TextOrigin.TEXT_LAYER
    assert page.page_index == 4
    assert " ".join(block.text for block in page.blocks) == "Zahlbar bis Freitag"


def test_figures_are_saved_where_asked(engine: RapidEngine, tmp_path: Path) -> None:
    scan = np.array(page_image(ENGLISH, dpi=150))
    chance = np.random.default_rng(1)
    small = chance.integers(0, 255, (12, 16, 3)).astype(np.uint8)
    scan[700:1150, 300:900] = cv2.resize(small, (600, 450), interpolation=cv2.INTER_CUBIC)
    page = _read(engine, scan, ReadOptions(assets_dir=tmp_path / "report.assets"))
    figures = [block for block in page.blocks if block.kind is BlockKind.FIGURE]
    for figure in figures:
        assert figure.asset is not None
        saved = cv2.imread(str(tmp_path / "report.assets" / figure.asset))
        assert abs(saved.shape[1] - figure.bbox.width) <= 2
    assert figures


def test_an_unloaded_engine_loads_itself_again(engine: RapidEngine) -> None:
    engine.unload()
    assert _found(_read(engine, _scan(ENGLISH, seed=8)), ENGLISH) >= 0.95
