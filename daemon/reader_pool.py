"""The process that holds an engine: asked for pages, watched, ended, started anew.

One `Reader` per device. It remembers which document is open, so that after a crash the
next page simply works again, and it finds out which page is to blame for a crash when
two were in the process at once.
"""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from daemon.errors import NoSpace, ReaderError, ReaderStopped
from daemon.reader_process import Clock, Fault, ProcessLost, ReaderProcess
from daemon.reader_protocol import Message, error_from_message, from_plain, to_plain
from ocr import (
    EngineInfo,
    MarkdownOptions,
    OcrError,
    Page,
    ReadOptions,
    SourceKind,
    page_from_dict,
)

_GRACE_S = 10.0
"""How long an engine may take to give back the device before it is killed."""


class ReaderState(StrEnum):
    """What the reader process is doing."""

    STOPPED = "stopped"
    """There is no process; the next call starts one."""
    STARTING = "starting"
    LOADING = "loading"
    IDLE = "idle"
    OPENING = "opening"
    READING = "reading"
    RENDERING = "rendering"


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """What a reader process may take, and when it counts as hung or idle."""

    page_s: float = 300.0
    """Seconds for one page, decoding included."""
    load_s: float = 300.0
    """Seconds without a sign of progress while starting and loading the engine."""
    open_s: float = 120.0
    render_s: float = 600.0
    """Seconds for assembling a whole document."""
    memory_gb: float = 4.0
    """Resident memory of the process and its renderers, in 10⁹ bytes."""
    idle_unload_s: float = 600.0
    niceness: int = 0
    """Added to the daemon's own, 0..19."""
    work_dir: Path | None = None
    """Where the process's temporary folder is made; None: the system's default."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What is known of a document once it is open."""

    kind: SourceKind
    page_count: int


@dataclass(frozen=True, slots=True)
class Rendered:
    """What went into a rendered document: its pages, and which of them are gaps."""

    page_count: int
    gaps: tuple[int, ...]
    """Indexes of the pages that are damaged, failed or truncated."""


@dataclass(slots=True)
class _Document:
    """The open document, and what was learnt about its pages."""

    source: Path
    options: ReadOptions
    opened: Opened
    wanted: Sequence[int] | None
    suspects: set[int]
    """Pages that were in the process when it died; never decoded ahead again."""

    def after(self, index: int) -> int | None:
        """The page to decode while `index` is read."""
        if self.wanted is None:
            following = index + 1 if index + 1 < self.opened.page_count else None
        else:
            following = next((page for page in self.wanted if page > index), None)
        return None if following in self.suspects else following


