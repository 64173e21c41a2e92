"""The pages of a TIFF as its directories list them, read without decoding.

Pure standard library with bounded reads; loops and endless chains end.

Source: TIFF 6.0 (sections 2, 8, 15) and the BigTIFF proposal.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

MAX_DIRECTORIES = 20_000
_MAX_ENTRIES = 4096
_MAX_READ_BYTES = 32 * 1024 * 1024
_CHUNK_VALUES = 16_384

_TYPE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8}
_TYPE_BYTES |= {13: 4, 16: 8, 17: 8, 18: 8}
_INTEGERS = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}

_SUBFILE, _WIDTH, _HEIGHT = 254, 256, 257
_STRIP_OFFSETS, _STRIP_BYTES, _TILE_OFFSETS, _TILE_BYTES = 273, 279, 324, 325


class TiffBroken(Exception):
    """The structure refers to bytes that are not there, or to itself."""


class TiffTooComplex(Exception):
    """More directories or data blocks than can be looked at in bounded time."""


@dataclass(frozen=True, slots=True)
class TiffDirectory:
    """One image of the file. `is_page` is false for thumbnails and masks."""

    index: int
    offset: int
    width_px: int
    height_px: int
    is_page: bool


@dataclass(frozen=True, slots=True)
class _Entry:
    type: int
    count: int
    where: int
    """File offset of the values."""


class _File:
    """The file's bytes with a budget, and the byte order of its numbers."""

    def __init__(self, fd: int, size: int) -> None:
        header = os.pread(fd, 16, 0)
        self._fd = fd
        self._size = size
        self._budget = _MAX_READ_BYTES
        self.order = "<" if header[:2] == b"II" else ">"
        self.big = header[2:4] in {b"+\0", b"\0+"}
        if len(header) < (16 if self.big else 8):
            raise TiffBroken("the header is cut off")
        self.first = self.number(header[8:16] if self.big else header[4:8])

    def number(self, raw: bytes) -> int:
        return int.from_bytes(raw, "little" if self.order == "<" else "big")

    def read(self, offset: int, length: int) -> bytes:
        if offset < 0 or offset + length > self._size:
            raise TiffBroken(f"data at byte {offset} lies behind the end of the file")
        self._budget -= length
        if self._budget < 0:
            raise TiffTooComplex("its directories are too large")
        raw = os.pread(self._fd, length, offset)
        if len(raw) < length:
            raise TiffBroken("the file became shorter")
        return raw

    def integers(self, entry: _Entry) -> Iterator[tuple[int, ...]]:
        """The values of an integer entry, in chunks."""
        code = _INTEGERS.get(entry.type)
        if code is None:
            raise TiffBroken("a directory entry has an impossible type")
        width = _TYPE_BYTES[entry.type]
        for start in range(0, entry.count, _CHUNK_VALUES):
            count = min(_CHUNK_VALUES, entry.count - start)
            raw = self.read(entry.where + start * width, count * width)
            yield struct.unpack(f"{self.order}{count}{code}", raw)

    def inside(self, offset: int, length: int) -> bool:
        return offset > 0 and offset + length <= self._size


def walk_tiff(fd: int, size: int, *, check_data: bool = False) -> Iterator[TiffDirectory]:
    """Every image directory of the chain, in file order.

    Args:
        fd: A TIFF open for reading.
        size: Its length in bytes.
        check_data: Also check that every strip and tile lies inside the file.

    Raises:
        TiffBroken: Something referred to is missing, or the chain is a loop.
        TiffTooComplex: The chain is longer than `MAX_DIRECTORIES`, or its tables
            are larger than 32 MiB.
    """
    file = _File(fd, size)
    offset = file.first
    seen: set[int] = set()
    if offset == 0:
        raise TiffBroken("it has no pages yet")
    while offset:
        if offset in seen:
            raise TiffBroken("its pages refer to each other in a circle")
        if len(seen) >= MAX_DIRECTORIES:
            raise TiffTooComplex(f"it has more than {MAX_DIRECTORIES} pages")
        seen.add(offset)
        entries, following = _directory(file, offset)
        if check_data:
            _check_blocks(file, entries, _STRIP_OFFSETS, _STRIP_BYTES)
            _check_blocks(file, entries, _TILE_OFFSETS, _TILE_BYTES)
        yield TiffDirectory(
            index=len(seen) - 1,
            offset=offset,
            width_px=_value(file, entries, _WIDTH),
            height_px=_value(file, entries, _HEIGHT),
            # Bit 0: a reduced copy of another image, bit 2: a transparency mask.
            is_page=not _value(file, entries, _SUBFILE) & 0b101,
        )
        offset = following


def _directory(file: _File, offset: int) -> tuple[dict[int, _Entry], int]:
    """The entries of the directory at `offset`, and the offset of the next one."""
    count_bytes, entry_bytes, pointer = (8, 20, 8) if file.big else (2, 12, 4)
    count = file.number(file.read(offset, count_bytes))
    if not 0 < count <= _MAX_ENTRIES:
        raise TiffBroken("a page has an impossible directory")
    start = offset + count_bytes
    raw = file.read(start, count * entry_bytes + pointer)
    entries = {}
    for number in range(count):
        at = number * entry_bytes
        tag, kind = (file.number(raw[at + i : at + i + 2]) for i in (0, 2))
        values = file.number(raw[at + 4 : at + 4 + pointer])
        inline = start + at + 4 + pointer
        in_place = _TYPE_BYTES.get(kind, 1) * values <= pointer
        field = raw[at + 4 + pointer : at + entry_bytes]
        entries[tag] = _Entry(kind, values, inline if in_place else file.number(field))
    return entries, file.number(raw[count * entry_bytes :])


def _value(file: _File, entries: dict[int, _Entry], tag: int) -> int:
    """The first value of an integer entry, 0 where there is none."""
    entry = entries.get(tag)
    if entry is None or entry.count < 1 or entry.type not in _INTEGERS:
        return 0
    return next(file.integers(_Entry(entry.type, 1, entry.where)))[0]


def _check_blocks(file: _File, entries: dict[int, _Entry], offsets: int, lengths: int) -> None:
    where, how_long = entries.get(offsets), entries.get(lengths)
    if where is None:
        return
    if how_long is None or how_long.count != where.count:
        how_long = None
    sizes = file.integers(how_long) if how_long else None
    for starts in file.integers(where):
        spans = next(sizes) if sizes else (1,) * len(starts)
        for start, length in zip(starts, spans, strict=True):
            # A block of length 0 stands for an empty tile and lies nowhere.
            if length and not file.inside(start, length):
                raise TiffBroken("image data lies behind the end of the file")
