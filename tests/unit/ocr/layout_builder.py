"""Pages of known truth as lines and drawn rules, without any model."""

import random

import numpy as np

from ocr.document import BBox, Line
from ocr.layout import assemble
from ocr.options import ReadOptions

PAGE = (1600, 2200)
WORDS = [
    "paper",
    "scanner",
    "archive",
    "letter",
    "office",
    "number",
    "record",
    "section",
    "reading",
    "ledger",
    "binder",
    "margin",
    "folder",
    "station",
    "harbour",
    "village",
    "morning",
    "question",
    "answer",
    "history",
    "printing",
    "copy",
    "drawer",
]


def width_of(text, size):
    """Width of a text in pixels, near what a common face would need."""
    return sum(0.3 if c in "iljtfr.,;:!' " else 0.75 if c in "mwMW" else 0.52 for c in text) * size


class Sheet:
    """Collects lines; every method returns where the next text may start."""

    def __init__(self, seed=0):
        self.random = random.Random(seed)
        self.lines = []
        self.rules = []

    def put(self, text, left, top, size=28, *, bold=False, right=None, words=False):
        """One line with its left (or right) edge given."""
        width = width_of(text, size)
        if right is not None:
            left = right - width
        box = BBox(left, top, left + width, top + 1.2 * size)
        parts = ()
        if words:
            parts, x = [], left
            for word in text.split(" "):
                end = x + width_of(word, size)
                parts.append(Line(word, BBox(x, box.top, end, box.bottom)))
                x = end + width_of(" ", size)
            parts = tuple(parts)
        self.lines.append(Line(text, box, 0.98, height_px=1.2 * size, bold=bold, words=parts))
        return top + 1.45 * size

    def prose(self, left, top, width, count, size=28, *, indent=0):
        """A paragraph of `count` full lines and a short one; returns (text, next top)."""
        texts = []
        for number in range(count):
            start = left + (indent if number == 0 else 0)
            words = []
            last = number == count - 1
            while True:
                word = self.random.choice(WORDS)
                if number == 0 and not words:
                    word = word.capitalize()
                if width_of(" ".join([*words, word]), size) > width - (start - left):
                    break
                words.append(word)
                if last and len(words) == 3:
                    words[-1] += "."
                    break
            texts.append(" ".join(words))
            top = self.put(texts[-1], start, top, size)
        return " ".join(texts), top

    def rule(self, x0, y0, x1, y1):
        self.rules.append((x0, y0, x1, y1))

    def image(self):
        canvas = np.full((PAGE[1], PAGE[0], 3), 255, np.uint8)
        for x0, y0, x1, y1 in self.rules:
            canvas[int(y0) : int(y1) + 3, int(x0) : int(x1) + 3] = 0
        return canvas

    def blocks(self, *, regions=(), with_image=False):
        lines = list(self.lines)
        self.random.shuffle(lines)
        return assemble(
            lines,
            PAGE,
            image=self.image() if with_image or self.rules else None,
            regions=regions,
            options=ReadOptions(),
        )


def grid(table):
    """A table's text, row by row, spanned positions repeated."""
    cells = [["" for _ in range(table.columns)] for _ in range(table.rows)]
    for cell in table.cells:
        for row in range(cell.row, cell.row + cell.row_span):
            for column in range(cell.column, cell.column + cell.column_span):
                cells[row][column] = cell.text
    return cells
