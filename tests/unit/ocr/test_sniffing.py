"""A file is what its bytes say, whatever its name."""

from __future__ import annotations

import io
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from ocr.sources.sniffing import SourceKind, describe, pdf_start, sniff


def _picture(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), "white").save(buffer, kind)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("saved_as", "kind"),
    [
        ("PDF", SourceKind.PDF),
        ("TIFF", SourceKind.TIFF),
        ("JPEG", SourceKind.JPEG),
        ("PNG", SourceKind.PNG),
        ("WEBP", SourceKind.WEBP),
        ("BMP", SourceKind.BMP),
        ("GIF", SourceKind.GIF),
    ],
)
def test_pillows_own_files_are_told_apart(saved_as: str, kind: SourceKind) -> None:
    assert sniff(_picture(saved_as)) is kind


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"MM\0*\0\0\0\x08", SourceKind.TIFF),
        (b"II+\0\x08\0\0\0", SourceKind.TIFF),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", SourceKind.HEIC),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic", SourceKind.HEIC),
        (b"\0\0\0\x1cftypmsf1\0\0\0\0msf1hevcmif1", SourceKind.HEIC),
        (b"\0\0\0\x18ftypavif\0\0\0\0mif1avif", None),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1avif", None),
        (b"\0\0\0\x14ftypmp42\0\0\0\0isom", None),
        (b"RIFF\x10\0\0\0WAVEfmt ", None),
        (b"BMW 320d, first registered in 2009, one careful owner", None),
        (b"GIF is how some people say it", None),
        (b"", None),
    ],
)
def test_magic_numbers(head: bytes, kind: SourceKind | None) -> None:
    assert sniff(head) is kind


def test_a_pdf_may_begin_with_a_kibibyte_of_junk() -> None:
    assert pdf_start(b"\0" * 1024 + b"%PDF-1.7") == 1024
    assert sniff(b"HTTP/1.1 200 OK\r\n\r\n%PDF-1.4") is SourceKind.PDF
    assert sniff(b"\0" * 1025 + b"%PDF-1.7") is None


def _zip(name: str, content: str = "x") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"", "empty"),
        (b"\0" * 4096, "zeros"),
        (b"<!DOCTYPE html>\n<html><body>404 Not Found", "HTML page"),
        (b"\xef\xbb\xbf  <html>", "HTML page"),
        ("\ufeff<html>".encode("utf-16"), "HTML page"),
        (b"<?xml version='1.0'?><invoice/>", "XML"),
        (b"<?xml version='1.0'?><svg xmlns='x'/>", "SVG"),
        (_zip("word/document.xml"), "Word document"),
        (_zip("xl/workbook.xml"), "Excel workbook"),
        (_zip("ppt/slides.xml"), "PowerPoint"),
        (_zip("mimetype", "application/vnd.oasis.opendocument.text"), "OpenDocument"),
        (_zip("holiday.txt"), "ZIP archive"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "Office"),
        (b"{\\rtf1\\ansi", "RTF"),
        (b"%!PS-Adobe-3.0", "PostScript"),
        (b"\0\0\0\x18ftypavif\0\0\0\0mif1avif", "AVIF"),
        (b"\0\0\0\x14ftypmp42\0\0\0\0isom", "video"),
        (b"MZ\x90\0", "program"),
        ("Grüße aus Köln\r\n".encode(), "text file"),
        (bytes(range(256)) * 4, "unknown"),
    ],
)
def test_what_cannot_be_read_gets_a_name(head: bytes, words: str) -> None:
    assert sniff(head) is None
    assert words in describe(head)


@settings(deadline=None)
@given(st.binary(max_size=2048))
def test_no_bytes_make_it_stumble(head: bytes) -> None:
    assert sniff(head) is None or isinstance(sniff(head), SourceKind)
    assert describe(head).isprintable()


@settings(deadline=None)
@given(
    st.sampled_from([b"\0\0\0\x18ftyp", b"PK\x03\x04", b"BM", b"RIFF", b"\xff\xfe", b"<?xml"]),
    st.binary(max_size=600),
)
def test_no_bytes_behind_a_signature_make_it_stumble(signature: bytes, rest: bytes) -> None:
    sniff(signature + rest)
    assert describe(signature + rest).isprintable()
