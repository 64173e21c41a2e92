"""Reads scanned documents into Markdown: a file in, pages of blocks out.

The names below are the whole public interface. Each is imported when it is first
used, because the daemon imports this package too and must stay small: a plain
`import ocr` loads no NumPy, no OpenCV, no Pillow and no engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ocr.document import (
        BBox,
        Block,
        BlockKind,
        Cell,
        Line,
        Page,
        PageStatus,
        Table,
        TextOrigin,
        page_from_dict,
        page_to_dict,
    )
    from ocr.engines.base import Engine, EngineInfo, PageImage, Progress
    from ocr.engines.deepseek.checkpoint import ModelFiles, inspect_model
    from ocr.engines.registry import EngineChoice, choose_engine, load_engine
    from ocr.errors import (
        DamagedSource,
        EngineError,
        EngineOutOfMemory,
        EngineUnavailable,
        OcrError,
        PageError,
        PasswordRequired,
        SourceError,
        SourceTooLarge,
        UnsupportedSource,
    )
    from ocr.markdown import render_markdown
    from ocr.options import Limits, MarkdownOptions, Profile, ReadOptions, TextLayer
    from ocr.pipeline import DocumentReader, Step, read_document
    from ocr.sources import Source, open_source
    from ocr.sources.sniffing import SourceKind, sniff
    from ocr.sources.tails import TailState, tail_state
    from ocr.visualization import write_layout_pdf

__all__ = [
    "BBox",
    "Block",
    "BlockKind",
    "Cell",
    "DamagedSource",
    "DocumentReader",
    "Engine",
    "EngineChoice",
    "EngineError",
    "EngineInfo",
    "EngineOutOfMemory",
    "EngineUnavailable",
    "Limits",
    "Line",
    "MarkdownOptions",
    "ModelFiles",
    "OcrError",
    "Page",
    "PageError",
    "PageImage",
    "PageStatus",
    "PasswordRequired",
    "Profile",
    "Progress",
    "ReadOptions",
    "Source",
    "SourceError",
    "SourceKind",
    "SourceTooLarge",
    "Step",
    "Table",
    "TailState",
    "TextLayer",
    "TextOrigin",
    "UnsupportedSource",
    "choose_engine",
    "inspect_model",
    "load_engine",
    "open_source",
    "page_from_dict",
    "page_to_dict",
    "read_document",
    "render_markdown",
    "sniff",
    "tail_state",
    "write_layout_pdf",
]

_HOMES = {
    "ocr.document": "BBox Block BlockKind Cell Line Page PageStatus Table TextOrigin"
    " page_from_dict page_to_dict",
    "ocr.engines.base": "Engine EngineInfo PageImage Progress",
    "ocr.engines.deepseek.checkpoint": "ModelFiles inspect_model",
    "ocr.engines.registry": "EngineChoice choose_engine load_engine",
    "ocr.errors": "DamagedSource EngineError EngineOutOfMemory EngineUnavailable OcrError"
    " PageError PasswordRequired SourceError SourceTooLarge UnsupportedSource",
    "ocr.markdown": "render_markdown",
    "ocr.options": "Limits MarkdownOptions Profile ReadOptions TextLayer",
    "ocr.pipeline": "DocumentReader Step read_document",
    "ocr.sources": "Source open_source",
    "ocr.sources.sniffing": "SourceKind sniff",
    "ocr.sources.tails": "TailState tail_state",
    "ocr.visualization": "write_layout_pdf",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'ocr' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
