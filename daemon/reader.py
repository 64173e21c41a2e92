"""The reader process: `python -m daemon.reader`, started and watched by the daemon.

The only part of the daemon that loads an engine. It takes commands from a socket, one
at a time, and answers each with one reply; in between it says what it is doing, so that
the daemon can tell slow from hung and knows which page to blame when this process dies.
Everything it prints goes into the daemon's log.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType

from daemon.reader_protocol import (
    Channel,
    Message,
    ProtocolError,
    error_to_message,
    from_plain,
    to_plain,
)
from ocr import (
    DocumentReader,
    Engine,
    EngineError,
    EngineUnavailable,
    MarkdownOptions,
    OcrError,
    Page,
    PageStatus,
    ReadOptions,
    Step,
    load_engine,
    page_from_dict,
    page_to_dict,
    render_markdown,
    write_layout_pdf,
)

_PR_SET_PDEATHSIG = 1
_OOM_SCORE_ADJ = 500
"""Of -1000..1000: when memory runs out, the kernel ends this process, not the daemon."""
_PROGRESS_EVERY_S = 0.2
_GAPS = {PageStatus.DAMAGED, PageStatus.FAILED, PageStatus.TRUNCATED}


class ReaderChild:
    """Answers the daemon's commands until the daemon hangs up."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._engine: Engine | None = None
        self._document: DocumentReader | None = None
        self._told_s = 0.0
        self._commands: dict[str, Callable[[Message], Message]] = {
            "load": self._load,
            "open": self._open,
            "read": self._read,
            "close": self._close,
            "render": self._render,
            "draw": self._draw,
        }

    def serve(self) -> None:
        """Answer until the other end of the connection is closed."""
        while True:
            command = self._channel.next_message()
            if command is None:
                if not self._channel.fill():
                    return
                continue
            self._channel.send({"taken": True})
            reply = self._answer(command)
            try:
                self._channel.send(reply)
            except ProtocolError as error:
                self._channel.send(
                    error_to_message(EngineError(f"The answer is too long: {error}"))
                )

    def unload(self) -> None:
        """Give back what the engine and the document hold."""
        if self._document is not None:
            self._document.close()
        if self._engine is not None:
            self._engine.unload()

    def _answer(self, command: Message) -> Message:
        try:
            return self._commands[command["do"]](command)
        except OcrError as error:
            return error_to_message(error)
        except OSError as error:
            return error_to_message(_named(error, f"{error.strerror}: {error.filename}"))
        # A bug in our own code must cost one command, not the process and its engine.
        except Exception as error:  # noqa: BLE001 - see above
            # Where, not what: the message may quote the document.
            traceback.print_tb(error.__traceback__)
            return error_to_message(_named(error, f"{type(error).__name__} in the reader"))

    def _load(self, command: Message) -> Message:
        if self._engine is None:
            engine = load_engine(command["engine"], **command["settings"])
            try:
                engine.load(self._progress)
            except OcrError:
                raise
            # Drivers and runtimes raise classes of their own.
            except Exception as error:
                raise EngineUnavailable(
                    f"The engine cannot start: {type(error).__name__}, {error}."
                ) from error
            self._engine = engine
        return {"engine": to_plain(self._engine.describe())}

    def _open(self, command: Message) -> Message:
        self._close(command)
        options = from_plain(ReadOptions, command["options"])
        self._document = DocumentReader(Path(command["source"]), options, on_step=self._step)
        return {"kind": self._document.kind, "page_count": self._document.page_count}

    def _read(self, command: Message) -> Message:
        if self._document is None or self._engine is None:
            raise OcrError("No document is open.")
        page = self._document.read_page(
            command["page"], self._engine, ahead=command["ahead"], progress=self._progress
        )
        return {"page": page_to_dict(page)}

    def _close(self, command: Message) -> Message:
        if self._document is not None:
            self._document.close()
            self._document = None
        return {}

    def _render(self, command: Message) -> Message:
        with Path(command["pages"]).open(encoding="utf-8") as journal:
            pages = [page_from_dict(json.loads(line)) for line in journal if line.strip()]
        self._progress()
        text = render_markdown(pages, from_plain(MarkdownOptions, command["options"]))
        # A damaged text layer can hold half a surrogate pair, which UTF-8 cannot.
        Path(command["target"]).write_bytes(text.encode("utf-8", errors="replace"))
        return {
            "page_count": len(pages),
            "gaps": [page.page_index for page in pages if page.status in _GAPS],
        }

    def _draw(self, command: Message) -> Message:
        with Path(command["pages"]).open(encoding="utf-8") as journal:
            pages = (page_from_dict(json.loads(line)) for line in journal if line.strip())
            count = write_layout_pdf(
                self._told(pages),
                Path(command["source"]),
                Path(command["target"]),
                from_plain(ReadOptions, command["options"]),
            )
        return {"page_count": count}

    def _told(self, pages: Iterable[Page]) -> Iterator[Page]:
        for page in pages:
            self._progress()
            yield page

    def _progress(self) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s >= _PROGRESS_EVERY_S:
            self._told_s = now_s
            self._channel.send({"progress": True})

    def _step(self, step: Step, index: int) -> None:
        self._channel.send({"step": step, "page": index})


def main(arguments: list[str]) -> None:
    """Serve on a descriptor, as the child of a process, nicer than it by so much."""
    descriptor, parent, niceness = (int(argument) for argument in arguments)
    _tie_to(parent)
    os.nice(niceness)
    os.set_inheritable(descriptor, False)  # poppler gets no copy
    child = ReaderChild(Channel(socket.socket(fileno=descriptor)))
    # A broken connection means that the daemon is gone, which is no error here.
    with contextlib.suppress(OSError):
        child.serve()
    child.unload()
    sys.stdout.flush()
    sys.stderr.flush()
    # Without the interpreter's farewell: GPU drivers hang in it, threads hold it up.
    os._exit(0)


def _tie_to(parent: int) -> None:
    """Let this process end with its parent, before it in a shortage, and leave no core.

    A core file would hold the document's pages and text.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # a container may forbid it
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE_ADJ), encoding="ascii")
    # The daemon decides when this process ends: systemd and Ctrl+C signal the whole
    # unit. A handler, because ignored signals would stay ignored in poppler.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _leave_it_to_the_daemon)
    faulthandler.enable(all_threads=False)


def _leave_it_to_the_daemon(number: int, frame: FrameType | None) -> None:
    """Signals to the whole unit reach this process too."""


def _named(error: Exception, reason: str) -> OcrError:
    """Our error for one of Python's, which stays its cause."""
    wrapped = OcrError(f"{reason}.")
    wrapped.__cause__ = error
    return wrapped


if __name__ == "__main__":
    main(sys.argv[1:])
