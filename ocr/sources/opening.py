"""The door: from a path to an open `Source`, by what the file contains."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ocr.errors import DamagedSource, SourceError, SourceTooLarge, UnsupportedSource
from ocr.options import ReadOptions
from ocr.sources.base import Source
from ocr.sources.sniffing import HEAD_BYTES, SourceKind, describe, sniff

_READABLE = "PDF, TIFF, JPEG, PNG, WebP, BMP, GIF and HEIC files can be read"


def open_source(path: Path, options: ReadOptions) -> Source:
    """The document at `path`, opened; use it in a `with` statement.

    Only headers are read here; pages are decoded when asked for.

    Args:
        path: A regular file. Its name does not matter, its content does.
        options: Limits, passwords, resolution and text layer rule.

    Raises:
        UnsupportedSource: The content is of no kind that can be read.
        DamagedSource: The file is empty, broken or cut off.
        PasswordRequired: None of the passwords opens the PDF.
        SourceTooLarge: It is over a limit.
        SourceError: The file is not there, no regular file, or not readable.
    """
    head = _head(path, options)
    kind = sniff(head)
    if kind is None:
        raise _unreadable(head)
    if kind is SourceKind.PDF:
        from ocr.sources.pdf import PdfSource

        return PdfSource(path, options)
    if kind is SourceKind.TIFF:
        from ocr.sources.tiff import TiffSource

        return TiffSource(path, options)
    if kind is SourceKind.HEIC:
        from ocr.sources.heic import HeicSource

        return HeicSource(path, options)
    from ocr.sources.images import PictureSource

    return PictureSource(path, kind, options)


def _head(path: Path, options: ReadOptions) -> bytes:
    """The first bytes, after a look at what kind of file system object it is."""
    try:
        # Non-blocking, because opening a FIFO would wait for a writer.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        reason = error.strerror or "unknown reason"
        raise SourceError(f"The file cannot be opened: {reason}. Check its permissions.") from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise UnsupportedSource("This is no ordinary file, so there is nothing to read in it.")
        limit_gb = options.limits.max_file_gb
        if status.st_size > limit_gb * 1e9:
            raise SourceTooLarge(
                f"The file has {status.st_size / 1e9:.1f} GB, and the limit set by max_file_gb is"
                f" {limit_gb:g}. Split the document, or raise the setting."
            )
        return os.pread(fd, HEAD_BYTES, 0)
    finally:
        os.close(fd)


def _unreadable(head: bytes) -> SourceError:
    if not head:
        return DamagedSource("The file is empty. Scan or copy it again.")
    if not head.strip(b"\0"):
        return DamagedSource(
            "The file holds nothing but zeros where it should begin, as after a copy that"
            " broke off. Scan or copy it again."
        )
    what = describe(head)
    return UnsupportedSource(f"This is {what}. {_READABLE}; save it as a PDF first.")
