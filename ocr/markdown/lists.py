"""List items as Markdown lists, nested, with their printed numbers kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ocr.document import Block
from ocr.markdown.escape import escape_start

_NUMBER = re.compile(r"^(\d{1,9})([.)])$")
_BULLETS = re.compile(r"^[^\w(]?$")

Inline = Callable[[Block, str], str]


def list_lines(items: Sequence[Block], inline: Inline) -> list[str]:
    """One line for each item.

    Numbers stay numbers where they count up from item to item; other markers
    ("a)", "(3)", "§") are kept as text behind a bullet, because Markdown has no
    such lists.
    """
    lines: list[str] = []
    indents: list[int] = []
    counts: dict[int, int] = {}
    for item in items:
        depth = min(item.level or 0, len(indents))
        del indents[depth:]
        for deeper in [level for level in counts if level > depth]:
            del counts[deeper]
        marker, kept = _marker(item, counts, depth)
        text = inline(item, item.text)
        body = f"{_text_marker(kept)} {text}" if kept else _item_start(text)
        lines.append(" " * sum(indents) + f"{marker} {body}".rstrip())
        indents.append(len(marker) + 1)
    return lines


def _marker(item: Block, counts: dict[int, int], depth: int) -> tuple[str, str]:
    """The Markdown marker and what of the printed one must stay as text."""
    printed = (item.marker or "").strip()
    number = _NUMBER.match(printed)
    if number is not None:
        value = int(number.group(1))
        expected = counts.get(depth)
        if expected is None or value == expected + 1:
            counts[depth] = value
            return printed, ""
        counts.pop(depth, None)
        return "-", printed
    counts.pop(depth, None)
    return "-", "" if _BULLETS.match(printed) else printed


def _text_marker(printed: str) -> str:
    return escape_start(printed + " ").rstrip()


def _item_start(text: str) -> str:
    escaped = escape_start(text)
    # "[ ]" would become a check box.
    return "\\" + escaped if re.match(r"\[[ xX]\]", escaped) else escaped
