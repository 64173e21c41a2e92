r"""Marks words that were read with little confidence.

The mark is `[?]` right after the word, as editors of manuscripts write it: it
shows in every renderer, survives every conversion, and a `[?]` that was printed
on the page itself is written `\[?]`, so the two can be told apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from difflib import SequenceMatcher

from ocr.document import Block, Line

MARK = "[?]"


def word_confidences(lines: Iterable[Line]) -> list[tuple[str, float]]:
    """Each word with its confidence, or its line's where words have none."""
    words: list[tuple[str, float]] = []
    for line in lines:
        if line.words:
            words.extend(
                (part, word.confidence) for word in line.words for part in word.text.split()
            )
        else:
            words.extend((part, line.confidence) for part in line.text.split())
    return words


def uncertain_positions(block: Block, text: str, threshold: float) -> set[int]:
    """Which words of `text` (split at white space) were read below `threshold`."""
    known = word_confidences(block.lines)
    if not known:
        return set(range(len(text.split()))) if block.confidence < threshold else set()
    tokens = text.split()
    matcher = SequenceMatcher(a=[word for word, _ in known], b=tokens, autojunk=False)
    found: set[int] = set()
    for tag, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        if tag == "equal":
            found.update(
                b_from + offset
                for offset, (_, confidence) in enumerate(known[a_from:a_to])
                if confidence < threshold
            )
        elif any(confidence < threshold for _, confidence in known[a_from:a_to]):
            # Words joined over a line's end: uncertain if either half is.
            found.update(range(b_from, b_to))
    return found


def uncertain_words(block: Block, threshold: float) -> Counter[str]:
    """How often each word of the block was read below `threshold`."""
    return Counter(word for word, sure in word_confidences(block.lines) if sure < threshold)
