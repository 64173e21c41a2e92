"""The settings table of the README, made from the fields themselves.

`python -m daemon.settings_docs README.md` writes it between the two markers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from daemon.settings_models import Inbox, Settings
from daemon.settings_types import show_octal

BEGIN = "<!-- settings:begin -->"
END = "<!-- settings:end -->"


def settings_tables() -> str:
    """Both tables in Markdown: the settings, then those of one inbox."""
    lines = ["| setting | default | meaning |", "|---|---|---|", *_rows(Settings)]
    lines += ["", "Each entry of `inboxes`:", ""]
    lines += ["| setting | default | meaning |", "|---|---|---|", *_rows(Inbox)]
    return "\n".join(lines)


def with_settings_tables(readme: str) -> str:
    """`readme` with the text between the markers renewed.

    Raises:
        ValueError: The markers are missing.
    """
    head, begin, rest = readme.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"there is no {BEGIN} ... {END}")
    return f"{head}{BEGIN}\n\n{settings_tables()}\n\n{END}{tail}"


def _rows(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        text = (field.description or "").replace("|", "\\|")
        yield f"| `{name}` | {_default(name, field)} | {text} |"


def _default(name: str, field: FieldInfo) -> str:
    value = field.default
    if field.default_factory is not None:
        return ""
    if value is PydanticUndefined:
        return "*needed*"
    if value is None or value == ():
        return "*empty*"
    if name == "patterns":
        return "*readable types*"
    if name in ("umask", "file_mode"):
        return f'`"{show_octal(value)}"`'
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`{value.value if isinstance(value, Enum) else value}`"


def main() -> None:
    """Renew the table in the file named on the command line."""
    path = Path(sys.argv[1])
    path.write_text(with_settings_tables(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
