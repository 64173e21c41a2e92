"""What an output is called, and the first line by which it is known again."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes

from daemon.errors import DeliveryError

MARKDOWN = b".mmd"
ERROR_NOTE = b".error.txt"
ASSETS = b".assets"
NAME_MAX = 255
"""Bytes of a file name on every common file system."""

_SUFFIX = re.compile(rb"\.[A-Za-z][A-Za-z0-9]{1,4}\Z")
"""A file type's suffix; ".5" in "Invoice No.5" is part of the name."""
_TAIL_BYTES = len(b"~12345678-99.layout.pdf")
"""The longest ending that any name made from a stem gets."""
_HEADER = re.compile(
    rb'<!-- scanmd source="([^"\n]*)" sha256="([0-9a-f]{64})" text="([0-9a-f]{64})" -->\n'
)
_UNSAFE = re.compile(r'[%"<>&]|--+')
"""What HTML gives a meaning; hyphens in a row may end a comment, a lone one may not."""
HEADER_MAX_BYTES = 3 * NAME_MAX + 256
"""Every byte of the source's name may take three."""


def output_stem(name: bytes, name_max: int = NAME_MAX) -> bytes:
    """The name that all outputs of a source share: `scan.pdf` gives `scan`.

    Args:
        name: The source's file name.
        name_max: Longest file name in bytes that the target folder takes.

    Returns:
        A stem that leaves room for every ending. One that is cut ends between
        two UTF-8 characters and carries a hash of the whole name.
    """
    cut = _SUFFIX.search(name)
    stem = name[: cut.start()] if cut is not None and cut.start() > 0 else name
    room = name_max - _TAIL_BYTES
    if len(stem) <= room:
        return stem
    return _cut(stem, room - 9) + b"~" + short_hash(name)


def candidate_stems(stem: bytes, digest: str) -> Iterator[bytes]:
    """The stems to try in turn: plain, with the content's hash, then numbered.

    Args:
        stem: From `output_stem`.
        digest: SHA-256 of the source's content, hex.
    """
    marked = stem + b"~" + digest[:8].encode()
    yield stem
    yield marked
    yield from (marked + b"-%d" % number for number in range(2, 100))


def assets_stem(stem: bytes) -> bytes:
    """The same as text that a Markdown link can hold: valid UTF-8, printable."""
    text = stem.decode("utf-8", "replace")
    if text.isprintable() and "�" not in text:
        return stem
    plain = "".join(c if c.isprintable() and c != "�" else "_" for c in text)
    # No longer than the original: each byte that goes is replaced by one.
    return _cut(plain.encode(), len(stem)) + b"~" + short_hash(stem)


def folders_below(path: bytes, root: Path) -> list[bytes]:
    """The folder names between an inbox and a source in it.

    Raises:
        DeliveryError: The source is not inside the inbox.
    """
    start = join(os.fsencode(root), b"")
    if not path.startswith(start):
        raise DeliveryError(f"{escaped_name(path)} is not inside the inbox {root}.")
    return path[len(start) :].split(b"/")[:-1]


def base_name(path: bytes) -> bytes:
    """The last part of a path."""
    return path.rpartition(b"/")[2]


def join(folder: bytes, name: bytes) -> bytes:
    """A path inside a folder."""
    return folder.rstrip(b"/") + b"/" + name


def short_hash(data: bytes) -> bytes:
    """Eight hex digits that tell names apart."""
    return hashlib.sha256(data).hexdigest()[:8].encode()


def _cut(text: bytes, limit: int) -> bytes:
    """At most `limit` bytes, never half a UTF-8 character."""
    end = min(limit, len(text))
    while end > 0 and end < len(text) and text[end] & 0xC0 == 0x80:
        end -= 1
    # In a name that is not UTF-8, continuation bytes may reach to its start.
    return text[:end] or text[:limit]


@dataclass(frozen=True, slots=True)
class Header:
    """What the first line of an output says."""

    source: bytes
    """File name of the source."""
    sha256: str
    """Of the source's content, hex."""
    text_sha256: str
    """Of everything after the first line as it was delivered, hex."""


def document_header(source_name: bytes, fingerprint: str, text_sha256: str) -> bytes:
    """The first line of an output: an HTML comment, invisible where Markdown is shown.

    Args:
        source_name: File name of the source; any bytes.
        fingerprint: SHA-256 of the source's content, hex.
        text_sha256: SHA-256 of the text that follows, hex.
    """
    return (
        f'<!-- scanmd source="{escaped_name(source_name)}" sha256="{fingerprint}" '
        f'text="{text_sha256}" -->\n'
    ).encode()


def parse_header(head: bytes) -> Header | None:
    """The header that a file's first bytes hold; None if it was not written by scanmd."""
    match = _HEADER.match(head)
    if match is None:
        return None
    source, sha256, text_sha256 = match.groups()
    return Header(unquote_to_bytes(source), sha256.decode(), text_sha256.decode())


def escaped_name(name: bytes) -> str:
    """A file name as one line of text that can end neither a comment nor a quotation.

    Letters of all scripts stay; what is not printable, not UTF-8, or has a meaning
    in HTML becomes `%XX`.
    """
    text = name.decode("utf-8", "surrogateescape")
    return "".join(c if c.isprintable() else _hex(c) for c in _UNSAFE.sub(_percent, text))


def _percent(match: re.Match[str]) -> str:
    return _hex(match[0])


def _hex(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogateescape"))
