"""Pages of known truth: order, paragraphs, headings, lists, forms, furniture."""

import pytest

from ocr.document import BBox, BlockKind, Line
from ocr.layout import assemble
from ocr.options import ReadOptions
from tests.unit.ocr.layout_builder import PAGE, Sheet, width_of

SEEDS = range(4)


def texts(blocks, kind=BlockKind.PARAGRAPH):
    return [block.text for block in blocks if block.kind is kind]


def every_line_once(sheet, blocks):
    placed = sorted(line.text for block in blocks for line in block.lines)
    return placed == sorted(line.text for line in sheet.lines)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_columns_are_read_one_after_the_other(columns, seed):
    sheet = Sheet(seed)
    gutter, size = 60, 24
    width = (1400 - gutter * (columns - 1)) / columns
    truth = []
    for column in range(columns):
        left, top = 100 + column * (width + gutter), 300 + sheet.random.randrange(30)
        for _ in range(3):
            text, top = sheet.prose(left, top, width, sheet.random.randrange(4, 8), size)
            top += 20
            truth.append(text)
    blocks = sheet.blocks()
    assert texts(blocks) == truth
    assert every_line_once(sheet, blocks)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_heading_across_two_columns_parts_them(seed):
    sheet = Sheet(seed)
    truth = []
    top = 200
    for _ in range(2):
        title = " ".join(sheet.random.choice(("Alpha", "Beta", "Gamma")) for _ in range(6))
        sheet.put(title, 120, top, 44, bold=True)
        truth.append(title)
        tops = []
        for left in (100, 830):
            text, end = sheet.prose(left, top + 110, 670, 8)
            truth.append(text)
            tops.append(end)
        top = max(tops) + 60
    blocks = sheet.blocks()
    assert [block.text for block in blocks] == truth
    assert [block.kind for block in blocks] == [
        kind
        for _ in range(2)
        for kind in (BlockKind.HEADING, BlockKind.PARAGRAPH, BlockKind.PARAGRAPH)
    ]


def test_text_runs_round_a_box_between_the_columns():
    sheet = Sheet(3)
    left, right = [], []
    for number in range(24):
        top = 300 + 40 * number
        narrow = 8 <= number < 14
        for side, out in ((0, left), (1, right)):
            size, words = 26, []
            width = 470 if narrow else 640
            while width_of(" ".join([*words, "reading"]), size) < width:
                words.append(sheet.random.choice(("reading", "letters", "archive")))
            x = 100 if side == 0 else (1500 - width)
            sheet.put(" ".join(words), x, top + 7 * side, size)
            out.append(" ".join(words))
    for number, text in enumerate(("A CAPTION", "IN A BOX", "OF ITS OWN")):
        sheet.put(text, 690, 640 + 40 * number, 24)
    blocks = sheet.blocks()
    flat = " ".join(block.text for block in blocks)
    assert flat.index(left[-1]) < flat.index(right[0])
    assert " ".join(left) in flat
    assert " ".join(right) in flat
    assert every_line_once(sheet, blocks)


def test_indented_paragraphs_without_gaps_are_parted():
    sheet = Sheet(5)
    truth, top = [], 300
    for _ in range(4):
        text, top = sheet.prose(100, top, 1300, 5, indent=50)
        truth.append(text)
    assert texts(sheet.blocks()) == truth


@pytest.mark.parametrize("seed", SEEDS)
def test_headings_of_every_make_are_found_and_text_is_not(seed):
    sheet = Sheet(seed)
    top = sheet.put("Annual Survey of Archives", 400, 200, 56, bold=True) + 60
    truth = ["Annual Survey of Archives"]
    for title, size, bold in [
        ("1 Introduction", 28, True),
        ("1.1 Earlier work", 28, False),
        ("Methods and Material", 36, False),
        ("CONCLUSIONS", 28, True),
    ]:
        sheet.put(title, 100, top + 30, size, bold=bold)
        truth.append(title)
        _, top = sheet.prose(100, top + 90, 1350, 5)
    blocks = sheet.blocks()
    assert texts(blocks, BlockKind.HEADING) == truth
    assert len(texts(blocks)) == 4


@pytest.mark.parametrize("mark", ["•", "■", "–", "{n}.", "({n})", "{a})"])
def test_lists_keep_their_items_apart_and_lines_together(mark):
    sheet = Sheet(1)
    _, top = sheet.prose(100, 200, 1350, 3)
    top += 20
    truth = []
    for number in range(1, 6):
        printed = mark.format(n=number, a="abcdef"[number - 1])
        first = f"{printed} The item number {number} starts with a line that is long enough to fill"
        top = sheet.put(first + " the whole measure", 120, top)
        top = sheet.put("and goes on in a second one.", 160, top)
        truth.append(first.split(" ", 1)[1] + " the whole measure and goes on in a second one.")
    blocks = sheet.blocks()
    items = [block for block in blocks if block.kind is BlockKind.LIST_ITEM]
    assert [item.text for item in items] == truth
    assert {item.level for item in items} == {0}


