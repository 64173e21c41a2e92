"""Types of single settings, and the sentences that say why a value is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

READABLE_PATTERNS = (
    "*.pdf", "*.tif", "*.tiff", "*.jpg", "*.jpeg", "*.jpe", "*.jfif", "*.mpo", "*.png",
    "*.webp", "*.bmp", "*.gif", "*.heic", "*.heif",
)  # fmt: skip
"""The usual names of files that can be read; compared without regard to case."""
ENGINES = ("auto", "rapid", "deepseek")
_OWN_ENGINE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_OCTAL = re.compile(r"(0o)?0?[0-7]{1,3}")


def _octal(value: object) -> object:
    """Text is octal, as in chmod; a number (only code passes one) is taken as it is."""
    if isinstance(value, bool):
        raise ValueError("it must be an octal number from 0000 to 0777, such as 0640")
    if isinstance(value, str):
        if not _OCTAL.fullmatch(value.strip()):
            raise ValueError("it must be an octal number from 0000 to 0777, such as 0640")
        return int(value.strip().removeprefix("0o"), 8)
    return value


def _list_from_text(value: object) -> object:
    """One value of the environment is text: a list is written as JSON there."""
    if not isinstance(value, str):
        return value
    if not value.lstrip().startswith("["):
        raise ValueError('it must be a list, in YAML or as JSON, for example ["a", "b"]')
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError('it starts like a JSON list but is none, e.g. ["a", "b"]') from None


def _absolute(path: Path) -> Path:
    """`~` is the home folder; everything else must not depend on where we started."""
    text = str(path)
    if "\0" in text or "\n" in text:
        raise ValueError("it contains a line break or a null byte")
    try:
        path = path.expanduser()
    except RuntimeError:
        raise ValueError("its home folder (~) is not known; write the whole path") from None
    if not path.is_absolute():
        raise ValueError("it must be a whole path that starts with /")
    if ".." in path.parts:
        raise ValueError('it must not contain ".."')
    return path


def _engine(name: str) -> str:
    if name not in ENGINES and not _OWN_ENGINE.fullmatch(name):
        raise ValueError(f"it must be one of {', '.join(ENGINES)}, or package.module:Class")
    return name


def _pattern(text: str) -> str:
    if not text or "/" in text:
        raise ValueError("a pattern is compared with file names: it is not empty and has no /")
    return text


def show_octal(mode: int) -> str:
    """`0640` for 0o640."""
    return f"{mode:04o}"


Mode = Annotated[int, BeforeValidator(_octal), Field(ge=0, le=0o777), PlainSerializer(show_octal)]
AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
EngineName = Annotated[str, AfterValidator(_engine)]
Pattern = Annotated[str, AfterValidator(_pattern)]
Patterns = Annotated[tuple[Pattern, ...], BeforeValidator(_list_from_text)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_list_from_text)]
FromJson = BeforeValidator(_list_from_text)
Seconds = Annotated[float, Field(gt=0, le=31 * 86400, allow_inf_nan=False)]
Gigabytes = Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]


def sentence(error: dict[str, Any], *, key: str, where: str, secret: bool) -> str:
    """One pydantic error as one sentence: where, key, value, what is wrong.

    Args:
        error: An item of `ValidationError.errors()`.
        key: The setting, as the administrator writes it.
        where: File and line, variable or "command line"; may be empty.
        secret: The value must not be repeated.
    """
    prefix = f"{where}: " if where else ""
    kind, value = error["type"], error.get("input")
    if kind == "missing":
        return f"{prefix}the setting {key} is missing, and it has no default."
    shown = "" if secret else f" = {_short(value)}"
    return f"{prefix}{key}{shown}: {_reason(error, kind)}."


def _reason(error: dict[str, Any], kind: str) -> str:
    context = error.get("ctx") or {}
    if kind == "value_error":
        return str(context["error"])
    if kind in ("literal_error", "enum"):
        return f"it must be {context['expected']}"
    kinds = {
        "int_parsing": "it must be a whole number",
        "int_type": "it must be a whole number",
        "int_from_float": "it must be a whole number",
        "float_parsing": "it must be a number",
        "float_type": "it must be a number",
        "finite_number": "it must be an ordinary number",
        "bool_parsing": "it must be true or false",
        "bool_type": "it must be true or false",
        "string_type": "it must be text (put numbers in quotes)",
        "path_type": "it must be a path",
        "tuple_type": "it must be a list",
        "model_type": 'it must consist of "key: value" lines',
        "model_attributes_type": 'it must consist of "key: value" lines',
        "too_short": "it must not be empty",
        "string_too_short": "it must not be empty",
    }
    if kind in kinds:
        return kinds[kind]
    bounds = {"greater_than": "more than {gt}", "greater_than_equal": "{ge} or more",
              "less_than": "less than {lt}", "less_than_equal": "{le} or less"}  # fmt: skip
    if kind in bounds:
        return f"it must be {bounds[kind].format(**context)}"
    return str(error["msg"]).lower()


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."
