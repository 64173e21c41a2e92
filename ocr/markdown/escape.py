"""Plain text made safe for Markdown: escaped only where it would mean something.

The rules are CommonMark's and GFM's, and where pandoc's own Markdown reads more
into a character (maths, citations, fenced divisions, lettered lists), pandoc's.
"""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_ENTITY = re.compile(r"&(?=#\d{1,7};|#[xX][0-9a-fA-F]{1,6};|[A-Za-z][A-Za-z0-9]{1,31};)")
_TAG_START = re.compile(r"<(?=[A-Za-z/!?$_])")
_STAR = re.compile(r"\*")
_UNDERSCORE = re.compile(r"_")
_LINK_CLOSE = re.compile(r"\](?=[(\[:{])")
_SPECIAL_OPEN = re.compile(r"\[(?=[\^@?]|[ xX]\])")
_MATHS = re.compile(r"\\\((.{1,400}?)\\\)", re.DOTALL)

_BLOCK_START = re.compile(
    r"(?P<hash>\#{1,6}(?=\s|$))"
    r"|(?P<bullet>[-+*](?=\s|$))"
    r"|(?P<quote>>)"
    r"|(?P<rule>(?:(?:-\s*){2,}|(?:=\s*)+|(?:_\s*){3,}|(?:\*\s*){3,})$)"
    r"|(?P<delimiter>[-:|][-:|\s]*$)"
    r"|(?P<fence>~~~|:(?=[\s:]|$)|\|(?=\s|$)|%)"
)
_ORDERED = re.compile(r"(\(?(?:\d{1,9}|[a-zA-Z]|[ivxlcIVXLC]{1,6}|@\w*))([.)])(?=\s|$)")


def clean(text: str) -> str:
    """The text without control characters, white space made single spaces."""
    return " ".join(_CONTROL.sub(" ", text).split())


def escape_inline(text: str) -> str:
    r"""One line of plain text as inline Markdown that reads as the same text.

    `\(…\)` is how engines give maths inside text; it becomes `$…$`.
    """
    parts: list[str] = []
    position = 0
    for maths in _MATHS.finditer(text):
        parts.append(_escape_plain(text[position : maths.start()], text))
        parts.append(f"${safe_maths(maths.group(1)).strip()}$")
        position = maths.end()
    parts.append(_escape_plain(text[position:], text))
    return "".join(parts)


def escape_line(text: str) -> str:
    """One line that begins a block or follows a line break inside one."""
    return escape_start(escape_inline(clean(text)))


def escape_start(escaped: str) -> str:
    """Defuses what would begin a block; `escaped` is inline Markdown already."""
    if _BLOCK_START.match(escaped):
        return "\\" + escaped
    ordered = _ORDERED.match(escaped)
    if ordered is not None and not _is_initial(ordered.group(1), escaped):
        return f"{ordered.group(1)}\\{escaped[ordered.end(1) :]}"
    return escaped


def escape_heading(text: str) -> str:
    """Text for one heading line: no closing hashes, no attributes."""
    line = escape_start(escape_inline(clean(text)).replace("{", "\\{"))
    return re.sub(r"(?<!\\)#(?=#*\s*$)", r"\\#", line)


def escape_cell(text: str) -> str:
    """Text for one cell of a GFM table."""
    return escape_inline(clean(text)).replace("|", "\\|")


def fence(text: str, info: str = "") -> str:
    """The text verbatim in a code fence that it cannot close."""
    lines = [_CONTROL.sub(" ", line).rstrip() for line in text.splitlines()]
    runs = [len(run) for line in lines for run in re.findall(r"`+", line)]
    ticks = "`" * max(3, max(runs, default=0) + 1)
    return "\n".join([f"{ticks}{info}", *lines, ticks])


def safe_maths(latex: str) -> str:
    """LaTeX that can neither leave its dollars nor be taken for a tag.

    A space after `<` means nothing to LaTeX and everything to HTML.
    """
    flat = re.sub(r"\s*\n\s*", "\n", _CONTROL.sub(" ", latex).strip())
    flat = re.sub(r"(?<!\\)\$", "", flat)
    return re.sub(r"<(?=[^\s\d])", "< ", flat)


def _is_initial(mark: str, escaped: str) -> bool:
    """A capital initial ("A. Smith") starts a list in no reader of Markdown."""
    return len(mark) == 1 and mark.isupper() and escaped[1:2] == "."


def _escape_plain(text: str, whole: str) -> str:
    text = text.replace("\\", "\\\\").replace("`", "\\`")
    text = _ENTITY.sub(r"\\&", text)
    text = _TAG_START.sub(r"\\<", text)
    text = _STAR.sub(_emphasis, text)
    text = _UNDERSCORE.sub(_emphasis, text)
    text = _LINK_CLOSE.sub(r"\\]", text)
    text = _SPECIAL_OPEN.sub(r"\\[", text)
    for mark in "~$^":
        # A single one can open nothing; a pair could close it.
        if whole.count(mark) > 1 or (mark == "$" and "\\(" in whole):
            text = text.replace(mark, "\\" + mark)
    return text


def _emphasis(match: re.Match[str]) -> str:
    before = match.string[match.start() - 1 : match.start()]
    after = match.string[match.end() : match.end() + 1]
    mark = match.group()
    if before.isspace() and after.isspace():
        return mark
    if mark == "_" and before.isalnum() and after.isalnum():
        return mark
    return "\\" + mark
