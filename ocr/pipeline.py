"""Joins sources and engines: one document, page after page.

The only module that knows both. The next page is decoded in a thread while this one
is read, which hides the renderer's time behind the engine's; never more than one, so
that memory does not grow with the document.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from ocr.blankness import is_blank
from ocr.document import Page, PageStatus
from ocr.engines.base import Engine, PageImage, Progress
from ocr.errors import (
    DamagedSource,
    EngineError,
    EngineOutOfMemory,
    OcrError,
    PageError,
    SourceError,
)
from ocr.options import ReadOptions
from ocr.sources import Source, open_source
from ocr.sources.sniffing import SourceKind


class Step(StrEnum):
    """What begins or has ended with a page, for whoever must blame one of two."""

    DECODING = "decoding"
    DECODED = "decoded"
    READING = "reading"
    READ = "read"


OnStep = Callable[[Step, int], None]
"""Called with the step and the page's index, from the thread that takes the step."""

_PASSING = {
    errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN,
    errno.EIO, errno.ESTALE,
}  # fmt: skip
"""System errors that say nothing about the page: another attempt may succeed."""

_QUOTES_ITS_DATA = (LookupError, ValueError, TypeError)
"""Their messages tend to quote what was on the page, which no log may hold."""

_MESSAGE_LENGTH = 200


class DocumentReader:
    """One open document whose pages can be read in any order.

    Not thread-safe. The source is only ever touched by one thread of its own.
    """

    def __init__(self, path: Path, options: ReadOptions, *, on_step: OnStep | None = None) -> None:
        """Open `path`.

        Raises:
            SourceError: The file cannot be read at all.
        """
        self._options = options
        self._on_step = on_step or _no_step
        self._ahead: tuple[int, Future[PageImage]] | None = None
        self._decoder = ThreadPoolExecutor(max_workers=1, thread_name_prefix="decode")
        try:
            self._source: Source = _open(path, options)
        except BaseException:
            self._decoder.shutdown()
            raise

    @property
    def kind(self) -> SourceKind:
        """What the file is, by its content."""
        return self._source.kind

    @property
    def page_count(self) -> int:
        """How many pages the document has."""
        return self._source.page_count

    def read_page(
        self,
        index: int,
        engine: Engine,
        *,
        ahead: int | None = None,
        progress: Progress | None = None,
    ) -> Page:
        """The page at `index`, from 0; a damaged one comes back as such, with its reason.

        Args:
            index: Which page.
            engine: A loaded engine.
            ahead: The page to decode meanwhile, because it will be asked for next.
            progress: Called whenever work advanced.

        Raises:
            EngineError: The engine failed; another attempt may succeed.
            EngineUnavailable: The engine cannot work at all.
        """
        try:
            image = self._decoded(index)
            if progress is not None:
                progress()
            if ahead is not None and 0 <= ahead < self.page_count and ahead != index:
                self._ahead = (ahead, self._decode(ahead))
            if _shows_nothing(image):
                return _blank_page(image, engine)
            self._on_step(Step.READING, index)
            page = _read(engine, image, self._options, progress)
            self._on_step(Step.READ, index)
        except PageError as error:
            if _is_passing(error):
                raise EngineError(str(error)) from error
            return _page_without_image(index, PageStatus.DAMAGED, str(error))
        return _completed(page, image, engine)

    def close(self) -> None:
        """Close the source, after a decoding in progress has ended."""
        if self._ahead is not None:
            self._ahead[1].cancel()
            self._ahead = None
        self._decoder.shutdown()
        # A library that fails while closing must not take away what was read.
        with contextlib.suppress(Exception):
            self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _decoded(self, index: int) -> PageImage:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == index:
            return ahead[1].result()
        if ahead is not None:
            ahead[1].cancel()
        return self._decode(index).result()

    def _decode(self, index: int) -> Future[PageImage]:
        return self._decoder.submit(self._page_image, index)

    def _page_image(self, index: int) -> PageImage:
        self._on_step(Step.DECODING, index)
        try:
            return self._source.page(index)
        except OcrError:
            raise
        # Pillow and its friends raise anything at all on hostile bytes.
        except Exception as error:
            raise PageError(f"The page's image cannot be decoded: {_in_words(error)}.") from error
        finally:
            self._on_step(Step.DECODED, index)