def test_nested_lists_know_their_depth():
    sheet = Sheet(1)
    top = 300
    for text, depth in [("one", 0), ("inner", 1), ("deeper", 2), ("inner two", 1), ("two", 0)]:
        top = sheet.put(f"• {text} thing", 120 + 60 * depth, top)
    assert [block.level for block in sheet.blocks()] == [0, 1, 2, 1, 0]


def test_a_contents_list_without_bullets_is_a_list():
    sheet = Sheet(1)
    top = 300
    entries = ["1 History", "1.1 Early days", "1.2 Today", "2 Methods", "2.1 Data", "3 End"]
    for entry in entries:
        top = sheet.put(entry, 160 if "." in entry else 120, top)
    blocks = sheet.blocks()
    assert texts(blocks, BlockKind.LIST_ITEM) == entries
    assert [block.level for block in blocks] == [0, 1, 1, 0, 1, 0]


def test_a_letter_keeps_the_lines_of_its_addresses():
    sheet = Sheet(2)
    address = ["Frau Erika Beispiel", "Lange Straße 12", "12345 Musterstadt"]
    top = 250
    for line in address:
        top = sheet.put(line, 150, top)
    body, top = sheet.prose(150, top + 160, 1250, 6)
    sheet.put("Mit freundlichen Grüßen", 150, top + 60)
    blocks = sheet.blocks()
    assert blocks[0].text.splitlines() == address
    assert blocks[0].kind is BlockKind.CODE
    assert body in texts(blocks)


def test_labels_stay_with_their_values():
    sheet = Sheet(2)
    pairs = [
        ("Name:", "Tanja Tinder"),
        ("Street:", "Lane 12"),
        ("Phone:", "0151 12345"),
        ("E-mail:", "tanja at example"),
        ("Tax number:", "DE 136695976"),
    ]
    top = 300
    for label, value in pairs:
        sheet.put(value, 700, top)
        top = sheet.put(label, 150, top) + 25
    flat = [line for block in sheet.blocks() for line in block.text.splitlines()]
    assert flat == [f"{label} {value}" for label, value in pairs]


def test_a_receipt_keeps_its_lines():
    sheet = Sheet(2)
    lines = [
        ("CORNER SHOP", ""),
        ("12 High Street", ""),
        ("Milk", "1.20"),
        ("Bread rolls", "2.40"),
        ("Total", "3.60"),
        ("Cash", "5.00"),
        ("Change", "1.40"),
    ]
    top = 300
    for left, right in lines:
        if right:
            sheet.put(right, 0, top, right=900)
        top = sheet.put(left, 300, top)
    blocks = sheet.blocks()
    flat = [line.replace("\t", " ") for block in blocks for line in block.text.splitlines()]
    assert flat == [f"{a} {b}".strip() for a, b in lines]


def test_heads_feet_and_folios_are_told_from_text():
    sheet = Sheet(4)
    sheet.put("Journal of Paper 12 (2005)", 500, 60, 24)
    sheet.put("254", 100, 60, 24)
    text, _ = sheet.prose(100, 260, 1400, 20)
    sheet.put("Printed in Leipzig", 100, 2120, 24)
    kinds = {block.text: block.kind for block in sheet.blocks()}
    assert kinds["254"] is BlockKind.FOLIO
    assert kinds["Journal of Paper 12 (2005)"] is BlockKind.RUNNING_HEAD
    assert kinds["Printed in Leipzig"] is BlockKind.RUNNING_FOOT
    assert kinds[text] is BlockKind.PARAGRAPH


def test_words_of_a_text_layer_become_lines_with_single_spaces():
    sheet = Sheet(6)
    text, _ = sheet.prose(100, 300, 900, 4)
    words = []
    for line in sheet.lines:
        x = line.bbox.left
        for word in line.text.split():
            end = x + width_of(word, 28)
            words.append(Line(word, BBox(x, line.bbox.top, end, line.bbox.bottom)))
            x = end + width_of(" ", 28)
    blocks = assemble(words, PAGE, image=None, options=ReadOptions())
    assert [block.text for block in blocks] == [text]


def test_a_page_without_text_has_no_blocks():
    assert assemble([], PAGE, image=None, options=ReadOptions()) == ()
