"""What a file is, from its first bytes, never from its name.

Pure standard library, because the daemon process uses it too.
"""

from __future__ import annotations

from enum import StrEnum

HEAD_BYTES = 4096
"""How much of a file's beginning `sniff` and `describe` like to see."""
PDF_JUNK_BYTES = 1024
"""Readers accept a PDF header anywhere in the first KiB (PDF 1.7, H.3 note 13)."""


class SourceKind(StrEnum):
    """The kinds of file that can be read."""

    PDF = "pdf"
    TIFF = "tiff"
    JPEG = "jpeg"
    PNG = "png"
    WEBP = "webp"
    BMP = "bmp"
    GIF = "gif"
    HEIC = "heic"


_HEIC_BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"})
_HEIF_BRANDS = frozenset({b"mif1", b"mif2", b"msf1", b"heif", b"miaf"})
_AVIF_BRANDS = frozenset({b"avif", b"avis"})
_TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_BMP_HEADERS = frozenset({12, 16, 40, 52, 56, 64, 108, 124})


def sniff(head: bytes) -> SourceKind | None:
    """The kind of file that begins with `head`; None for one that cannot be read.

    Args:
        head: The first bytes of the file, `HEAD_BYTES` if it has that many.
    """
    if head.startswith(b"\xff\xd8\xff"):
        return SourceKind.JPEG
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return SourceKind.PNG
    if head.startswith(_TIFF_MAGIC):
        return SourceKind.TIFF
    if head.startswith((b"GIF87a", b"GIF89a")):
        return SourceKind.GIF
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return SourceKind.WEBP
    if _is_heic(head):
        return SourceKind.HEIC
    if _is_bmp(head):
        return SourceKind.BMP
    if pdf_start(head) is not None:
        return SourceKind.PDF
    return None


def pdf_start(head: bytes) -> int | None:
    """Where the PDF header stands: 0, or after up to 1 KiB of leading junk."""
    position = head[: PDF_JUNK_BYTES + 5].find(b"%PDF-")
    return None if position < 0 else position


def _brands(head: bytes) -> tuple[bytes, ...]:
    """Major, then compatible brands of an ISO media file; empty for anything else."""
    if head[4:8] != b"ftyp":
        return ()
    end = min(int.from_bytes(head[:4], "big"), len(head), 512)
    return (head[8:12], *(head[at : at + 4] for at in range(16, end - 3, 4)))


def _is_heic(head: bytes) -> bool:
    brands = _brands(head)
    if not brands or _AVIF_BRANDS.intersection(brands):
        return False
    return brands[0] in _HEIC_BRANDS or (
        brands[0] in _HEIF_BRANDS and bool((_HEIC_BRANDS | _HEIF_BRANDS).intersection(brands[1:]))
    )


def _is_bmp(head: bytes) -> bool:
    """`BM` alone begins too many texts; the header's own size must be a known one."""
    return head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in _BMP_HEADERS


_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document (DOC, XLS, PPT or MSG)"),
    (b"{\\rtf", "an RTF text document"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\0", "an XZ archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (b"%!PS", "a PostScript file"),
    (b"\xc5\xd0\xd3\xc6", "an EPS file"),
    (b"8BPS", "a Photoshop file"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "a JPEG 2000 picture"),
    (b"\xff\x4f\xff\x51", "a JPEG 2000 picture"),
    (b"\0\0\0\x0cJXL \r\n\x87\n", "a JPEG XL picture"),
    (b"\xff\x0a", "a JPEG XL picture"),
    (b"AT&TFORM", "a DjVu document"),
    (b"\x97JB2\r\n\x1a\n", "a JBIG2 picture"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a Windows program"),
    (b"ID3", "an MP3 recording"),
    (b"OggS", "an Ogg recording"),
    (b"RIFF", "a sound or video recording"),
    (b"SQLite format 3\0", "a database"),
    (b"\0\0\1\0", "an icon"),
    (b"From ", "a mailbox"),
    (b"Received:", "an e-mail"),
    (b"Return-Path:", "an e-mail"),
    (b"BEGIN:VCARD", "a contact card"),
    (b"BEGIN:VCALENDAR", "a calendar entry"),
)
_ZIP_CONTENT: tuple[tuple[bytes, str], ...] = (
    (b"word/", "a Word document"),
    (b"xl/", "an Excel workbook"),
    (b"ppt/", "a PowerPoint presentation"),
    (b"application/vnd.oasis.opendocument", "an OpenDocument (LibreOffice) file"),
    (b"application/epub+zip", "an EPUB book"),
    (b"[Content_Types].xml", "an Office document"),
)


def describe(head: bytes) -> str:
    """What a file that `sniff` does not know is, in words for a person.

    Args:
        head: The first bytes of the file, `HEAD_BYTES` if it has that many.

    Returns:
        A phrase that completes "this is …".
    """
    if not head:
        return "an empty file"
    if not head.strip(b"\0"):
        return "a file that begins with nothing but zeros (an unfinished copy?)"
    if head.startswith(b"PK\x03\x04"):
        return next((name for mark, name in _ZIP_CONTENT if mark in head), "a ZIP archive")
    if brands := _brands(head):
        return "an AVIF picture" if _AVIF_BRANDS.intersection(brands) else "a video recording"
    for signature, name in _SIGNATURES:
        if head.startswith(signature):
            return name
    return _describe_text(head)


def _describe_text(head: bytes) -> str:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = head.decode("utf-16", "replace")
    elif b"\0" in head:
        return "a file of an unknown type"
    else:
        text = head.decode("utf-8", "replace")
    start = text.lstrip("\ufeff \t\r\n")[:1024].lower()
    if start.startswith(("<!doctype html", "<html", "<head", "<body")) or "<html" in start:
        return "an HTML page"
    if "<svg" in start:
        return "an SVG drawing"
    if start.startswith("<?xml"):
        return "an XML file"
    odd = sum(ch == "\ufffd" or (ch < " " and ch not in "\t\r\n\f") for ch in text)
    return "a text file" if odd <= len(text) // 50 else "a file of an unknown type"
