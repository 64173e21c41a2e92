from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.errors import DeliveryError
from daemon.output_names import (
    Header,
    assets_stem,
    candidate_stems,
    document_header,
    folders_below,
    output_stem,
    parse_header,
)

FINGERPRINT = "0123456789abcdef" * 4
LONGEST_TAIL = b"~12345678-99.layout.pdf"


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        (b"scan.pdf", b"scan"),
        (b"SCAN.PDF", b"SCAN"),
        (b"scan", b"scan"),
        (b"scan.2024-05-01.tiff", b"scan.2024-05-01"),
        (b"Invoice No.5", b"Invoice No.5"),
        (b"letter to Mr. Smith", b"letter to Mr. Smith"),
        (b".scan", b".scan"),
        (b"r\xe9sum\xe9.jpg", b"r\xe9sum\xe9"),
    ],
)
def test_outputs_are_called_like_their_source(name: bytes, stem: bytes) -> None:
    assert output_stem(name) == stem


@given(st.binary(min_size=1, max_size=255).filter(lambda name: b"/" not in name))
def test_every_name_leaves_room_for_every_ending(name: bytes) -> None:
    assert 0 < len(output_stem(name) + LONGEST_TAIL) <= 255
    assert len(assets_stem(output_stem(name)) + b".assets") <= 255
    assets_stem(output_stem(name)).decode("utf-8")


@given(st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=80, max_size=90))
def test_long_names_are_cut_between_characters_and_stay_different(text: str) -> None:
    first, second = (f"{text}{'ß' * 60}{tail}.pdf".encode() for tail in "ab")
    output_stem(first).decode("utf-8")
    assert output_stem(first) != output_stem(second)


def test_names_to_try_end() -> None:
    names = list(candidate_stems(b"scan", FINGERPRINT))
    assert names[:3] == [b"scan", b"scan~01234567", b"scan~01234567-2"]
    assert len(names) == len(set(names)) == 100


@given(st.binary(min_size=1, max_size=255))
def test_a_header_gives_the_name_back_and_cannot_be_broken_out_of(name: bytes) -> None:
    header = document_header(name, FINGERPRINT, FINGERPRINT)
    assert parse_header(header + b"text") == Header(name, FINGERPRINT, FINGERPRINT)
    assert header.count(b"\n") == 1
    inside = header[len(b"<!--") : -len(b"-->\n")]
    assert b"--" not in inside
    assert b">" not in inside
    assert header.decode("utf-8").rstrip("\n").isprintable()


def test_a_header_is_readable_where_the_name_is() -> None:
    header = document_header("Rechnung Müller 契約-7.pdf".encode(), FINGERPRINT, FINGERPRINT)
    assert 'source="Rechnung Müller 契約-7.pdf"' in header.decode()


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"# Notes\n",
        b"<!-- page 1 -->\n",
        b'<!-- scanmd source="x" -->\n',
        document_header(b"x", FINGERPRINT, FINGERPRINT)[:-1],
    ],
)
def test_other_first_lines_are_not_ours(head: bytes) -> None:
    assert parse_header(head) is None


def test_folders_are_mirrored_and_nothing_outside_the_inbox_is(tmp_path: object) -> None:
    from pathlib import Path

    assert folders_below(b"/in/a/b/scan.pdf", Path("/in")) == [b"a", b"b"]
    assert folders_below(b"/scan.pdf", Path("/")) == []
    with pytest.raises(DeliveryError, match="not inside"):
        folders_below(b"/inbox2/scan.pdf", Path("/inbox"))
