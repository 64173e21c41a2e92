"""Whether a file's end says that it is whole: every cut must show."""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import img2pdf
import pikepdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from PIL.TiffImagePlugin import AppendingTiffWriter
from pillow_heif import from_pillow

from ocr.sources.tails import TailState, tail_state
from ocr.sources.tiff_structure import TiffBroken, TiffTooComplex, walk_tiff
from tests.samples import write_tiff

WHOLE, CUT, UNKNOWN = TailState.WHOLE, TailState.CUT, TailState.UNKNOWN
Probe = Callable[[bytes], TailState]


@pytest.fixture
def probe() -> Iterator[Probe]:
    """Answers for content instead of a file."""
    fd = os.memfd_create("probe")

    def state(content: bytes) -> TailState:
        os.ftruncate(fd, 0)
        os.pwrite(fd, content, 0)
        return tail_state(fd)

    yield state
    os.close(fd)


def _noise(size: tuple[int, int] = (64, 48)) -> Image.Image:
    return Image.effect_noise(size, 80).convert("RGB")


def _saved(kind: str, **settings: object) -> bytes:
    buffer = io.BytesIO()
    _noise().save(buffer, kind, **settings)
    return buffer.getvalue()


def _heic() -> bytes:
    buffer = io.BytesIO()
    from_pillow(_noise()).save(buffer)
    return buffer.getvalue()


def _pdf(**settings: object) -> bytes:
    buffer = io.BytesIO()
    with pikepdf.open(io.BytesIO(img2pdf.convert([_saved("JPEG")] * 3))) as pdf:
        pdf.save(buffer, **settings)
    return buffer.getvalue()


CONTENTS = {
    "jpeg": lambda: _saved("JPEG"),
    "progressive jpeg": lambda: _saved("JPEG", progressive=True),
    "mpo": lambda: _saved("MPO", save_all=True, append_images=[_noise()]),
    "png": lambda: _saved("PNG"),
    "gif": lambda: _saved("GIF"),
    "webp": lambda: _saved("WEBP"),
    "bmp": lambda: _saved("BMP"),
    "heic": _heic,
    "pdf": _pdf,
    "pdf with object streams": lambda: _pdf(object_stream_mode=pikepdf.ObjectStreamMode.generate),
    "linearized pdf": lambda: _pdf(linearize=True),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_whole_until_cut_anywhere(name: str, probe: Probe) -> None:
    content = CONTENTS[name]()
    assert probe(content) is WHOLE
    for length in range(0, len(content) - 1, max(1, len(content) // 300)):
        if name == "mpo" and b"\xff\xd9" in content[:length]:
            assert probe(content[:length]) is not WHOLE or content[:length].endswith(b"\xff\xd9")
            continue
        if name == "gif" and content[:length].endswith(b"\0;"):
            continue
        state = probe(content[:length])
        # Before the first bytes that name its kind, nothing can be said.
        assert state is CUT or (length < 16 and state is UNKNOWN), length


def test_an_empty_file_is_not_whole(probe: Probe) -> None:
    assert probe(b"") is CUT


def test_an_unknown_kind_is_unknown(probe: Probe) -> None:
    assert probe(b"Dear Sir or Madam") is UNKNOWN


@pytest.mark.parametrize("name", ["jpeg", "png", "gif", "pdf"])
def test_padding_behind_the_end_is_tolerated(name: str, probe: Probe) -> None:
    assert probe(CONTENTS[name]() + b"\0" * 100) is WHOLE


@pytest.mark.parametrize("name", ["webp", "bmp", "heic"])
def test_a_length_set_before_the_bytes_arrive_proves_nothing(name: str, probe: Probe) -> None:
    content = CONTENTS[name]()
    arrived = len(content) // 2
    assert probe(content[:arrived] + b"\0" * (len(content) - arrived)) is not WHOLE


def test_data_of_a_phone_behind_a_jpeg_leaves_doubt(probe: Probe) -> None:
    assert probe(CONTENTS["jpeg"]() + b"SEFH\x6a\0\0\0SEFT") is UNKNOWN


def test_the_end_of_a_thumbnail_is_not_the_end_of_the_jpeg(probe: Probe) -> None:
    thumbnail = _saved("JPEG")
    header = b"\xff\xd8\xff\xe1" + struct.pack(">H", len(thumbnail) + 2000) + b"Exif\0\0"
    assert probe(header + thumbnail) is CUT


def test_a_pdf_whose_end_points_nowhere_is_not_whole(probe: Probe) -> None:
    content = _pdf()
    at = content.rindex(b"startxref") + len(b"startxref\n")
    assert probe(content[:at] + b"7" + content[at:]) is CUT


def test_a_pdf_behind_leading_junk_is_whole(probe: Probe) -> None:
    assert probe(b"junk\r\n" * 20 + _pdf()) is WHOLE


def test_a_linearized_pdf_saved_again_is_whole(probe: Probe) -> None:
    content = _pdf(linearize=True)
    table = content.index(b" 0 obj") - 1
    assert probe(content + b"startxref\n%d\n%%%%EOF\n" % table) is WHOLE


def test_every_page_of_a_tiff_must_be_there(tmp_path: Path, probe: Probe) -> None:
    page = _noise((200, 100))
    names = ["group4", "tiff_lzw", "jpeg", "packbits", None]
    content = write_tiff(tmp_path / "a.tif", [page] * 5, names).read_bytes()
    assert probe(content) is UNKNOWN
    for length in range(9, len(content) - 1, len(content) // 100):
        assert probe(content[:length]) in {CUT, UNKNOWN}
    assert probe(content[:-500]) is CUT


def test_a_tiff_whose_header_is_not_finished_is_cut(probe: Probe) -> None:
    assert probe(b"II*\0\0\0\0\0" + b"\0" * 5000) is CUT


def _chain(count: int, *, loop: bool = False) -> bytes:
    """A TIFF of directories with one entry each."""
    parts = [b"II*\0", struct.pack("<I", 8)]
    for number in range(count):
        following = 8 + 18 * (number + 1)
        if number == count - 1:
            following = 8 if loop else 0
        parts.append(struct.pack("<HHHIII", 1, 256, 4, 1, 10, following))
    return b"".join(parts)


def test_a_tiff_that_bites_its_tail_is_broken(probe: Probe) -> None:
    assert probe(_chain(5, loop=True)) is CUT
    assert probe(_chain(5)) is UNKNOWN


def test_a_million_directories_are_not_walked_to_the_end(probe: Probe) -> None:
    assert probe(_chain(1_000_000)) is UNKNOWN


def test_huge_strip_tables_are_not_read_for_ever(probe: Probe) -> None:
    entries = struct.pack("<HHII", 273, 4, 2**30, 8) + struct.pack("<HHII", 279, 4, 2**30, 8)
    content = b"II*\0\x08\0\0\0" + struct.pack("<H", 2) + entries + b"\0" * 4
    assert probe(content) is CUT


def test_a_bigtiff_is_walked_too(probe: Probe) -> None:
    buffer = io.BytesIO()
    _noise().save(buffer, "TIFF", big_tiff=True)
    assert probe(buffer.getvalue()) is UNKNOWN
    assert probe(buffer.getvalue()[:-3000]) is CUT


def test_thumbnails_and_masks_are_not_pages(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    with AppendingTiffWriter(path, new=True) as writer:
        for subfile_type in (0, 1, 4):
            buffer = io.BytesIO()
            _noise().save(buffer, "TIFF", tiffinfo={254: subfile_type})
            writer.write(buffer.getvalue())
            writer.newFrame()
    with path.open("rb") as file:
        directories = list(walk_tiff(file.fileno(), path.stat().st_size))
    assert [d.is_page for d in directories] == [True, False, False]
    assert (directories[0].width_px, directories[0].height_px) == (64, 48)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(sorted(CONTENTS)),
    st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=8)), max_size=6),
)
def test_no_damage_makes_it_stumble(name: str, damage: list[tuple[float, bytes]]) -> None:
    content = bytearray(_cached(name))
    for where, patch in damage:
        at = int(where * (len(content) - 1))
        content[at : at + len(patch)] = patch
    _state_of(bytes(content))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([b"II*\0", b"MM\0*", b"II+\0\x08\0\0\0", b"MM\0+"]), st.binary(max_size=300))
