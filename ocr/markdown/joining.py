"""Joins the lines of a paragraph: hyphenation undone, real hyphens kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set

_CJK = re.compile(r"[\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef]")
_HYPHENS = "-\u2010\u00ad\u00ac"
# Words after which a hyphen at the line's end was a suspended one: "Haupt- und
# Nebensachen", "pre- and post-war".
_SUSPENDING = frozenset(
    ("und", "oder", "bzw", "sowie", "bis", "als", "and", "or", "to", "et", "ou", "y", "o")
)
# What French hangs on a word with a real hyphen (short ones could be syllables).
_ENCLITIC = frozenset(("elle", "elles", "ils", "nous", "vous", "là", "même", "mêmes", "être"))
_PREFIXES = frozenset(("self", "well", "ex", "semi", "quasi", "cross"))
_TAIL = re.compile(r"([^\W\d_]+(?:[-\u2010][^\W\d_]+)*)[-\u2010\u00ad\u00ac]$")
_HEAD = re.compile(r"[^\W\d_]+")


def join_lines(lines: Iterable[str], vocabulary: Set[str] = frozenset()) -> str:
    """The running text of lines that follow one another in a paragraph.

    Args:
        lines: Text of each line.
        vocabulary: Words seen elsewhere on the page, lower case, hyphenated ones
            with their hyphen; they decide whether a hyphen is the word's own.
    """
    text = ""
    for piece in map(str.strip, lines):
        text = join_pair(text, piece, vocabulary) if text and piece else text or piece
    return text


def join_pair(before: str, after: str, vocabulary: Set[str] = frozenset()) -> str:
    """Two pieces of running text as one."""
    if before[-1] in _HYPHENS and len(before) > 1 and not before[-2].isspace():
        return _join_hyphen(before, after, vocabulary)
    if before[-1] in "—–" and len(before) > 1 and before[-2].isalpha():
        return before + after
    if after[0] in "—" and len(after) > 1 and after[1].isalpha() and before[-1].isalpha():
        return before + after
    if _CJK.match(before[-1]) and _CJK.match(after[0]):
        return before + after
    return f"{before} {after}"


def words_of(texts: Iterable[str]) -> frozenset[str]:
    """The words of whole lines, lower case, broken ones at line ends left out."""
    words: set[str] = set()
    for text in texts:
        words.update(
            word.lower()
            for word in re.findall(r"[^\W\d_]+(?:[-\u2010][^\W\d_]+)*(?![-\u2010\w])", text)
        )
    return frozenset(words)


def _join_hyphen(before: str, after: str, vocabulary: Set[str]) -> str:
    stem, mark = before[:-1], before[-1]
    head = _HEAD.match(after)
    if mark in "\u00ad\u00ac":
        return stem + after
    if head is None:
        # Number ranges and codes: the hyphen is theirs.
        return before + after if after[0].isdigit() else f"{before} {after}"
    first = head.group().lower()
    if first in _SUSPENDING and after[head.end() : head.end() + 1] in (" ", ""):
        return f"{before} {after}"
    tail = _TAIL.search(before)
    if tail is None or head.group()[0].isupper():
        return before + after
    return before + after if _own_hyphen(tail.group(1).lower(), first, vocabulary) else stem + after


def _own_hyphen(tail: str, head: str, vocabulary: Set[str]) -> bool:
    if tail + head in vocabulary:
        return False
    last = re.split(r"[-\u2010]", tail)[-1]
    return (
        f"{tail}-{head}" in vocabulary
        or "-" in tail
        or len(last) == 1
        or last in _PREFIXES
        or head in _ENCLITIC
    )
