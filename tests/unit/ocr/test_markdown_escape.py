"""Text stays text: whatever is read, Markdown shows the same and nothing more."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ocr.document import BBox, Block, BlockKind, Cell, Page, Table
from ocr.markdown import render_markdown
from ocr.markdown.escape import clean
from ocr.options import MarkdownOptions

BOX = BBox(0, 0, 100, 10)
PARSER = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")
HOSTILE = [
    "<script>alert(1)</script>",
    "</td></tr></table><b>x",
    "<!-- page 9 -->",
    "&lt;b&gt; &amp; &#60;i&#62; &copy;",
    "# not a heading #",
    "####### seven",
    "1. not a list",
    "2) nor this",
    "- nor this",
    "* nor this",
    "+ nor this",
    "> no quote",
    "---",
    "- - -",
    "***",
    "===",
    "~~~",
    "```",
    "| a | b |",
    "--- | ---",
    ":-: | :-:",
    "[a](http://x) ![b](c)",
    "[ref]: http://example.invalid",
    "[^1]: note",
    "*a* **b** _c_ __d__ ~~e~~ `f` ``g``",
    "snake_case_word and 2 * 3 * 4",
    "\\*escaped\\* \\",
    "$1 and $2",
    "http://x.invalid/a_b_c",
    "<http://auto.invalid> <a@b.invalid>",
    "[x] done",
    "% title",
    ": definition",
    "::: div",
    "\x00bell\x07 \u2028 separator",
]

texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(alphabet="ab1 .*_`[]()<>#+-=!|~\\&;:{}$^\"'/@%x", min_size=1, max_size=40),
    st.text(min_size=1, max_size=60),
).filter(lambda text: clean(text) and "\\(" not in clean(text))


def page(*blocks):
    return Page(0, (100, 100), None, blocks)


def shown(tokens):
    """The text that a reader of the rendered page sees, block by block."""
    parts = []
    for token in tokens:
        if token.type == "inline":
            parts.append(
                "".join(
                    "\n" if child.type in ("softbreak", "hardbreak") else child.content
                    for child in token.children
                )
            )
        elif token.type in ("fence", "code_block"):
            parts.append(token.content.rstrip("\n"))
    return parts


def html_tokens(tokens):
    flat = [child for token in tokens for child in (token.children or ())] + list(tokens)
    return [token.content for token in flat if token.type in ("html_block", "html_inline")]


def kinds(tokens):
    return {token.type for token in tokens if token.type.endswith("_open")}


def render(*blocks, **options):
    options.setdefault("page_separator", "none")
    return render_markdown([page(*blocks)], MarkdownOptions(**options))


@settings(max_examples=300, deadline=None)
@given(texts)
def test_a_paragraph_shows_its_text_and_is_nothing_else(text):
    tokens = PARSER.parse(render(Block(BlockKind.PARAGRAPH, BOX, text)))
    assert shown(tokens) == [clean(text)]
    assert not html_tokens(tokens)
    assert kinds(tokens) == {"paragraph_open"}


@settings(max_examples=200, deadline=None)
@given(texts)
def test_a_heading_shows_its_text_and_is_one_heading(text):
    tokens = PARSER.parse(render(Block(BlockKind.HEADING, BOX, text)))
    assert shown(tokens) == [clean(text)]
    assert not html_tokens(tokens)
    assert kinds(tokens) == {"heading_open"}


@settings(max_examples=200, deadline=None)
@given(st.lists(texts, min_size=2, max_size=4))
def test_kept_lines_stay_lines(lines):
    cleaned = [clean(line) for line in lines]
    tokens = PARSER.parse(render(Block(BlockKind.CODE, BOX, "\n".join(cleaned))))
    assert shown(tokens) == ["\n".join(cleaned)]
    assert not html_tokens(tokens)
    assert kinds(tokens) == {"paragraph_open"}


@settings(max_examples=150, deadline=None)
@given(st.lists(texts, min_size=1, max_size=4))
def test_aligned_text_stays_in_its_fence(lines):
    cleaned = [clean(line) for line in lines]
    block = Block(BlockKind.CODE, BOX, "\n".join(cleaned), style={"aligned": True})
    tokens = PARSER.parse(render(block))
    assert shown(tokens) == ["\n".join(cleaned)]
    assert [token.type for token in tokens] == ["fence"]


@settings(max_examples=200, deadline=None)
@given(st.lists(texts, min_size=1, max_size=4), st.sampled_from(["•", "-", "1.", "3)"]))
def test_list_items_stay_items_of_one_list(items, marker):
    blocks = [Block(BlockKind.LIST_ITEM, BOX, item, level=0, marker=marker) for item in items]
    if marker[0].isdigit():
        blocks = blocks[:1]
        items = items[:1]
    tokens = PARSER.parse(render(*blocks))
    assert shown(tokens) == [clean(item) for item in items]
    assert not html_tokens(tokens)
    assert kinds(tokens) <= {
        "bullet_list_open",
        "ordered_list_open",
        "list_item_open",
        "paragraph_open",
    }


@settings(max_examples=200, deadline=None)
@given(st.lists(texts, min_size=4, max_size=4))
def test_cells_show_their_text_and_keep_their_place(cells):
    table = Table(2, 2, tuple(Cell(i // 2, i % 2, text) for i, text in enumerate(cells)))
    tokens = PARSER.parse(render(Block(BlockKind.TABLE, BOX, table=table)))
    assert shown(tokens) == [clean(text) for text in cells]
    assert not html_tokens(tokens)


@settings(max_examples=200, deadline=None)
@given(st.lists(texts, min_size=3, max_size=3))
def test_spanning_cells_are_html_whose_text_is_inert(cells):
    from lxml import html

    table = Table(2, 2, (Cell(0, 0, cells[0], 1, 2), Cell(1, 0, cells[1]), Cell(1, 1, cells[2])))
    text = render(Block(BlockKind.TABLE, BOX, table=table))
    tree = html.fromstring(text)
    assert {node.tag for node in tree.iter()} <= {"table", "tr", "td", "th", "tbody"}
    found = [" ".join(node.text_content().split()) for node in tree.iter("td", "th")]
    assert found == [" ".join(clean(cell).split()) for cell in cells]
    assert [token.type for token in PARSER.parse(text)] == ["html_block"]


@pytest.mark.parametrize("text", HOSTILE)
def test_every_known_trick_is_only_text(text):
    for kind in (BlockKind.PARAGRAPH, BlockKind.HEADING, BlockKind.FOOTNOTE, BlockKind.CAPTION):
        tokens = PARSER.parse(render(Block(kind, BOX, text)))
        assert shown(tokens) == [clean(text)]
        assert not html_tokens(tokens)


@pytest.mark.parametrize(
    "text",
    [
        "Prices rose by 5 % (see [3], p. 7) - or so; a/b, 10:30, C# & co. #5!",
        "ordinary_name, 3 * 4 = 12, A. Smith, 1.5 kg, $5, ~10 km, x < 3 > 2",
        "Müller-Lüdenscheidt & Söhne GmbH [Berlin] {intern}",
    ],
)
def test_ordinary_text_is_not_cluttered(text):
    assert "\\" not in render(Block(BlockKind.PARAGRAPH, BOX, text))


def test_maths_keeps_its_dollars_and_cannot_open_a_tag():
    text = render(
        Block(BlockKind.PARAGRAPH, BOX, r"where \(a_1 <b\) holds"),
        Block(BlockKind.FORMULA, BOX, "E = mc^2\n\n$$ <script>"),
    )
    assert "$a_1 < b$" in text
    assert text.count("$$") == 2
    assert not html_tokens(PARSER.parse(text))
    assert re.search(r"\$\$\nE = mc\^2", text)
