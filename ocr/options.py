"""What a caller may ask of the reading of a document."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class TextLayer(StrEnum):
    """What to do with a PDF's own text."""

    AUTO = "auto"
    """Take good text layers page by page, read the other pages as images."""
    FORCE_OCR = "force_ocr"
    ONLY_TEXT = "only_text"
    """Never read images: pages without a text layer stay empty."""


class Profile(StrEnum):
    """How the CPU engine trades time against accuracy."""

    ACCURATE = "accurate"
    FAST = "fast"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds checked before work starts. Every one is finite."""

    max_page_mpx: float = 150.0
    """Megapixels of one page; larger images are refused, PDF pages scaled down."""
    max_pages: int = 5000
    max_file_gb: float = 2.0
    render_timeout_s: float = 60.0
    render_memory_gb: float = 2.0


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How one document is to be read."""

    dpi: int = 200
    """Resolution at which PDF pages are rendered, 50..600."""
    text_layer: TextLayer = TextLayer.AUTO
    passwords: tuple[str, ...] = field(default=(), repr=False)
    limits: Limits = Limits()
    pre_correction: bool = True
    """Turn, deskew and clean pages before reading when that helps."""
    profile: Profile = Profile.ACCURATE
    assets_dir: Path | None = None
    """Where figures are cropped to; None: figures are not saved."""
    visualization: bool = False


@dataclass(frozen=True, slots=True)
class MarkdownOptions:
    """How pages become Markdown."""

    page_separator: str = "comment"
    """`comment` (HTML comment per page), `rule` (comment and ---), or `none`."""
    mark_uncertain: float | None = None
    """Words read with less confidence than this are marked; None: never."""
    assets_name: str | None = None
    """Folder name used in links to figures, relative to the `.mmd`."""
