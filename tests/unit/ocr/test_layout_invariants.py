"""Whatever the lines are, each ends up in exactly one block and nothing breaks."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ocr.document import BBox, Line
from ocr.layout import Region, assemble
from ocr.options import ReadOptions
from tests.unit.ocr.layout_builder import Sheet

SIZE = (600, 800)
NOISE = np.random.default_rng(1).integers(0, 256, (SIZE[1], SIZE[0], 3), dtype=np.uint8)


@st.composite
def lines(draw):
    left = draw(st.integers(-5, 590))
    top = draw(st.integers(-5, 790))
    width = draw(st.integers(0, 500))
    height = draw(st.integers(0, 60))
    text = draw(
        st.one_of(
            st.sampled_from(["• one", "1. two", "Table 1: x", "12.50", "42", "中文字", "a-", "—"]),
            st.text(min_size=1, max_size=30),
        )
    )
    box = BBox(left, top, left + width, top + height)
    return Line(text, box, draw(st.floats(0, 1)), draw(st.sampled_from([None, 5.0, 20.0])))


regions = st.builds(
    lambda kind, x, y, w, h, score: Region(kind, BBox(x, y, x + w, y + h), score),
    st.sampled_from(["table", "figure", "title", "text", "header"]),
    st.integers(0, 500),
    st.integers(0, 700),
    st.integers(1, 600),
    st.integers(1, 800),
    st.floats(0, 1),
)


def placed(blocks):
    return sorted(line.text for block in blocks for line in block.lines)


@settings(max_examples=60, deadline=None)
@given(st.lists(lines(), max_size=20), st.lists(regions, max_size=4), st.booleans())
def test_no_line_is_lost_or_doubled(found, areas, with_image):
    image = NOISE if with_image else None
    blocks = assemble(found, SIZE, image=image, regions=areas, options=ReadOptions())
    wanted = "".join("".join(line.text.split()) for line in found if line.text.strip())
    joined = "".join("".join(text.split()) for text in placed(blocks))
    assert sorted(joined) == sorted(wanted)


def test_a_till_roll_is_read_line_by_line():
    sheet = Sheet(1)
    rows = [("CORNER SHOP", ""), ("12 High Street", "")]
    rows += [(f"Article {number}", f"{number}.50") for number in range(1, 9)]
    rows += [("Total", "36.00"), ("Cash", "40.00"), ("Change", "4.00"), ("Thank you", "")]
    top = 300
    for left, right in rows:
        if right:
            sheet.put(right, 0, top, right=900)
        top = sheet.put(left, 300, top)
    blocks = sheet.blocks()
    flat = [line for block in blocks for line in block.text.splitlines()]
    assert flat == [f"{left} {right}".strip() for left, right in rows]
