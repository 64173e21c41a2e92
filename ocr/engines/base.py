"""The contract between the pipeline and an engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ocr.document import Line, Page
    from ocr.options import ReadOptions

Progress = Callable[[], None]
"""Called whenever work advanced, so that a watchdog can tell slow from hung."""


@dataclass(frozen=True, slots=True)
class PageImage:
    """One page as scanned, ready for an engine.

    `pixels` is uint8 RGB, shape (height, width, 3), EXIF orientation already
    applied, alpha flattened on white; None when `lines` come from a text layer
    and nothing else on the page needs looking at. `dpi` is None when the file
    does not say or says nonsense. `lines` are words of a good text layer, boxes
    in the pixels of `size_px`.
    """

    page_index: int
    size_px: tuple[int, int]
    pixels: NDArray[np.uint8] | None
    dpi: float | None = None
    lines: tuple[Line, ...] | None = None
    notes: tuple[str, ...] = ()
    damage: str | None = None
    """For a person: why a part of the page is missing, though the rest can be read."""


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What an engine says of itself, for `doctor` and the log."""

    name: str
    version: str
    device: str
    detail: str = ""


class Engine(Protocol):
    """Reads one page at a time. Not thread-safe; one process per engine."""

    def load(self, progress: Progress | None = None) -> None:
        """Get ready to read. Raises `EngineUnavailable` with what to do."""

    def read(
        self, image: PageImage, options: ReadOptions, progress: Progress | None = None
    ) -> Page:
        """The page's blocks, boxes in the pixels of `image.size_px`.

        Raises:
            EngineError: This page failed; the engine can go on.
            EngineOutOfMemory: Not enough memory even after stepping down.
        """

    def unload(self) -> None:
        """Give back all memory that the engine holds."""

    def describe(self) -> EngineInfo:
        """Name, version, device; cheap, works before `load`."""
