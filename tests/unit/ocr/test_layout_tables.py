"""Tables of known truth: ruled, half-ruled, unruled, spanning; and no tables."""

import pytest

from ocr.document import BlockKind
from tests.unit.ocr.layout_builder import Sheet, grid, width_of

SEEDS = range(4)


def only_table(blocks):
    tables = [block.table for block in blocks if block.kind is BlockKind.TABLE]
    assert len(tables) == 1
    return tables[0]


def price_rows(sheet, count):
    rows = [["Item", "Quantity", "Unit price", "Total"]]
    for number in range(count):
        name = " ".join(sheet.random.sample(("Blue", "chair", "lamp", "desk", "oak"), 2))
        price = sheet.random.randrange(100, 99999) / 100
        rows.append([name, str(number + 1), f"{price:.2f}", f"€ {price * (number + 1):,.2f}"])
    return rows


def set_table(sheet, rows, *, lefts=(150, 620, 860, 1200), rights=(0, 780, 1100, 1450), top=600):
    for row in rows:
        for column, text in enumerate(row):
            if column == 0:
                sheet.put(text, lefts[0], top)
            else:
                sheet.put(text, 0, top, right=rights[column])
        top += 52
    return top


@pytest.mark.parametrize("seed", SEEDS)
def test_unruled_table_with_right_aligned_numbers(seed):
    sheet = Sheet(seed)
    sheet.prose(150, 200, 1300, 4)
    rows = price_rows(sheet, 6)
    bottom = set_table(sheet, rows)
    sheet.prose(150, bottom + 60, 1300, 4)
    blocks = sheet.blocks()
    assert grid(only_table(blocks)) == rows
    assert [block.kind for block in blocks] == [
        BlockKind.PARAGRAPH,
        BlockKind.TABLE,
        BlockKind.PARAGRAPH,
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_table_between_three_rules_with_wrapped_cells(seed):
    sheet = Sheet(seed)
    rows = [["Method", "Result", "Remark"]]
    top = 640
    sheet.put("Method", 160, 604)
    sheet.put("Result", 800, 604)
    sheet.put("Remark", 1100, 604)
    for y in (590, 640):
        sheet.rule(150, y, 1450, y)
    top = 660
    for number in range(6):
        name = f"Author {number} et al."
        if number % 3 == 1:
            sheet.put(name + " with a rather long", 160, top)
            sheet.put("name that needs two lines", 160, top + 40)
            sheet.put(f"9{number}.5", 800, top + 20)
            sheet.put("F1", 1100, top + 20)
            rows.append(
                [name + " with a rather long name that needs two lines", f"9{number}.5", "F1"]
            )
            top += 80
        else:
            sheet.put(name, 160, top)
            sheet.put(f"9{number}.5", 800, top)
            sheet.put("F1", 1100, top)
            rows.append([name, f"9{number}.5", "F1"])
            top += 42
    sheet.rule(150, top + 5, 1450, top + 5)
    assert grid(only_table(sheet.blocks())) == rows


def test_ruled_table_with_spans_in_both_directions():
    sheet = Sheet(1)
    xs, ys = (150, 450, 800, 1450), (500, 570, 640, 710, 780)
    for y in (ys[0], ys[1], ys[3], ys[4]):
        sheet.rule(xs[0], y, xs[-1], y)
    sheet.rule(xs[1], ys[2], xs[-1], ys[2])
    sheet.rule(xs[0], ys[0], xs[0], ys[-1])
    sheet.rule(xs[-1], ys[0], xs[-1], ys[-1])
    sheet.rule(xs[1], ys[1], xs[1], ys[3])
    sheet.rule(xs[2], ys[0], xs[2], ys[3])
    sheet.put("Plan", 300, 520)
    sheet.put("Content", 1000, 520)
    sheet.put("Two groups", 170, 620)
    sheet.put("one", 500, 590)
    sheet.put("first content", 830, 590)
    sheet.put("two", 500, 660)
    sheet.put("second content", 830, 660)
    sheet.put("Note over all columns of the table", 170, 730)
    table = only_table(sheet.blocks())
    note = "Note over all columns of the table"
    assert grid(table) == [
        ["Plan", "Plan", "Content"],
        ["Two groups", "one", "first content"],
        ["Two groups", "two", "second content"],
        [note, note, note],
    ]
    assert any(cell.column_span == 3 for cell in table.cells)


def test_a_line_read_across_two_ruled_cells_is_cut_between_its_words():
    sheet = Sheet(1)
    for y in (500, 570, 640):
        sheet.rule(150, y, 1000, y)
    cut = 160 + width_of("left cell ", 28) - 6
    for x in (150, cut, 1000):
        sheet.rule(x, 500, x, 640)
    sheet.put("left cell right cell", 160, 520, words=True)
    sheet.put("below", 160, 590)
    sheet.put("beside", cut + 12, 590)
    assert grid(only_table(sheet.blocks())) == [["left cell", "right cell"], ["below", "beside"]]


def test_heading_over_a_group_of_columns_spans_them():
    sheet = Sheet(1)
    for y in (500, 640, 900):
        sheet.rule(150, y, 1450, y)
    sheet.put("Variable", 160, 550)
    sheet.put("Male", 690, 515)
    sheet.put("Female", 1140, 515)
    for x in (600, 800, 1060, 1260):
        sheet.put("95%" if x in (800, 1260) else "Mean", x, 585)
    rows = []
    for number in range(5):
        top = 655 + 48 * number
        values = [f"{sheet.random.randrange(10, 99)}.{number}" for _ in range(4)]
        sheet.put(f"Measure {number}", 160, top)
        for x, value in zip((600, 800, 1060, 1260), values, strict=True):
            sheet.put(value, x, top)
        rows.append([f"Measure {number}", *values])
    found = grid(only_table(sheet.blocks()))
    assert found[0] == ["Variable", "Male", "Male", "Female", "Female"]
    assert found[1] == ["Variable", "Mean", "95%", "Mean", "95%"]
    assert found[2:] == rows


def test_section_rows_inside_a_table_stay_rows():
    sheet = Sheet(1)
    for y in (500, 560, 920):
        sheet.rule(150, y, 1450, y)
    for x, text in ((160, "Group"), (800, "Before"), (1100, "After")):
        sheet.put(text, x, 515)
    rows, top = [["Group", "Before", "After"]], 580
    for number in range(6):
        sheet.put(f"Part {number}", 160, top, bold=number % 3 == 0)
        if number % 3 == 0:
            rows.append([f"Part {number}", "", ""])
        else:
            sheet.put(f"1{number}", 800, top)
            sheet.put(f"2{number}", 1100, top)
            rows.append([f"Part {number}", f"1{number}", f"2{number}"])
        top += 52
    assert grid(only_table(sheet.blocks())) == rows


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("columns", [2, 3])
def test_columns_of_text_are_no_table(columns, seed):
    sheet = Sheet(seed)
    width = (1400 - 60 * (columns - 1)) / columns
    for column in range(columns):
        sheet.prose(100 + column * (width + 60), 300, width, 25, 24)
    sheet.rule(100, 280, 1500, 280)
    sheet.rule(100, 1500, 1500, 1500)
    assert all(block.kind is not BlockKind.TABLE for block in sheet.blocks())


def test_a_framed_text_is_no_table():
    sheet = Sheet(2)
    _, bottom = sheet.prose(150, 300, 1200, 8)
    for y in (280, bottom + 10):
        sheet.rule(120, y, 1400, y)
    for x in (120, 1400):
        sheet.rule(x, 280, x, bottom + 10)
    assert [block.kind for block in sheet.blocks()] == [BlockKind.PARAGRAPH]
