"""Every page with its boxes and labels over the scan, as a PDF.

Made only when asked for: it shows at a glance what was taken for what. Pages are
drawn and written one at a time, so that memory does not grow with the document.
"""

# Pillow's drawing objects and file objects of any kind.
# ruff: noqa: ANN401

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocr.document import Block, BlockKind, Page
from ocr.errors import OcrError, PageError
from ocr.options import ReadOptions
from ocr.sources import open_source

if TYPE_CHECKING:
    from PIL import Image

    from ocr.sources import Source

_LONGEST_PX = 1600
_QUALITY = 80
_DEFAULT_DPI = 200.0
_GREY = (90, 90, 90)
_COLOURS: dict[BlockKind, tuple[int, int, int]] = {
    BlockKind.TITLE: (170, 0, 60),
    BlockKind.HEADING: (200, 60, 0),
    BlockKind.PARAGRAPH: (0, 90, 200),
    BlockKind.LIST_ITEM: (0, 130, 160),
    BlockKind.TABLE: (0, 130, 40),
    BlockKind.FIGURE: (130, 0, 170),
    BlockKind.CAPTION: (160, 90, 170),
    BlockKind.FORMULA: (150, 110, 0),
    BlockKind.CODE: (60, 80, 110),
}


def write_layout_pdf(
    pages: Iterable[Page],
    source_path: Path,
    target: Path,
    options: ReadOptions | None = None,
) -> int:
    """Write the pages of a source with their blocks drawn over them.

    Args:
        pages: As read, in the order they shall appear.
        source_path: The file they were read from.
        target: The PDF to write, `<name>.layout.pdf`.
        options: As for reading: resolution, passwords, limits.

    Returns:
        How many pages were written.

    Raises:
        SourceError: The source cannot be opened (any more).
        OcrError: The PDF cannot be written.
    """
    try:
        with (
            open_source(source_path, options or ReadOptions()) as source,
            target.open("wb") as file,
        ):
            pdf = _Pdf(file)
            for page in pages:
                image = draw_page(page, source)
                pdf.add_page(image, (page.dpi or _DEFAULT_DPI) * image.width / page.size_px[0])
            pdf.finish()
            return pdf.pages
    except OSError as error:
        raise OcrError(f"The layout picture {target} cannot be written: {error}.") from error


def draw_page(page: Page, source: Source) -> Image.Image:
    """One page as an RGB picture, at most 1,600 px long, its blocks framed and named."""
    from PIL import ImageDraw, ImageFont

    image, scale = _background(page, source)
    drawing = ImageDraw.Draw(image, "RGBA")
    font = ImageFont.load_default(13)
    for number, block in enumerate(page.blocks, start=1):
        _draw_block(drawing, block, number, scale, font)
    if page.reason:
        drawing.text((6, image.height - 20), f"{page.status}: {page.reason}", (190, 0, 0), font)
    return image


def _background(page: Page, source: Source) -> tuple[Image.Image, float]:
    """The scan as a picture, white where it cannot be shown, and its scale."""
    from PIL import Image

    width, height = (max(1, side) for side in page.size_px)
    scale = min(1.0, _LONGEST_PX / max(width, height))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    try:
        pixels = source.page(page.page_index).pixels
    except (PageError, IndexError):
        pixels = None
    if pixels is None:
        return Image.new("RGB", size, "white"), scale
    return Image.fromarray(pixels).convert("RGB").resize(size), scale


def _draw_block(drawing: Any, block: Block, number: int, scale: float, font: Any) -> None:
    colour = _COLOURS.get(block.kind, _GREY)
    left, top = block.bbox.left * scale, block.bbox.top * scale
    right = max(left + 1, block.bbox.right * scale)
    bottom = max(top + 1, block.bbox.bottom * scale)
    drawing.rectangle(
        (left, top, right, bottom), fill=(*colour, 28), outline=(*colour, 255), width=2
    )
    label = f"{number} {block.kind}"
    wide = drawing.textlength(label, font) + 6
    above = max(0.0, top - 16)
    drawing.rectangle((left, above, left + wide, above + 16), fill=(*colour, 230))
    drawing.text((left + 3, above), label, (255, 255, 255, 255), font)


class _Pdf:
    """Writes pages that are one JPEG each, as they come.

    Source: ISO 32000-1, 7.5 (file structure) and 7.4.8 (DCTDecode).
    """

    _CATALOG, _TREE = 1, 2

    def __init__(self, file: Any) -> None:
        self._file = file
        self._offsets: dict[int, int] = {}
        self._kids: list[int] = []
        self._next = 3
        file.write(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")

    @property
    def pages(self) -> int:
        return len(self._kids)

    def add_page(self, image: Image.Image, dpi: float) -> None:
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=_QUALITY)
        data = buffer.getvalue()
        picture, content, page = self._next, self._next + 1, self._next + 2
        self._next += 3
        across, down = (side * 72 / dpi for side in image.size)
        self._object(
            picture,
            f"<< /Type /XObject /Subtype /Image /Width {image.width} /Height {image.height} "
            "/ColorSpace /DeviceRGB /BitsPerComponent 8 /Filter /DCTDecode "
            f"/Length {len(data)} >>",
            data,
        )
        show = f"q {across:.2f} 0 0 {down:.2f} 0 0 cm /Page Do Q".encode()
        self._object(content, f"<< /Length {len(show)} >>", show)
        self._object(
            page,
            f"<< /Type /Page /Parent {self._TREE} 0 R /MediaBox [0 0 {across:.2f} {down:.2f}] "
            f"/Contents {content} 0 R /Resources << /XObject << /Page {picture} 0 R >> >> >>",
        )
        self._kids.append(page)

    def finish(self) -> None:
        kids = " ".join(f"{kid} 0 R" for kid in self._kids)
        self._object(self._TREE, f"<< /Type /Pages /Count {len(self._kids)} /Kids [{kids}] >>")
        self._object(self._CATALOG, f"<< /Type /Catalog /Pages {self._TREE} 0 R >>")
        start = self._file.tell()
        lines = [f"xref\n0 {self._next}\n", "0000000000 65535 f \n"]
        lines += [f"{self._offsets[number]:010d} 00000 n \n" for number in range(1, self._next)]
        lines.append(f"trailer << /Size {self._next} /Root {self._CATALOG} 0 R >>\n")
        lines.append(f"startxref\n{start}\n%%EOF\n")
        self._file.write("".join(lines).encode("ascii"))

    def _object(self, number: int, dictionary: str, stream: bytes | None = None) -> None:
        self._offsets[number] = self._file.tell()
        self._file.write(f"{number} 0 obj\n{dictionary}\n".encode("ascii"))
        if stream is not None:
            self._file.write(b"stream\n" + stream + b"\nendstream\n")
        self._file.write(b"endobj\n")
