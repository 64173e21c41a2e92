"""Whether a JPEG that decodes without an error is whole all the same.

JPEG decoders go on after a broken spot with whatever comes out, and Pillow keeps
libjpeg's warning to itself. Poppler passes it on, so it is shown the picture, put
into a PDF; that takes 20 ms, and no pixel of it is used.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from ocr.errors import EngineUnavailable
from ocr.options import Limits
from ocr.sources.poppler.tools import Poppler, ToolFailed

_CHECK_DPI = 10.0
_MOST_BYTES = 64 * 1024 * 1024
_COLOURS = {1: b"DeviceGray", 3: b"DeviceRGB", 4: b"DeviceCMYK"}
_BROKEN = re.compile(r"corrupt jpeg data: (premature end|bad huffman)", re.IGNORECASE)


def jpeg_is_broken(path: Path, size_px: tuple[int, int], components: int, limits: Limits) -> bool:
    """Whether libjpeg warns of broken data; False too where that cannot be found out.

    Args:
        path: A JPEG.
        size_px: Width and height from its header.
        components: Colour channels from its header.
        limits: For poppler.
    """
    colours = _COLOURS.get(components)
    if colours is None or path.stat().st_size > _MOST_BYTES:
        return False
    with tempfile.TemporaryDirectory(prefix="scanmd-jpeg-") as folder:
        wrapped = Path(folder) / "picture.pdf"
        wrapped.write_bytes(_as_pdf(path.read_bytes(), size_px, colours))
        try:
            poppler = Poppler(wrapped, limits)
        except EngineUnavailable:
            return False
        try:
            poppler.render(1, _CHECK_DPI)
        except ToolFailed:
            return False
        else:
            return any(_BROKEN.search(line) for line in poppler.complaints("pdftoppm"))
        finally:
            poppler.close()


def _as_pdf(jpeg: bytes, size_px: tuple[int, int], colours: bytes) -> bytes:
    """A PDF whose only page, one inch wide and high, is the picture."""
    draw = b"72 0 0 72 0 0 cm /P Do"
    width, height = size_px
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 72 72]/Contents 4 0 R"
        b"/Resources<</XObject<</P 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(draw), draw),
        b"<</Type/XObject/Subtype/Image/Width %d/Height %d/BitsPerComponent 8/ColorSpace/%s"
        b"/Filter/DCTDecode/Length %d>>stream\n%s\nendstream"
        % (width, height, colours, len(jpeg), jpeg),
    )
    body, table = b"%PDF-1.4\n", b""
    for number, content in enumerate(objects, start=1):
        table += b"%010d 00000 n \n" % len(body)
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    count = len(objects) + 1
    return body + (
        b"xref\n0 %d\n0000000000 65535 f \n%s"
        b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n"
        % (count, table, count, len(body))
    )
