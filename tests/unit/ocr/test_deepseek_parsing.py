"""From the model's words to blocks, whatever state the words are in."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocr import Block, BlockKind
from ocr.engines.deepseek.html_tables import parse_table
from ocr.engines.deepseek.parsing import parse, plain

SIZE = (1998, 999)


def region(label: str, box: object, text: str = "") -> str:
    return f"<|ref|>{label}<|/ref|><|det|>{box}<|/det|>\n{text}\n\n"


def one(raw: str) -> Block:
    blocks = parse(raw, SIZE)
    assert len(blocks) == 1, blocks
    return blocks[0]


def test_a_paragraph_lies_where_the_model_saw_it():
    block = one(region("text", "[[0, 0, 999, 500]]", "Some **bold** words."))
    assert (block.kind, block.text) == (BlockKind.PARAGRAPH, "Some bold words.")
    box = block.bbox
    assert (box.left, box.top, box.right, box.bottom) == pytest.approx((0, 0, 1998, 500))


def test_titles_and_headings_keep_their_level():
    raw = region("title", "[[1,1,9,9]]", "# Report") + region("sub_title", "[[1,20,9,30]]", "### A")
    title, heading = parse(raw, SIZE)
    assert (title.kind, title.text, title.level) == (BlockKind.TITLE, "Report", 1)
    assert (heading.kind, heading.text, heading.level) == (BlockKind.HEADING, "A", 3)


def test_a_list_keeps_its_items_markers_and_order_of_height():
    text = "- first\n  - inner\n2. second"
    items = parse(region("text", "[[0,0,999,300]]", text), SIZE)
    assert [item.kind for item in items] == [BlockKind.LIST_ITEM] * 3
    assert [item.text for item in items] == ["first", "inner", "second"]
    assert [item.marker for item in items] == ["•", "•", "2."]
    assert items[1].level == 1
    assert items[0].bbox.bottom <= items[1].bbox.top + 0.01


def test_an_initial_is_no_list_item():
    block = one(region("text", "[[0,0,9,9]]", "J. Doe wrote this letter."))
    assert (block.kind, block.text) == (BlockKind.PARAGRAPH, "J. Doe wrote this letter.")
    items = parse(region("text", "[[0,0,9,9]]", "a) one\nb) two"), SIZE)
    assert [item.marker for item in items] == ["a)", "b)"]


def test_short_lines_keep_their_breaks():
    block = one(region("text", "[[0,0,9,9]]", "Jane Doe\n1 Main Street\nSpringfield"))
    assert block.kind is BlockKind.CODE
    assert block.text.splitlines() == ["Jane Doe", "1 Main Street", "Springfield"]


def test_formulas_lose_their_delimiters():
    block = one(region("equation", "[[0,0,9,9]]", r"\[ E = mc^2 \]"))
    assert (block.kind, block.text) == (BlockKind.FORMULA, "E = mc^2")
    inside = one(region("text", "[[0,0,9,9]]", r"where \(a_i * b_i\) is *small*."))
    assert inside.text == r"where \(a_i * b_i\) is small."


def test_a_display_formula_splits_its_paragraph():
    blocks = parse(region("text", "[[0,0,9,99]]", "Thus\n$$x = 1$$\nholds."), SIZE)
    assert [block.kind for block in blocks] == [
        BlockKind.PARAGRAPH,
        BlockKind.FORMULA,
        BlockKind.PARAGRAPH,
    ]


def test_every_picture_of_a_region_becomes_a_figure():
    blocks = parse(region("image", "[[0,0,100,100],[200,0,300,100]]"), SIZE)
    assert [block.kind for block in blocks] == [BlockKind.FIGURE] * 2


def test_a_table_keeps_spans_and_heads():
    html = (
        "<table><thead><tr><th colspan=2>Head</th></tr></thead>"
        "<tr><td rowspan='2'>a</td><td>b &amp; c</td></tr><tr><td>d<br>e</td></tr></table>"
    )
    table = one(region("table", "[[0,0,9,9]]", html)).table
    assert table is not None
    assert (table.rows, table.columns) == (3, 2)
    cells = {(cell.row, cell.column): cell for cell in table.cells}
    assert cells[0, 0].header
    assert cells[0, 0].column_span == 2
    assert cells[1, 0].row_span == 2
    assert cells[1, 1].text == "b & c"
    assert cells[2, 1].text == "d e"


def test_text_around_a_table_is_kept():
    raw = region("table", "[[0,0,9,9]]", "Before<table><tr><td>1</td></tr></table>After")
    assert [block.text for block in parse(raw, SIZE)] == ["Before", "", "After"]


def test_furniture_is_told_from_text():
    raw = region("header", "[[0,0,9,9]]", "Annual report") + region(
        "page_number", "[[0,0,1,1]]", "7"
    )
    assert [b.kind for b in parse(raw, SIZE)] == [BlockKind.RUNNING_HEAD, BlockKind.FOLIO]


def test_output_without_any_region_is_text_of_the_whole_page():
    block = one("Just words without marks that go on in one line as free OCR gives them.")
    assert block.kind is BlockKind.PARAGRAPH
    assert (block.bbox.right, block.bbox.bottom) == SIZE


@pytest.mark.parametrize(
    "raw",
    [
        "<|ref|>text<|/ref|><|det|>[[1, 2, 3",
        "<|ref|>text<|det|>[[1,2,3,4]] kept words",
        "<|ref|>text<|/ref|>kept words",
        "<|ref|>kept words",
        "<|ref|>text<|/ref|><|det|>__import__('os').system('x')<|/det|>kept words",
        "<|ref|>table<|/ref|><|det|>[[1,1,2,2]]<|/det|><table><tr><td>kept words",
        "<|ref|>text<|/ref|><|det|>[[99999999999, -5, nan, 1e400]]<|/det|>kept words",
    ],
)
def test_malformed_output_loses_marks_but_no_words(raw):
    blocks = parse(raw, SIZE)
    words = " ".join(
        [block.text for block in blocks]
        + [cell.text for block in blocks if block.table for cell in block.table.cells]
    )
    assert "<|" not in words
    if "kept words" in raw:
        assert "kept words" in words
    for block in blocks:
        assert 0 <= block.bbox.left <= block.bbox.right <= SIZE[0]
        assert 0 <= block.bbox.top <= block.bbox.bottom <= SIZE[1]


MARKS = ["<|ref|>", "<|/ref|>", "<|det|>", "<|/det|>", "[[", "]]", "1,2,3,4"]
LABELS = ["text", "image", "table", "title", "equation"]
HTML = ["<table>", "</table>", "<tr>", "<td rowspan=9999>", "<td colspan=3>", "</td>", "&#x110000;"]
SIGNS = ["\n", "- x", "# h", "1) ", "$$", r"\[", r"\]", r"\(", r"\)", "**", "```", "\x00", "<"]
PIECES = st.sampled_from([*MARKS, *LABELS, *HTML, *SIGNS])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(PIECES, st.text(max_size=8)), max_size=60))
def test_any_output_gives_blocks_inside_the_page(pieces):
    for block in parse("".join(pieces), SIZE):
        assert 0 <= block.bbox.left <= block.bbox.right <= SIZE[0]
        assert 0 <= block.bbox.top <= block.bbox.bottom <= SIZE[1]
        assert block.text or block.table or block.kind is BlockKind.FIGURE
        if block.table:
            covered = [
                (cell.row + down, cell.column + across)
                for cell in block.table.cells
                for down in range(cell.row_span)
                for across in range(cell.column_span)
            ]
            assert len(covered) == len(set(covered))
            assert max(row for row, _ in covered) < block.table.rows
            assert max(column for _, column in covered) < block.table.columns


def test_absurd_spans_do_not_grow_the_table():
    table = parse_table("<table><tr><td rowspan=999999 colspan=999999>x</td></tr></table>")
    assert table is not None
    assert (table.rows, table.columns) == (1, 200)


def test_plain_text_unescapes_and_drops_tags():
    assert plain(r"a &lt; b \* <sup>2</sup> ~~old~~ ![alt](x.png)") == "a < b * 2 old alt"
