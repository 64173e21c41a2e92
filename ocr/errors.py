"""What can go wrong while reading, by what the caller should do about it.

Messages are sentences for a person: what is wrong, where, what to do.
"""

from __future__ import annotations


class OcrError(Exception):
    """Any error that `ocr`'s public names raise."""


class SourceError(OcrError):
    """The input itself is bad; trying again will not help."""


class UnsupportedSource(SourceError):
    """The content is of no type that can be read."""


class DamagedSource(SourceError):
    """The file is broken or cut off."""


class PasswordRequired(SourceError):
    """The PDF opens with none of the known passwords."""


class SourceTooLarge(SourceError):
    """The file is over a limit (pixels, pages, bytes, seconds)."""


class PageError(OcrError):
    """One page cannot be read; the other pages may be fine."""


class EngineError(OcrError):
    """The engine failed on a page; another attempt may succeed."""


class EngineOutOfMemory(EngineError):
    """The engine ran out of (GPU) memory."""


class EngineUnavailable(OcrError):
    """The engine cannot work here at all (no weights, no driver, no package)."""