def read_document(
    path: Path,
    engine: Engine,
    options: ReadOptions,
    *,
    start_page: int = 0,
    progress: Progress | None = None,
) -> Iterator[Page]:
    """Every page of the document at `path` from `start_page` on, in order.

    A page that cannot be decoded is DAMAGED, one that the engine fails on is FAILED,
    both with the reason for a person; the others are not touched by it.

    Args:
        path: The file; its type is told from its content.
        engine: A loaded engine.
        options: How to read.
        start_page: Index of the first page wanted.
        progress: Called whenever work advanced.

    Raises:
        SourceError: The file cannot be read at all.
        EngineUnavailable: The engine cannot work at all.
    """
    with DocumentReader(path, options) as document:
        for index in range(start_page, document.page_count):
            try:
                page = document.read_page(index, engine, ahead=index + 1, progress=progress)
            except EngineError as error:
                page = _page_without_image(index, PageStatus.FAILED, str(error))
            yield page


def _open(path: Path, options: ReadOptions) -> Source:
    try:
        return open_source(path, options)
    except OcrError:
        raise
    except OSError as error:
        raise SourceError(f"The file cannot be opened: {error.strerror}.") from error
    # As for pages: whatever a library raises, the caller sees our errors only.
    except Exception as error:
        raise DamagedSource(f"The file cannot be opened: {_in_words(error)}.") from error


def _read(
    engine: Engine, image: PageImage, options: ReadOptions, progress: Progress | None
) -> Page:
    try:
        return engine.read(image, options, progress)
    except OcrError:
        raise
    # torch and onnxruntime raise classes of their own that must not leak out.
    except Exception as error:
        reason = _in_words(error)
        if isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__:
            raise EngineOutOfMemory(f"The engine ran out of memory: {reason}.") from error
        raise EngineError(f"The engine failed on this page: {reason}.") from error


def _shows_nothing(image: PageImage) -> bool:
    if image.lines or image.damage is not None:
        return False
    return image.pixels is None or is_blank(image.pixels)


def _completed(page: Page, image: PageImage, engine: Engine) -> Page:
    """The engine's page, with what only the pipeline knows."""
    notes = (*(note for note in image.notes if note not in page.notes), *page.notes)
    if not page.blocks and page.status is PageStatus.OK and image.damage is None:
        notes = (*notes, "nothing was found to read, although the page is not empty")
    page = dataclasses.replace(page, notes=notes, engine=page.engine or engine.describe().name)
    if image.damage is not None and page.status in {PageStatus.OK, PageStatus.BLANK}:
        page = dataclasses.replace(page, status=PageStatus.DAMAGED, reason=image.damage)
    return page


def _blank_page(image: PageImage, engine: Engine) -> Page:
    return Page(
        page_index=image.page_index,
        size_px=image.size_px,
        dpi=image.dpi,
        blocks=(),
        status=PageStatus.BLANK,
        engine=engine.describe().name,
        notes=image.notes,
    )


def _page_without_image(index: int, status: PageStatus, reason: str) -> Page:
    return Page(page_index=index, size_px=(0, 0), dpi=None, blocks=(), status=status, reason=reason)


def _is_passing(error: BaseException | None) -> bool:
    """Whether a system error that has nothing to do with the page lies beneath."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _PASSING:
            return True
        error = error.__cause__
    return False


def _in_words(error: Exception) -> str:
    """A short reason without anything that may be document text."""
    name = type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        return f"{name}, {error.strerror}"
    message = "" if isinstance(error, _QUOTES_ITS_DATA) else " ".join(str(error).split())
    if message:
        return f"{name}, {message[:_MESSAGE_LENGTH].rstrip('.')}"
    frames = traceback.extract_tb(error.__traceback__)
    return f"{name} at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else name


def _no_step(step: Step, index: int) -> None:
    """Nobody wants to know."""