class Reader:
    """Reads pages in a process of its own.

    The calls that read belong to one thread at a time and block; they watch over the
    process meanwhile. `stop`, `kill`, `unload_if_idle`, `state`, `last_progress_s` and
    `memory_gb` may be used from any thread. The process also ends with the thread that
    started it (Linux ties it to that thread), so call from a lasting one.
    """

    def __init__(
        self,
        engine: str = "auto",
        engine_settings: Mapping[str, object] | None = None,
        *,
        limits: ReaderLimits | None = None,
        on_output: Callable[[str], None] | None = None,
        on_progress: Callable[[], None] | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        """Nothing is started yet.

        Args:
            engine: As for `ocr.load_engine`.
            engine_settings: Its keyword arguments, JSON-ready or paths.
            limits: What the process may take.
            on_output: Is given each line that the process prints, cleaned and bounded.
            on_progress: Called in the calling thread at every sign of progress.
            clock: Seconds, never running backwards.
        """
        self._engine = engine
        self._engine_settings = dict(engine_settings or {})
        self._limits = limits or ReaderLimits()
        self._on_output = on_output
        self._on_progress = on_progress
        self._clock = clock
        self._calling = threading.Lock()
        self._stopping = False
        self._interrupted = False
        self._state = ReaderState.STOPPED
        self._process: ReaderProcess | None = None
        self._info: EngineInfo | None = None
        self._document: _Document | None = None
        self._is_open = False
        self._decoding: int | None = None
        self._decoding_at_loss: int | None = None
        self._last_progress_s = self._last_call_s = clock()

    @property
    def state(self) -> ReaderState:
        """What the process is doing now."""
        return self._state

    @property
    def last_progress_s(self) -> float:
        """When work last advanced, by the reader's clock."""
        return self._last_progress_s

    @property
    def engine_info(self) -> EngineInfo | None:
        """What the loaded engine says of itself; None while none is loaded."""
        return self._info

    @property
    def pid(self) -> int | None:
        """The process's id; None while there is none."""
        process = self._process
        return None if process is None else process.pid

    def memory_gb(self) -> float:
        """Resident memory of the process and its renderers in 10⁹ bytes, 0 without one."""
        process = self._process
        return 0.0 if process is None else process.memory_gb()

    def start(self) -> None:
        """Start the process, without an engine.

        Raises:
            ReaderError: It cannot be started.
        """
        with self._turn():
            self._ready_process()

    def load(self) -> EngineInfo:
        """Start the process and load the engine; cheap when it is loaded.

        Raises:
            EngineUnavailable: The engine cannot work here.
            ReaderError: The process died over it or hung (`during` is `load`).
        """
        with self._turn():
            return self._loaded()

    def open(
        self, source: Path, options: ReadOptions, *, pages: Sequence[int] | None = None
    ) -> Opened:
        """Open a document, in place of the one that is open. Loads no engine.

        Args:
            source: The file.
            options: How to read it.
            pages: Indexes of the pages that will be asked for, rising; None: all. Only
                these are ever decoded ahead, so leave out quarantined pages.

        Raises:
            SourceError: The file cannot be read at all.
            ReaderError: The process died over it or hung (`during` is `open`).
        """
        with self._turn():
            self._document = None
            opened = self._opened(source.absolute(), options)
            self._document = _Document(source.absolute(), options, opened, pages, set())
            return opened

    def read_page(self, index: int) -> Page:
        """One page of the open document; the process and engine are started as needed.

        A damaged page comes back with that status and its reason.

        Args:
            index: From 0.

        Raises:
            EngineError: The engine failed on the page; another attempt may succeed.
            EngineUnavailable: The engine cannot work here.
            NoSpace: The disk is full.
            ReaderError: The process died over the page, hung or grew too large;
                `page_index` says whether this page is to blame.
            ReaderStopped: `stop` or `kill` was called.
        """
        with self._turn():
            if self._document is None:
                raise ReaderError("No document is open.", during="page")
            try:
                return self._read(self._document, index, alone=False)
            except _NotThisPage:
                return self._read(self._document, index, alone=True)

    def close_source(self) -> None:
        """Forget the open document. Never fails."""
        with self._calling:
            self._document = None
            if self._process is not None and self._is_open:
                self._is_open = False
                with contextlib.suppress(ReaderError, OcrError):
                    self._ask("open", {"do": "close"}, limit_s=self._limits.open_s)

    def render(self, pages_jsonl: Path, target: Path, options: MarkdownOptions) -> Rendered:
        """Write the Markdown of journaled pages to `target`. Loads no engine.

        Args:
            pages_jsonl: One `page_to_dict` per line, in page order.
            target: Written anew; not synced.
            options: How to write.

        Raises:
            OcrError: The pages cannot be assembled.
            NoSpace: The disk is full.
            ReaderError: The process died over it or hung (`during` is `render`).
        """
        command = {
            "do": "render",
            "pages": str(pages_jsonl.absolute()),
            "target": str(target.absolute()),
            "options": to_plain(options),
        }
        reply = self._ask_without_engine(command)
        return Rendered(reply["page_count"], tuple(reply["gaps"]))

    def draw(self, pages_jsonl: Path, source: Path, target: Path, options: ReadOptions) -> int:
        """Write a PDF of the source with each page's blocks drawn over it. Loads no engine.

        Args:
            pages_jsonl: One `page_to_dict` per line, in page order.
            source: The file that the pages were read from.
            target: The PDF; written anew.
            options: As for reading.

        Returns:
            How many pages were drawn.

        Raises:
            OcrError, NoSpace, ReaderError: As `render`.
        """
        command = {
            "do": "draw",
            "pages": str(pages_jsonl.absolute()),
            "source": str(source.absolute()),
            "target": str(target.absolute()),
            "options": to_plain(options),
        }
        return int(self._ask_without_engine(command)["page_count"])

    def unload_if_idle(self) -> bool:
        """End the process if nothing was asked of it for long; True if it was ended.

        With it go all of its memory and that of the device.
        """
        if not self._calling.acquire(blocking=False):
            return False
        try:
            idle_s = self._clock() - self._last_call_s
            if self._process is None or idle_s < self._limits.idle_unload_s:
                return False
            self._end(grace_s=_GRACE_S)
            return True
        finally:
            self._calling.release()

    def stop(self) -> None:
        """Read no more; the page in progress is finished. A second call ends it, too."""
        again = self._stopping
        self._stopping = True
        if again:
            self.kill()
        else:
            self._end_if_free(grace_s=_GRACE_S)

    def kill(self) -> None:
        """End the process now; a call in progress raises `ReaderStopped`."""
        self._interrupted = True
        process = self._process
        if process is not None:
            process.interrupt()
        self._end_if_free(grace_s=0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _ask_without_engine(self, command: Message) -> Message:
        """The answer to what concerns a whole document; blamed on `render`."""
        with self._turn():
            self._ready_process()
            self._state = ReaderState.RENDERING
            return self._ask("render", command, limit_s=self._limits.render_s)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """One call at a time, none after `stop`."""
        with self._calling:
            if self._stopping:
                raise ReaderStopped("The reader was told to stop.")
            self._interrupted = False
            try:
                yield
            finally:
                self._state = ReaderState.IDLE if self._process else ReaderState.STOPPED
                self._last_call_s = self._clock()
        if self._stopping:  # during the call; `stop` left the ending to this thread
            self._end_if_free(grace_s=_GRACE_S)

    def _end_if_free(self, *, grace_s: float) -> None:
        if self._calling.acquire(blocking=False):
            try:
                self._end(grace_s=grace_s)
            finally:
                self._calling.release()

    def _end(self, *, grace_s: float = 0.0) -> None:
        process, self._process = self._process, None
        self._state = ReaderState.STOPPED
        self._info = None
        self._is_open = False
        self._decoding = None
        if process is not None:
            process.close(grace_s=grace_s)

    def _ready_process(self) -> ReaderProcess:
        """A living process; a dead one is replaced, whoever killed it."""
        if self._process is not None and self._process.has_exited():
            # It died between two calls: nobody's attempt, but mind what it was decoding.
            self._suspect(self._decoding)
            self._end()
        if self._process is not None and self._process.has_lost_its_folder():
            self._end(grace_s=_GRACE_S)
        if self._process is None:
            self._state = ReaderState.STARTING
            try:
                self._process = ReaderProcess(
                    work_dir=self._limits.work_dir,
                    niceness=self._limits.niceness,
                    on_output=self._on_output,
                    clock=self._clock,
                )
            except OSError as error:
                if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                    raise NoSpace("There is no space left for temporary files.") from error
                message = f"The reader process cannot be started: {error.strerror}."
                raise ReaderError(message, during="start") from error
        return self._process

    def _loaded(self) -> EngineInfo:
        self._ready_process()
        if self._info is None:
            self._state = ReaderState.LOADING
            command = {
                "do": "load",
                "engine": self._engine,
                "settings": to_plain(self._engine_settings),
            }
            reply = self._ask("load", command, limit_s=self._limits.load_s)
            self._info = from_plain(EngineInfo, reply["engine"])
        return self._info

    def _opened(self, source: Path, options: ReadOptions) -> Opened:
        self._ready_process()
        self._state = ReaderState.OPENING
        self._is_open = False
        command = {"do": "open", "source": str(source), "options": to_plain(options)}
        reply = self._ask("open", command, limit_s=self._limits.open_s)
        self._is_open = True
        return Opened(SourceKind(reply["kind"]), reply["page_count"])

    def _read(self, document: _Document, index: int, *, alone: bool) -> Page:
        """Read one page; `alone`: with no other page in the process."""
        self._loaded()
        if not self._is_open:
            self._opened(document.source, document.options)
        self._state = ReaderState.READING
        ahead = None if alone else document.after(index)
        command = {"do": "read", "page": index, "ahead": ahead}
        try:
            reply = self._ask("page", command, limit_s=self._limits.page_s, page_index=index)
        except ReaderStopped:
            raise
        except ReaderError as error:
            other = self._decoding_at_loss
            innocent = other not in {None, index} or error.page_index is None
            if innocent and not alone:
                self._suspect(other)
                raise _NotThisPage from error
            raise
        return page_from_dict(reply["page"])

    def _suspect(self, index: int | None) -> None:
        if self._document is not None and index is not None:
            self._document.suspects.add(index)

    def _ask(
        self,
        during: str,
        command: Mapping[str, object],
        *,
        limit_s: float,
        page_index: int | None = None,
    ) -> Message:
        """The reply to a command; errors come back as the exceptions they were."""
        process = self._process
        if process is None or self._interrupted:
            raise ReaderStopped("The reader was told to stop.", during=during)
        self._advanced()
        try:
            reply = process.ask(
                command,
                limit_s=limit_s,
                memory_gb=self._limits.memory_gb,
                on_event=self._heard,
                progress_extends=during == "load",
            )
        except ProcessLost as lost:
            self._decoding_at_loss = self._decoding
            self._end()
            error = ReaderStopped if lost.fault is Fault.STOPPED else ReaderError
            doing = _DOING[during].format(page_number=(page_index or 0) + 1)
            raise error(
                f"The reader process was lost while {doing}: {lost.detail}.",
                during=during,
                page_index=page_index if lost.taken else None,
                output=process.printed,
            ) from lost
        self._advanced()
        if "error" in reply:
            raise error_from_message(reply)
        return reply

    def _heard(self, message: Message) -> None:
        if message.get("step") == "decoding":
            self._decoding = message["page"]
        elif message.get("step") == "decoded":
            self._decoding = None
        self._advanced()

    def _advanced(self) -> None:
        self._last_progress_s = self._clock()
        if self._on_progress is not None:
            self._on_progress()


class _NotThisPage(Exception):
    """The process was lost, but another page may be to blame: try this one alone."""


_DOING = {
    "load": "loading the engine",
    "open": "opening the document",
    "page": "reading page {page_number}",
    "render": "assembling the document",
}
