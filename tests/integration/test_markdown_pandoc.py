"""The Markdown as pandoc reads it: headings, lists and tables reach HTML and DOCX."""

import shutil
import subprocess
import zipfile

import pytest
from lxml import etree, html

from ocr.document import BBox, Block, BlockKind, Cell, Page, Table
from ocr.markdown import render_markdown
from ocr.options import MarkdownOptions

pytestmark = pytest.mark.skipif(shutil.which("pandoc") is None, reason="pandoc is not installed")

BOX = BBox(0, 0, 100, 10)
HOSTILE = "<script>x</script> *a* _b_ $1 $2 ~~c~~ [d](e) @f ^g^ h~i~ \\j | k &amp; `l` 1) m"
WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


def document():
    plain = Table(
        3,
        2,
        tuple(
            Cell(i // 2, i % 2, text)
            for i, text in enumerate(["Item", "Price", "Lamp | desk", "€ 12.50", HOSTILE, "7"])
        ),
    )
    spanning = Table(2, 2, (Cell(0, 0, "Both & all", 1, 2), Cell(1, 0, "a <b>"), Cell(1, 1, "c")))
    blocks = (
        Block(BlockKind.HEADING, BOX, "Report {a} #", style={"size": 0.05}),
        Block(BlockKind.HEADING, BOX, "1. Methods", style={"size": 0.03}),
        Block(BlockKind.PARAGRAPH, BOX, HOSTILE),
        Block(BlockKind.LIST_ITEM, BOX, "first", level=0, marker="•"),
        Block(BlockKind.LIST_ITEM, BOX, "inner", level=1, marker="a)"),
        Block(BlockKind.LIST_ITEM, BOX, "second", level=0, marker="•"),
        Block(BlockKind.TABLE, BOX, table=plain),
        Block(BlockKind.TABLE, BOX, table=spanning),
        Block(BlockKind.CODE, BOX, "Line one\nLine two"),
    )
    return render_markdown([Page(0, (100, 100), None, blocks)], MarkdownOptions())


def pandoc(text, *arguments):
    done = subprocess.run(
        ["pandoc", *arguments], input=text.encode(), capture_output=True, check=True, timeout=60
    )
    return done.stdout


@pytest.mark.parametrize("reader", ["gfm", "commonmark_x", "markdown"])
def test_html_has_the_structure_and_the_very_text(reader):
    tree = html.fromstring(f"<div>{pandoc(document(), '-f', reader, '-t', 'html').decode()}</div>")
    assert [node.text_content() for node in tree.iter("h1")] == ["Report {a} #"]
    assert [node.text_content() for node in tree.iter("h2")] == ["1. Methods"]
    assert not list(tree.iter("script", "a", "em", "strong", "del", "sup", "sub"))
    assert tree.findall(".//p")[0].text_content().split() == HOSTILE.split()
    first, second = tree.iter("table")
    cells = [node.text_content().strip() for node in first.iter("td", "th")]
    assert cells[:4] == ["Item", "Price", "Lamp | desk", "€ 12.50"]
    assert cells[4].split() == HOSTILE.split()
    assert second.find(".//*[@colspan='2']").text_content().strip() == "Both & all"
    assert len(list(tree.iter("li"))) == 3
    assert len(list(tree.iter("br"))) == 1


def test_docx_has_headings_and_the_table(tmp_path):
    target = tmp_path / "out.docx"
    pandoc(document(), "-f", "gfm", "-o", str(target))
    with zipfile.ZipFile(target) as archive:
        body = etree.fromstring(archive.read("word/document.xml"))
    styles = [node.get(f"{WORD}val") for node in body.iter(f"{WORD}pStyle")]
    assert "Heading1" in styles
    assert "Heading2" in styles
    assert len(list(body.iter(f"{WORD}tbl"))) == 1
    rows = list(next(body.iter(f"{WORD}tbl")).iter(f"{WORD}tr"))
    assert len(rows) == 3
