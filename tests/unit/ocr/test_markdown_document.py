"""Decisions over the whole document: levels, running heads, joins, gaps, marks."""

import dataclasses

import pytest

from ocr.document import BBox, Block, BlockKind, Cell, Line, Page, PageStatus, Table
from ocr.markdown import render_markdown
from ocr.markdown.joining import join_lines, words_of
from ocr.options import MarkdownOptions

SIZE = (1000, 1400)


def block(kind, text, *, top=500, left=100, right=900, height=30, **values):
    return Block(kind, BBox(left, top, right, top + height), text, **values)


def paragraph(text, *, runs_on=False, **values):
    style = {"size": 0.02, "runs_on": runs_on}
    return block(BlockKind.PARAGRAPH, text, style=style, **values)


def heading(text, size, **style):
    return block(BlockKind.HEADING, text, style={"size": size, **style})


def pages(*contents):
    return [Page(index, SIZE, 200, tuple(blocks)) for index, blocks in enumerate(contents)]


def render(document, **options):
    return render_markdown(document, MarkdownOptions(**options))


@pytest.mark.parametrize(
    ("lines", "joined"),
    [
        (["The estab-", "lishment of"], "The establishment of"),
        (["state-of-the-", "art tools"], "state-of-the-art tools"),
        (["Haupt-", "und Nebensache"], "Haupt- und Nebensache"),
        (["Müller-", "Lüdenscheidt"], "Müller-Lüdenscheidt"),
        (["die Donau-", "dampfschifffahrt"], "die Donaudampfschifffahrt"),
        (["2019-", "2020"], "2019-2020"),
        (["a self-", "made man"], "a self-made man"),
        (["dit-", "elle"], "dit-elle"),
        (["an e-", "mail"], "an e-mail"),
        (["soft\u00ad", "ware"], "software"),
        (["Croatia—", "people want"], "Croatia—people want"),
        (["dash -", "and more"], "dash - and more"),
        (["中文的行", "接着写"], "中文的行接着写"),
        (["one", "", "two"], "one two"),
    ],
)
def test_hyphens_are_undone_only_where_they_are_the_printers(lines, joined):
    assert join_lines(lines) == joined


def test_a_hyphenated_word_seen_elsewhere_keeps_its_hyphen():
    seen = words_of(["a long-term plan"])
    assert join_lines(["the long-", "term view"], seen) == "the long-term view"
    assert join_lines(["the long-", "term view"]) == "the longterm view"


def test_levels_follow_size_over_the_whole_document():
    text = render(
        pages(
            [heading("Report", 0.05), heading("Part one", 0.03), paragraph("Body.")],
            [heading("Detail", 0.022, bold=True), heading("Part two", 0.0301)],
        )
    )
    assert "\n# Report\n" in text
    assert "\n## Part one\n" in text
    assert "\n## Part two\n" in text
    assert "\n### Detail\n" in text


def test_numbering_overrules_type():
    text = render(
        pages(
            [
                heading("A Study", 0.05),
                heading("1 Methods", 0.03, numbering=1.0),
                heading("1.1 Data", 0.03, numbering=2.0),
                heading("2 Results", 0.027, numbering=1.0),
            ]
        )
    )
    assert "\n## 1 Methods\n" in text
    assert "\n### 1.1 Data\n" in text
    assert "\n## 2 Results\n" in text


def test_running_heads_and_folios_leave_a_document_of_several_pages():
    document = pages(
        *[
            [
                block(BlockKind.RUNNING_HEAD, f"Annual report {year}", top=20),
                paragraph(f"Text of page {word}."),
                block(BlockKind.FOLIO, str(10 + index), top=1350),
            ]
            for index, (year, word) in enumerate([(2020, "a"), (2020, "b"), (2020, "c")])
        ]
    )
    text = render(document)
    assert "Annual" not in text
    assert "11" not in text
    assert text.count("Text of page") == 3


def test_a_single_page_keeps_what_only_looks_like_a_running_head():
    text = render(pages([block(BlockKind.RUNNING_HEAD, "Invoice copy", top=20), paragraph("x")]))
    assert "Invoice copy" in text


def test_numbers_that_do_not_count_up_are_no_folios():
    document = pages(
        [paragraph("a"), block(BlockKind.FOLIO, "300", top=1350)],
        [paragraph("b"), block(BlockKind.FOLIO, "120", top=1350)],
    )
    text = render(document)
    assert "300" in text
    assert "120" in text


def test_a_paragraph_goes_on_over_the_page_break_and_its_word_is_whole():
    document = pages(
        [
            block(BlockKind.RUNNING_HEAD, "Head", top=10),
            paragraph("It was an exam-", runs_on=True),
            block(BlockKind.FOOTNOTE, "1 See there."),
        ],
        [block(BlockKind.RUNNING_HEAD, "Head", top=10), paragraph("ple of joining.", top=60)],
    )
    text = render(document)
    assert "It was an example <!-- page 2 --> of joining." in text
    assert text.count("<!-- page 2 -->") == 1
    assert "Head" not in text
    assert "It was an example of joining." in render(document, page_separator="none")