def test_no_tiff_structure_makes_it_stumble(magic: bytes, rest: bytes) -> None:
    assert _state_of(magic + rest) in {CUT, UNKNOWN}


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(
        [
            b"\xff\xd8\xff",
            b"%PDF-1.4 /Linearized 1 /L 99 startxref 3 %%EOF",
            b"GIF89a",
            b"\0\0\0\x18ftypheic\0\0\0\0mif1heic",
            b"BM",
            b"RIFF\0\0\0\0WEBP",
        ]
    ),
    st.binary(max_size=300),
)
def test_no_bytes_behind_a_signature_make_it_stumble(signature: bytes, rest: bytes) -> None:
    assert isinstance(_state_of(signature + rest), TailState)


_cache: dict[str, bytes] = {}


def _cached(name: str) -> bytes:
    if name not in _cache:
        _cache[name] = CONTENTS[name]()
    return _cache[name]


def _state_of(content: bytes) -> TailState:
    fd = os.memfd_create("probe")
    try:
        os.write(fd, content)
        return tail_state(fd)
    finally:
        os.close(fd)


def test_the_walk_itself_says_what_is_wrong() -> None:
    fd = os.memfd_create("probe")
    try:
        os.write(fd, _chain(3, loop=True))
        with pytest.raises(TiffBroken, match="circle"):
            list(walk_tiff(fd, os.fstat(fd).st_size))
        os.ftruncate(fd, 0)
        os.pwrite(fd, _chain(30_000), 0)
        with pytest.raises(TiffTooComplex, match="20000"):
            list(walk_tiff(fd, os.fstat(fd).st_size))
    finally:
        os.close(fd)
