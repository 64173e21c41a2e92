"""Puts a sample scan into an inbox: `python -m tests.seed_inbox inbox/sample.pdf`."""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from tests.samples import FONTS, degrade, page_image, write_pdf

DPI = 200
HEADING = "Delivery of 12 March"
LETTER = """\


Dear Mrs Hartley,

Thank you for your order. The filing cabinets were shipped this
morning and should reach you on Thursday. Before you sign for
the delivery, please check:

1. that all four parcels are there,
2. that no corner is dented,
3. that the keys are in the small box.

The invoice is made up as follows:
"""
CLOSING = """\
The total is payable within thirty days.

Yours sincerely,
Peter Lindqvist
Northwind Office Supplies, Bristol
"""
TABLE = [
    ("Item", "Quantity", "Price"),
    ("Filing cabinet", "12", "1,140.00"),
    ("Hanging folders", "200", "84.50"),
    ("Delivery", "1", "60.00"),
]


def sample_page() -> Image.Image:
    """A clean letter: heading, paragraph, list, ruled table, closing."""
    page = page_image(LETTER, dpi=DPI)
    draw = ImageDraw.Draw(page)
    left_px, row_px = 180, 60
    _text(draw, (left_px, 150), HEADING, size_pt=20, bold=True)
    top_px = 860
    columns_px = (left_px, 740, 1020, 1320)
    for number, row in enumerate(TABLE):
        for column_px, cell in zip(columns_px, row, strict=False):
            at = (column_px + 16, top_px + number * row_px + 12)
            _text(draw, at, cell, size_pt=11, bold=number == 0)
    bottom_px = top_px + len(TABLE) * row_px
    for number in range(len(TABLE) + 1):
        y = top_px + number * row_px
        draw.line((columns_px[0], y, columns_px[-1], y), fill="black", width=3)
    for x in columns_px:
        draw.line((x, top_px, x, bottom_px), fill="black", width=3)
    for number, line in enumerate(CLOSING.splitlines()):
        _text(draw, (left_px, bottom_px + 60 + number * 43), line, size_pt=11)
    return page


def _text(
    draw: ImageDraw.ImageDraw,
    at: tuple[int, int],
    text: str,
    *,
    size_pt: float,
    bold: bool = False,
) -> None:
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    face = ImageFont.truetype(str(FONTS / name), round(size_pt * DPI / 72))
    draw.text(at, text, fill="black", font=face)


def main(arguments: list[str]) -> int:
    """Write the scan unless there is one."""
    target = Path(arguments[0])
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        write_pdf(target, [degrade(sample_page())])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
