"""Whether a file's end says that it is complete.

Pure standard library with bounded reads: the daemon process asks this of every
new file, and the file may be half written or hostile. A wrong "cut" only costs
waiting; so in doubt the answer is never "whole".
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from enum import StrEnum

from ocr.sources.sniffing import HEAD_BYTES, SourceKind, pdf_start, sniff
from ocr.sources.tiff_structure import TiffBroken, TiffTooComplex, walk_tiff

_TAIL_BYTES = 64 * 1024
_PDF_TAIL_BYTES = 1024
_PADDING = b"\0\xff \t\r\n\x1a"
_MAX_BOXES = 4096
_MAX_JPEG_SEGMENTS = 4096


class TailState(StrEnum):
    """What the end of a file says about its completeness."""

    WHOLE = "whole"
    CUT = "cut"
    """Something is missing: still being written, or broken off."""
    UNKNOWN = "unknown"
    """The kind is not known or has no end of its own (TIFF)."""


def tail_state(fd: int) -> TailState:
    """Whether the open file is whole for its kind.

    A TIFF is never WHOLE: grown page by page, it is valid after each page, so
    it answers UNKNOWN when everything it refers to is there.

    Args:
        fd: A regular file open for reading; its position is not moved.

    Raises:
        OSError: The file cannot be read.
    """
    size = os.fstat(fd).st_size
    if size == 0:
        return TailState.CUT
    head = os.pread(fd, HEAD_BYTES, 0)
    kind = sniff(head)
    return TailState.UNKNOWN if kind is None else _CHECKS[kind](fd, size, head)


def _tail(fd: int, size: int, length: int = _TAIL_BYTES) -> bytes:
    length = min(length, size)
    return os.pread(fd, length, size - length)


def _pdf(fd: int, size: int, head: bytes) -> TailState:
    start = pdf_start(head) or 0
    linearized = re.search(rb"/Linearized\b.{0,512}?/L\s+(\d{1,19})", head[start:], re.DOTALL)
    # A linearized file saved again grows beyond /L; only a shorter one is cut.
    if linearized and size < int(linearized[1]):
        return TailState.CUT
    tail = _tail(fd, size, _PDF_TAIL_BYTES)
    end = re.search(rb"startxref\s+(\d{1,19})\s+%%EOF(?!.*startxref)", tail, re.DOTALL)
    if end is None:
        return TailState.CUT
    for offset in {int(end[1]), int(end[1]) + start}:
        if 0 < offset < size:
            target = os.pread(fd, 64, offset)
            if re.match(rb"\s{0,16}(xref\b|\d{1,10}\s+\d{1,5}\s+obj\b)", target):
                return TailState.WHOLE
    return TailState.CUT


def _jpeg(fd: int, size: int, head: bytes) -> TailState:
    if not _jpeg_reaches_scan(fd, size):
        return TailState.CUT
    tail = _tail(fd, size)
    if tail.rstrip(_PADDING).endswith(b"\xff\xd9") or tail.rstrip(b"\0 \t\r\n\x1a").endswith(
        b"\xff\xd9"
    ):
        return TailState.WHOLE
    # Some phones append data of their own behind the end of the image.
    return TailState.UNKNOWN if b"\xff\xd9" in tail else TailState.CUT


def _jpeg_reaches_scan(fd: int, size: int) -> bool:
    """Whether the segments in front of the first scan are all inside the file.

    A thumbnail inside them has an end mark of its own, which must not count.
    """
    offset = 2
    for _ in range(_MAX_JPEG_SEGMENTS):
        marker = os.pread(fd, 4, offset)
        if len(marker) < 4 or marker[0] != 0xFF:
            return False
        if marker[1] == 0xFF:
            offset += 1
            continue
        if marker[1] == 0xDA:
            return True
        offset += 2 + int.from_bytes(marker[2:4], "big")
        if offset >= size:
            return False
    return False


def _png(fd: int, size: int, head: bytes) -> TailState:
    tail = _tail(fd, size)
    end = tail.rfind(b"\0\0\0\0IEND\xae\x42\x60\x82")
    if end < 0:
        return TailState.CUT
    return TailState.UNKNOWN if tail[end + 12 :].strip(_PADDING) else TailState.WHOLE


def _gif(fd: int, size: int, head: bytes) -> TailState:
    tail = _tail(fd, size).rstrip(b"\0 \t\r\n\x1a")
    # The mark alone (";") is an ordinary byte inside a picture; with the block
    # terminator before it, chance is 1 in 65,536.
    return TailState.WHOLE if tail.endswith(b"\0;") else TailState.CUT


def _declared(fd: int, size: int, declared: int) -> TailState:
    """For formats that only state their length.

    A copy program may set the length first and fill in the bytes later, so an
    end of nothing but zeros proves nothing.
    """
    if declared > size:
        return TailState.CUT
    end = os.pread(fd, 512, max(0, min(declared, size) - 512))
    return TailState.WHOLE if end.strip(b"\0") else TailState.UNKNOWN


def _webp(fd: int, size: int, head: bytes) -> TailState:
    return _declared(fd, size, 8 + int.from_bytes(head[4:8], "little"))


def _bmp(fd: int, size: int, head: bytes) -> TailState:
    declared = int.from_bytes(head[2:6], "little")
    if declared < 26:
        declared = _bmp_length(head)
    return _declared(fd, size, declared)


def _bmp_length(head: bytes) -> int:
    """The length that follows from width, height and depth; some writers leave 0."""
    pixels_at = int.from_bytes(head[10:14], "little")
    width = abs(int.from_bytes(head[18:22], "little", signed=True))
    height = abs(int.from_bytes(head[22:26], "little", signed=True))
    depth = int.from_bytes(head[28:30], "little")
    compressed = int.from_bytes(head[30:34], "little") not in {0, 3}
    return pixels_at + (1 if compressed else height * ((width * depth + 31) // 32 * 4))


def _heic(fd: int, size: int, head: bytes) -> TailState:
    offset = 0
    kinds = set()
    for _ in range(_MAX_BOXES):
        box = os.pread(fd, 16, offset)
        if len(box) < 8:
            return TailState.CUT
        length = int.from_bytes(box[:4], "big")
        if length == 1 and len(box) == 16:
            length = int.from_bytes(box[8:], "big")
        kinds.add(box[4:8])
        if length == 0:
            return TailState.UNKNOWN
        if length < 8 or offset + length > size:
            return TailState.CUT
        offset += length
        if offset == size:
            return _declared(fd, size, size) if {b"meta"} <= kinds else TailState.CUT
    return TailState.UNKNOWN


def _tiff(fd: int, size: int, head: bytes) -> TailState:
    try:
        for _ in walk_tiff(fd, size, check_data=True):
            pass
    except TiffBroken:
        return TailState.CUT
    except TiffTooComplex:
        return TailState.UNKNOWN
    return TailState.UNKNOWN


_CHECKS: dict[SourceKind, Callable[[int, int, bytes], TailState]] = {
    SourceKind.PDF: _pdf,
    SourceKind.TIFF: _tiff,
    SourceKind.JPEG: _jpeg,
    SourceKind.PNG: _png,
    SourceKind.WEBP: _webp,
    SourceKind.BMP: _bmp,
    SourceKind.GIF: _gif,
    SourceKind.HEIC: _heic,
}
