"""Corrects what this recogniser usually gets wrong, where the context leaves no doubt.

Works on readings: missing spaces, full-width punctuation in Latin text, single
Chinese characters in Latin pages, accents on plain words, `l/1/I` and `O/0`.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ocr.engines.rapid.recognition import Character, Reading

_SPACE = 0.12
"""Probability of a space from which it is put where words may part ("6Accuracy")."""
_SPACE_IN_WORD = 0.3
"""The same between two letters or two digits, where a wrong space costs more."""
_UNREADABLE = 0.75
_MANY = 0.5
_ENOUGH_LINES = 4
_LATIN_PAGE = 0.02
"""Share of Chinese characters below which single ones are misreadings."""
_NO_SPACE_BEFORE = set(",.;:!?)]}%°\"'”’»…/-–—*")
_NO_SPACE_AFTER = set("([{\"'“„‘«/-–—#$€£.")
_NARROW = {0x3000: " ", 0x3002: ".", 0x3001: ",", 0x300C: '"', 0x300D: '"', 0x2022: "•"}
_NARROW |= {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
_LOOKS_LIKE = {
    "井": "#",
    "二": "=",
    "一": "-",
    "十": "+",
    "口": "□",
    "丨": "|",
    "（": "(",
    "）": ")",
}


def corrected(readings: Sequence[Reading]) -> list[Reading]:
    """The readings of one page, in the same order, with the usual faults mended."""
    counts = Counter(_script(c.text) for r in readings for c in r.characters)
    latin_page = counts["cjk"] <= _LATIN_PAGE * max(1, counts["cjk"] + counts["letter"])
    accents = Counter(c.text for r in readings for c in r.characters if _plain_letter(c.text))
    result = []
    for reading in readings:
        characters = list(reading.characters)
        if latin_page:
            characters = [_latin(character) for character in characters]
        characters = [_unaccented(character, accents) for character in characters]
        if not any(_script(c.text) == "cjk" for c in characters):
            characters = [replace(c, text=c.text.translate(_NARROW)) for c in characters]
        characters = _digits_and_letters(_spaced(characters))
        result.append(Reading(tuple(characters)))
    return result


def remarks(readings: Sequence[Reading]) -> list[str]:
    """What a person should know of a page: script that this engine cannot read."""
    found = [reading for reading in readings if reading.characters]
    doubtful = sum(reading.confidence < _UNREADABLE for reading in found)
    if len(found) >= _ENOUGH_LINES and doubtful > _MANY * len(found):
        return [
            "much of this page could not be read: it may be in a script that the CPU engine"
            " does not know (Cyrillic, Hangul, Arabic, Hebrew), in handwriting or too blurred"
        ]
    return []


def _script(text: str) -> str:
    if not text:
        return "none"
    code = ord(text[0])
    if 0x3040 <= code <= 0x30FF or 0x3400 <= code <= 0x9FFF or 0xAC00 <= code <= 0xD7AF:
        return "cjk"
    if 0x3000 <= code <= 0x303F or 0xFF00 <= code <= 0xFFEF:
        return "wide"
    if text.isalpha():
        return "letter"
    return "digit" if text.isdigit() else "other"


def _latin(character: Character) -> Character:
    """A Chinese character on a Latin page is what it looks like."""
    if _script(character.text) != "cjk":
        return character
    second = character.second
    if second and _script(second) not in ("cjk", "wide"):
        return replace(character, text=second, second="")
    return replace(character, text=_LOOKS_LIKE.get(character.text, character.text))


def _plain_letter(text: str) -> str:
    """The letter below an accent; empty for letters without one."""
    parts = unicodedata.normalize("NFD", text)
    return parts[0] if len(parts) > 1 and parts[0].isascii() and parts[0].isalpha() else ""


def _unaccented(character: Character, accents: Counter[str]) -> Character:
    """An accent seen once on the page and in doubt is dust over a plain letter."""
    plain = _plain_letter(character.text)
    if plain and accents[character.text] <= 1 and character.second == plain:
        return replace(character, text=plain)
    return character


def _spaced(characters: Sequence[Character]) -> list[Character]:
    """The characters with spaces where the network nearly put one."""
    result: list[Character] = []
    for character in characters:
        before = result[-1] if result else None
        if before is not None and _parts_here(before, character):
            middle = (before.position + character.position) / 2
            result.append(Character(" ", middle, character.gap))
        result.append(character)
    return result


def _parts_here(before: Character, after: Character) -> bool:
    if " " in (before.text, after.text) or after.gap < _SPACE:
        return False
    if (before.text in _NO_SPACE_AFTER and before.text != ".") or after.text in _NO_SPACE_BEFORE:
        return False
    kinds = {_script(before.text), _script(after.text)}
    if kinds & {"cjk", "wide"}:
        return False
    return after.gap >= _SPACE_IN_WORD or (len(kinds) == 2 and before.text != ".")


_TO_DIGIT = str.maketrans("OolI|", "00111")


def _digits_and_letters(characters: Sequence[Character]) -> list[Character]:
    """Letters inside numbers become digits, digits and capitals inside words letters."""
    result = list(characters)
    text = "".join(c.text for c in characters)
    if len(text) != len(characters):
        return result
    for token in re.finditer(r"[^\s]+", text):
        for offset, mended in enumerate(_mended(token.group())):
            place = token.start() + offset
            if mended != text[place]:
                result[place] = replace(result[place], text=mended)
    return result


def _mended(token: str) -> str:
    """The token, of the same length, with look-alikes put right."""
    if len(re.findall(r"\d", token)) >= 2 and not re.search(r"[A-HJ-NP-Za-kmnp-z]", token):
        token = re.sub(
            r"(?<=\d)[OolI|](?=\d)|(?<=\d[.,])[OolI|](?=\d)|(?<=\d)[OolI|](?=[.,]\d)",
            lambda match: match.group().translate(_TO_DIGIT),
            token,
        )
    token = re.sub(r"(?<=^\d\.\d)S(?=\W*$)|(?<=^\d\d\.\d)S(?=\W*$)", "5", token)
    token = re.sub(r"(?<=[a-zß-ÿ])I(?=[a-zß-ÿ])", "l", token)
    if len(re.findall(r"\d", token)) == 1:
        token = re.sub(r"(?<=[A-Z]{2})0(?=[A-Z])", "O", token)
        token = re.sub(r"(?<=[a-z]{2})0(?=[a-z])", "o", token)
        token = re.sub(r"(?<=[a-z]{2})1(?=[a-z])", "l", token)
    return token
