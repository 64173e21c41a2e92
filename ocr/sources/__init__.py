"""Files in, pages as pixels out: one page at a time, never a whole file in memory.

Names are imported when first used, because the daemon process needs `sniffing`
and `tails` only and must not load Pillow or NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ocr.sources.base import Source
    from ocr.sources.opening import open_source

__all__ = ["Source", "open_source"]

_HOME_OF = {"Source": "ocr.sources.base", "open_source": "ocr.sources.opening"}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'ocr.sources' has no attribute {name!r}")
    return getattr(import_module(home), name)
