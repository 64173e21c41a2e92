"""Engines that fail on purpose: recovery is proven with them, without any model.

They run inside the reader process by name, `tests.engines:FaultEngine`, so their settings
are JSON: pages as strings, counted from 0.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import ocr.pipeline
from ocr import (
    BBox,
    Block,
    BlockKind,
    EngineError,
    EngineInfo,
    EngineOutOfMemory,
    EngineUnavailable,
    Page,
    PageError,
    PageImage,
    Progress,
    ReadOptions,
    Source,
)

ECHO = "tests.engines:EchoEngine"
FAULTS = "tests.engines:FaultEngine"

CHUNK_BYTES = 32_000_000


class EchoEngine:
    """Reads nothing: each page says its number and size, or its text layer's words.

    Settings: `seconds` that a page takes, `weights_bytes` held while loaded.
    """

    def __init__(self, *, seconds: float = 0.0, weights_bytes: int = 0) -> None:
        self._seconds = seconds
        self._weights_bytes = weights_bytes
        self._weights = b""

    def load(self, progress: Progress | None = None) -> None:
        self._weights = b"x" * self._weights_bytes

    def read(
        self, image: PageImage, options: ReadOptions, progress: Progress | None = None
    ) -> Page:
        _work(self._seconds, progress)
        width, height = image.size_px
        words = " ".join(line.text for line in image.lines or ())
        text = words or f"page {image.page_index + 1}, {width} x {height} pixels"
        block = Block(BlockKind.PARAGRAPH, BBox(0, 0, width, height), text)
        return Page(image.page_index, image.size_px, image.dpi, (block,), engine="echo")

    def unload(self) -> None:
        self._weights = b""

    def describe(self) -> EngineInfo:
        return EngineInfo("echo", "1", "cpu")


class FaultEngine(EchoEngine):
    """Echoes, except where told to fail.

    Settings: `faults`: page index → name of a fault, when that page is read;
    `decode_faults`: the same, when that page is decoded; `load_fault`: at load;
    `once_dir`: a folder that remembers which faults have struck, each strikes only once.
    """

    def __init__(
        self,
        *,
        faults: Mapping[str, str] | None = None,
        decode_faults: Mapping[str, str] | None = None,
        load_fault: str | None = None,
        once_dir: str | None = None,
        seconds: float = 0.0,
    ) -> None:
        super().__init__(seconds=seconds)
        self._faults = dict(faults or {})
        self._load_fault = load_fault
        self._once_dir = once_dir
        if decode_faults:
            # The engine is the one part of the process that a test can choose.
            _inject(dict(decode_faults), self._strike)

    def load(self, progress: Progress | None = None) -> None:
        if self._load_fault is not None:
            self._strike(self._load_fault, "load", progress)
        super().load(progress)

    def read(
        self, image: PageImage, options: ReadOptions, progress: Progress | None = None
    ) -> Page:
        fault = self._faults.get(str(image.page_index))
        if fault is not None:
            self._strike(fault, f"page-{image.page_index}", progress)
        return super().read(image, options, progress)

    def _strike(self, fault: str, where: str, progress: Progress | None) -> None:
        if self._once_dir is not None:
            try:
                Path(self._once_dir, where).touch(exist_ok=False)
            except FileExistsError:
                return
        strike(fault, progress)


def strike(fault: str, progress: Progress | None = None) -> None:
    """Let one fault happen."""
    match fault:
        case "sigkill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            ctypes.string_at(0)
        case "exit":
            os._exit(3)
        case "hang":
            time.sleep(3600)
        case "hang-with-the-lock":  # as a C extension that never lets other threads run
            ctypes.PyDLL(None).sleep(3600)
        case "progress":  # advances for a second and a half, then is done
            _work(1.5, progress)
        case "memory":
            hoard = []
            while True:
                hoard.append(b"x" * CHUNK_BYTES)
        case "child-memory":  # as a renderer run wild
            code = "import time\nx = [b'x' * 10**6 for i in range(400)]\ntime.sleep(3600)"
            pid = os.posix_spawn(sys.executable, [sys.executable, "-c", code], os.environ)
            os.waitpid(pid, 0)
        case "child-hang":
            pid = os.posix_spawn("/bin/sleep", ["sleep", "3599.5"], os.environ)
            os.waitpid(pid, 0)
        case "print":
            for number in range(20_000):
                print(f"warning {number} \x1b[31mred\x1b[0m")
        case "error":
            raise EngineError("The model repeats itself.")
        case "out-of-memory":
            raise EngineOutOfMemory("The GPU has too little memory.")
        case "unavailable":
            raise EngineUnavailable("The driver is gone. Install it.")
        case "library":
            raise KeyError("Confidential words of the document")
        case "no-space":
            raise OSError(28, "No space left on device")
        case "page-error":
            raise PageError("The image is cut off.")
        case _:
            raise ValueError(fault)


class _FaultySource:
    """A real source that fails where told to."""

    def __init__(self, source: Source, faults: Mapping[str, str], strike_once: object) -> None:
        self._source = source
        self._faults = faults
        self._strike = strike_once

    def page(self, index: int) -> PageImage:
        fault = self._faults.get(str(index))
        if fault is not None:
            self._strike(fault, f"decode-{index}", None)
        return self._source.page(index)

    def __getattr__(self, name: str) -> object:
        return getattr(self._source, name)


def _inject(faults: Mapping[str, str], strike_once: object) -> None:
    really_open = ocr.pipeline.open_source
    ocr.pipeline.open_source = lambda path, options: _FaultySource(
        really_open(path, options), faults, strike_once
    )


def _work(seconds: float, progress: Progress | None) -> None:
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        time.sleep(min(0.1, seconds))
        if progress is not None:
            progress()
