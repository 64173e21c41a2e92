"""Pages as an office scanner would deliver them, made on the spot.

Nothing here is downloaded: text is set in DejaVu (Debian's fonts-dejavu-core),
worn the way a scanner wears it, and saved as real PDF, TIFF and image files.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import img2pdf
import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from PIL.TiffImagePlugin import AppendingTiffWriter
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

FONTS = Path("/usr/share/fonts/truetype/dejavu")
A4_IN = (8.27, 11.69)
LETTER = (
    "Northwind Office Supplies\n"
    "14 Harbour Street, Bristol\n"
    "\n"
    "Dear Mrs Hartley,\n"
    "\n"
    "Thank you for your order of 3 March. The twelve filing cabinets\n"
    "were shipped this morning and should reach you on Thursday.\n"
    "Please check the delivery for damage before you sign for it.\n"
    "\n"
    "Invoice number 20417 is enclosed. The total is 1,284.50 pounds,\n"
    "payable within thirty days.\n"
    "\n"
    "Yours sincerely,\n"
    "Peter Lindqvist\n"
)


def page_image(
    text: str = LETTER,
    *,
    dpi: int = 200,
    font: str = "DejaVuSans.ttf",
    size_pt: float = 11.0,
    paper_in: tuple[float, float] = A4_IN,
    margin_in: float = 0.9,
) -> Image.Image:
    """A clean white page (mode RGB) with the lines of `text` set on it."""
    width_px, height_px = (round(side * dpi) for side in paper_in)
    page = Image.new("RGB", (width_px, height_px), "white")
    draw = ImageDraw.Draw(page)
    face = ImageFont.truetype(str(FONTS / font), round(size_pt * dpi / 72))
    left = top = margin_in * dpi
    for number, line in enumerate(text.split("\n")):
        draw.text((left, top + number * size_pt * 1.4 * dpi / 72), line, fill="black", font=face)
    page.info["dpi"] = (dpi, dpi)
    return page


def degrade(image: Image.Image, seed: int = 1) -> Image.Image:
    """The page as it comes off the glass: a little askew, soft, grey and noisy."""
    chance = np.random.default_rng(seed)
    worn = image.convert("L").rotate(
        float(chance.uniform(-0.7, 0.7)), resample=Image.Resampling.BICUBIC, fillcolor=255
    )
    worn = worn.filter(ImageFilter.GaussianBlur(float(chance.uniform(0.4, 0.8))))
    ink = np.asarray(worn, dtype=np.float32) / 255.0
    height, width = ink.shape
    across = np.linspace(chance.uniform(0.0, 8.0), chance.uniform(0.0, 8.0), width)
    paper = chance.uniform(238, 250) - across[None, :].astype(np.float32)
    grey = 35.0 + ink * (paper - 35.0) + chance.normal(0, 4.0, (height, width))
    scan = Image.fromarray(np.clip(grey, 0, 255).astype(np.uint8)).convert("RGB")
    if "dpi" in image.info:
        scan.info["dpi"] = image.info["dpi"]
    return scan


def jpeg_bytes(image: Image.Image, *, quality: int = 85, **settings: object) -> bytes:
    """The image as a JPEG file in memory, with its resolution."""
    buffer = io.BytesIO()
    plain = image if image.mode in {"RGB", "L", "CMYK"} else image.convert("RGB")
    plain.save(buffer, "JPEG", quality=quality, dpi=dpi_of(image), **settings)
    return buffer.getvalue()


def dpi_of(image: Image.Image) -> tuple[int, int]:
    """The resolution noted on the image, 200 dpi where none is."""
    across, down = image.info.get("dpi", (200, 200))
    return round(across), round(down)


def write_pdf(path: Path, images: Sequence[Image.Image], *, quality: int = 85) -> Path:
    """A scanned PDF: one JPEG per page and no text layer."""
    path.write_bytes(img2pdf.convert([jpeg_bytes(image, quality=quality) for image in images]))
    return path


def write_text_pdf(
    path: Path,
    pages_of_lines: Iterable[Sequence[str]],
    *,
    font: str = "DejaVuSans.ttf",
    size_pt: float = 11.0,
    compress: bool = True,
) -> Path:
    """A born-digital A4 PDF: every page a list of lines, as real text."""
    pdfmetrics.registerFont(TTFont(font, str(FONTS / font)))
    canvas = Canvas(str(path), pagesize=(595.0, 842.0), pageCompression=int(compress))
    for lines in pages_of_lines:
        canvas.setFont(font, size_pt)
        for number, line in enumerate(lines):
            canvas.drawString(65, 770 - number * size_pt * 1.4, line)
        canvas.showPage()
    canvas.save()
    return path


def write_tiff(
    path: Path, images: Sequence[Image.Image], compression: str | Sequence[str] | None = None
) -> Path:
    """A multi-page TIFF.

    `compression` is Pillow's name (`group4`, `tiff_lzw`, `jpeg`, `packbits`,
    None), or one name per page. Pages for `group4` and `group3` become 1-bit.
    """
    names = [compression] * len(images) if isinstance(compression, str | None) else compression
    parts = []
    for image, name in zip(images, names, strict=True):
        bilevel = name in {"group3", "group4"}
        buffer = io.BytesIO()
        page = image.convert("L").point(lambda v: 255 * (v > 128), "1") if bilevel else image
        page.save(buffer, "TIFF", compression=name or "raw", dpi=dpi_of(image))
        parts.append(buffer.getvalue())
    path.write_bytes(_joined(parts))
    return path


def _joined(parts: Sequence[bytes]) -> bytes:
    """Single-page TIFFs as one file, each page keeping its own compression."""

    whole = io.BytesIO()
    with AppendingTiffWriter(whole, new=True) as writer:
        for part in parts:
            writer.write(part)
            writer.newFrame()
    return whole.getvalue()
