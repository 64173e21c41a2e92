"""Usual misreadings are mended, and only those."""

from __future__ import annotations

import pytest

from ocr.engines.rapid.recognition import Character, Reading
from ocr.engines.rapid.wording import corrected, remarks


def _reading(text: str, *, gaps: dict[int, float] | None = None, second: str = "") -> Reading:
    characters = [
        Character(letter, (i + 0.5) / len(text), 0.99, second, (gaps or {}).get(i, 0.0))
        for i, letter in enumerate(text)
    ]
    return Reading(tuple(characters))


def _text(reading: Reading) -> str:
    return corrected([reading])[0].text


@pytest.mark.parametrize(
    ("read", "gaps", "meant"),
    [
        ("6Accuracy", {1: 0.15}, "6 Accuracy"),
        ("ofsamples", {2: 0.4}, "of samples"),
        ("Summary", {6: 0.2}, "Summary"),
        ("Date:5", {4: 0.9}, "Date:5"),
        ("Sum (RM)", {7: 0.9}, "Sum (RM)"),
        ("第3组", {1: 0.9, 2: 0.9}, "第3组"),
    ],
)
def test_spaces_the_network_nearly_put(read: str, gaps: dict[int, float], meant: str) -> None:
    assert _text(_reading(read, gaps=gaps)) == meant


def test_wide_punctuation_stays_in_chinese_and_goes_from_latin() -> None:
    assert _text(_reading("Date：12，5（a）")) == "Date:12,5(a)"
    assert _text(_reading("班长、射手。")) == "班长、射手。"


@pytest.mark.parametrize(
    ("read", "meant"),
    [
        ("1O4.50", "104.50"),
        ("2,l50", "2,150"),
        ("0.2S", "0.25"),
        ("aIl", "all"),
        ("GO0D", "GOOD"),
        ("IBAN", "IBAN"),
        ("B0B1", "B0B1"),
        ("H2O", "H2O"),
        ("10S", "10S"),
        ("Ion", "Ion"),
        ("iPhone10", "iPhone10"),
        ("x86", "x86"),
    ],
)
def test_look_alikes_change_only_where_the_context_leaves_no_doubt(read: str, meant: str) -> None:
    assert _text(_reading(read)) == meant


def test_a_single_chinese_character_on_a_latin_page_is_what_it_looks_like() -> None:
    page = [_reading("Table of all the parts that were ordered in May " * 4), _reading("井 12")]
    assert corrected(page)[1].text == "# 12"
    page[1] = Reading((Character("囗", 0.5, 0.6, "O"),))
    assert corrected(page)[1].text == "O"


def test_accents_of_a_language_stay_and_single_doubtful_ones_go() -> None:
    doubtful = Reading((Character("Ã", 0.5, 0.6, "A"),))
    assert corrected([doubtful])[0].text == "A"
    assert _text(_reading("Müller grüßt")) == "Müller grüßt"


def test_a_page_of_unknown_script_is_said_to_be_so() -> None:
    garbage = [Reading((Character("x", 0.5, 0.4),)) for _ in range(8)]
    assert "script" in remarks(garbage)[0]
    assert remarks([_reading("plain words")] * 8) == []