def test_a_finished_paragraph_is_not_joined():
    document = pages([paragraph("It ended here.", runs_on=True)], [paragraph("and on", top=60)])
    assert "\n\n<!-- page 2 -->\n\nand on" in render(document)


def test_columns_of_one_page_are_joined():
    document = pages(
        [
            paragraph("left column runs", runs_on=True, top=1200, right=450),
            paragraph("on in the right one.", top=100, left=550),
        ]
    )
    assert "left column runs on in the right one." in render(document)


def table(rows, *, lefts=(100, 400), top=0):
    cells = [
        Cell(r, c, text, header=r == 0, bbox=BBox(lefts[c], top + 40 * r, lefts[c] + 90, top + 30))
        for r, row in enumerate(rows)
        for c, text in enumerate(row)
    ]
    return block(BlockKind.TABLE, "", top=top, table=Table(len(rows), 2, tuple(cells)))


def test_a_table_goes_on_over_the_page_break_without_its_repeated_head():
    document = pages(
        [table([["Item", "Price"], ["A", "1"]], top=1200)],
        [table([["Item", "Price"], ["B", "2"]], top=50), paragraph("After.")],
    )
    text = render(document)
    assert "| A | 1 |\n| B | 2 |" in text
    assert text.count("Item") == 1
    assert text.index("| B | 2 |") < text.index("<!-- page 2 -->") < text.index("After.")


def test_tables_with_other_columns_stay_apart():
    document = pages(
        [table([["Item", "Price"], ["A", "1"]])],
        [table([["Name", "Town"], ["B", "2"]], lefts=(100, 700))],
    )
    assert "| Name | Town |\n| --- | --- |" in render(document)


def test_pages_that_could_not_be_read_leave_a_visible_line():
    document = [
        Page(0, SIZE, None, (paragraph("Fine."),)),
        Page(1, SIZE, None, (), PageStatus.FAILED, reason="it took *too* long"),
        Page(2, SIZE, None, (paragraph("Half"),), PageStatus.TRUNCATED, reason="limit"),
        Page(3, SIZE, None, (), PageStatus.BLANK),
    ]
    text = render(document)
    assert "> **[Page 2 could not be read: it took \\*too\\* long]**" in text
    assert text.index("Half") < text.index("> **[Page 3 was not read to its end: limit]**")
    assert text.rstrip().endswith("<!-- page 4 -->")


def test_page_separators():
    document = pages([paragraph("First.")], [paragraph("Last.")])
    assert render(document) == "<!-- page 1 -->\n\nFirst.\n\n<!-- page 2 -->\n\nLast.\n"
    assert render(document, page_separator="rule").count("\n\n---\n\n") == 1
    assert render(document, page_separator="none") == "First.\n\nLast.\n"
    assert render([]) == ""


def test_uncertain_words_are_marked_and_printed_marks_told_apart():
    words = tuple(
        Line(text, BBox(0, 0, 1, 1), sure)
        for text, sure in [("Total", 0.99), ("4Z", 0.4), ("EUR", 0.95), ("exam-", 0.3)]
    )
    line = Line("Total 4Z EUR exam-", BBox(0, 0, 1, 1), 0.7, words=words)
    rest = Line("ple [?]", BBox(0, 0, 1, 1), 0.99)
    body = dataclasses.replace(paragraph("Total 4Z EUR example [?]"), lines=(line, rest))
    assert "Total 4Z[?] EUR example[?] \\[?]" in render(pages([body]), mark_uncertain=0.6)
    assert "4Z EUR" in render(pages([body]))


def test_uncertain_cells_are_marked():
    cells = (Cell(0, 0, "Sum"), Cell(0, 1, "l0"))
    lines = (Line("Sum", BBox(0, 0, 1, 1), 0.99), Line("l0", BBox(0, 0, 1, 1), 0.2))
    found = block(BlockKind.TABLE, "", table=Table(1, 2, cells), lines=lines)
    assert "| Sum | l0[?] |" in render(pages([found]), mark_uncertain=0.5)


def test_lists_keep_nesting_and_numbers():
    def item(text, marker, level=0):
        return block(BlockKind.LIST_ITEM, text, marker=marker, level=level)

    text = render(
        pages(
            [
                item("one", "3."),
                item("inner", "•", 1),
                item("two", "4."),
                item("jump", "9."),
                item("letter", "a)"),
            ]
        )
    )
    assert "3. one\n   - inner\n4. two\n- 9\\. jump\n- a\\) letter" in text


def test_figures_are_linked_safely_and_their_labels_kept():
    figure = block(BlockKind.FIGURE, "0 ] 10\n20", asset="page-0001 figure(1).png")
    text = render(pages([figure]), assets_name="Brief <1>.assets")
    assert "![0 \\] 10 20](Brief%20%3C1%3E.assets/page-0001%20figure%281%29.png)" in text
    assert "0 ] 10  \n20" in render(pages([figure]))
