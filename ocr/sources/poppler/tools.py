"""Runs poppler's programs on one PDF with time, memory and output limits.

Why links to a shell script: pdf2image starts the programs itself, from a folder it
is given, and offers no way to limit them. Setting limits on this process instead
would limit the engine. A script is packaged rather than written to the folder,
because temporary folders may be mounted `noexec`; a link into such a folder works.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from pdf2image import convert_from_path
from pdf2image.exceptions import (
    PDFInfoNotInstalledError,
    PDFPageCountError,
    PDFPopplerTimeoutError,
    PDFSyntaxError,
)

from ocr.errors import EngineUnavailable
from ocr.options import Limits

_SCRIPT = Path(__file__).with_name("limited.sh")
_PROGRAMS = ("pdfinfo", "pdftoppm", "pdftotext", "pdftohtml", "pdfimages")
_NOT_STARTED = {125, 126, 127}
"""What the script, or the shell, answers when it does not get as far as the program."""
_MAX_COMPLAINTS_BYTES = 64 * 1024
_MAX_HEADER_BYTES = 64
_SPARE_OUTPUT_BYTES = 64 * 1024 * 1024
_CPU_GRACE_S = 5
"""The wall clock should fire first: it leaves a clearer trace than a signal."""
_PDF2IMAGE_FAILURES = (PDFInfoNotInstalledError, PDFPageCountError, PDFSyntaxError)
_OUT_OF_MEMORY = ("out of memory", "bad_alloc", "cannot allocate", "bitmap->alpha is null")


class ToolFailed(Exception):
    """A program ended without a result. The text is for the log."""


class ToolTimeout(ToolFailed):
    """A program ran past the time limit and was ended."""


class ToolOutOfMemory(ToolFailed):
    """A program needed more memory than it may have."""


class Poppler:
    """Poppler's programs for one PDF, with a private folder for what they write."""

    def __init__(self, path: Path, limits: Limits) -> None:
        """Make the folder (in the directory that `tempfile` chooses).

        Raises:
            EngineUnavailable: Poppler is not installed, or not usable.
        """
        missing = [name for name in _PROGRAMS if shutil.which(name) is None]
        if missing:
            raise EngineUnavailable(
                f"PDF files cannot be read, because {missing[0]} is missing."
                " Install poppler (Debian, Ubuntu: apt install poppler-utils)."
            )
        if not os.access(_SCRIPT, os.X_OK):
            raise EngineUnavailable(
                f"PDF files cannot be read, because {_SCRIPT} is not executable."
                " Install scanmd again, or chmod 755 the file."
            )
        self.password: str | None = None
        self._path = path.absolute()
        self._timeout_s = limits.render_timeout_s
        self._folder = Path(tempfile.mkdtemp(prefix="scanmd-pdf-"))
        for name in _PROGRAMS:
            (self._folder / name).symlink_to(_SCRIPT)
        output = int(limits.max_page_mpx * 3e6) + _SPARE_OUTPUT_BYTES
        (self._folder / "limits").write_text(
            f"{int(limits.render_memory_gb * 2**20)}"
            f" {math.ceil(self._timeout_s) + _CPU_GRACE_S} {output // 512}\n"
        )

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def complaints(self, program: str) -> list[str]:
        """What the last run of the program wrote to stderr, at most 64 KiB of it."""
        try:
            with (self._folder / f"{program}.complaints").open("rb") as file:
                raw = file.read(_MAX_COMPLAINTS_BYTES)
        except FileNotFoundError:
            return []
        return raw.decode("utf-8", "replace").splitlines()

    def text(
        self, program: str, *arguments: str, max_bytes: int, timeout_s: float | None = None
    ) -> str:
        """What a program prints about the PDF.

        Args:
            program: `pdfinfo`, `pdftotext`, `pdftohtml` or `pdfimages`.
            arguments: Options; the PDF's path is put behind them.
            max_bytes: How much output is accepted.
            timeout_s: If less than the limit for rendering is to hold.

        Raises:
            ToolFailed: It failed, took too long, or printed more than that.
        """
        behind = ["-"] if program == "pdftotext" else []
        target = self._folder / "output"
        with target.open("wb") as output:
            self._run(
                program,
                [*arguments, *self._password(), str(self._path), *behind],
                output,
                timeout_s=timeout_s,
            )
        try:
            if target.stat().st_size > max_bytes:
                raise ToolFailed(f"{program} printed more than {max_bytes} bytes")
            return target.read_bytes().decode("utf-8", "replace")
        finally:
            target.unlink()

    def extract_jpegs(self, page_number: int, timeout_s: float) -> list[Path]:
        """The JPEG streams on a page as files, as they stand in the PDF.

        Raises:
            ToolFailed: It failed or took too long.
        """
        for old in self._folder.glob("image-*"):
            old.unlink()
        number = str(page_number)
        root = str(self._folder / "image")
        with (self._folder / "output").open("wb") as output:
            self._run(
                "pdfimages",
                ["-j", "-f", number, "-l", number, *self._password(), str(self._path), root],
                output,
                timeout_s=timeout_s,
            )
        return sorted(self._folder.glob("image-*.jpg"))

    def render(self, page_number: int, dpi: float) -> NDArray[np.uint8]:
        """The page as it is shown, uint8 RGB, shape (height, width, 3).

        Args:
            page_number: From 1.
            dpi: Resolution. It sets the size, because poppler's options for a size
                in pixels mean different things on turned pages.

        Raises:
            ToolFailed: No picture came out.
        """
        (self._folder / "pdftoppm.complaints").unlink(missing_ok=True)
        try:
            files = convert_from_path(
                self._path,
                first_page=page_number,
                last_page=page_number,
                dpi=round(dpi, 4),
                use_cropbox=True,
                userpw=self.password,
                output_folder=self._folder,
                output_file="page",
                single_file=True,
                paths_only=True,
                timeout=self._timeout_s,
                poppler_path=self._folder,
            )
            pixels = _pixels(Path(files[0]) if files else None)
        except PDFPopplerTimeoutError as error:
            raise ToolTimeout("pdftoppm took too long") from error
        except (*_PDF2IMAGE_FAILURES, ToolFailed, OSError, ValueError) as error:
            raise self._failure("pdftoppm", str(error)) from error
        finally:
            (self._folder / "page.ppm").unlink(missing_ok=True)
        if self._ran_out_of_memory("pdftoppm"):
            # It went on all the same and wrote a page with holes, or an empty one.
            raise ToolOutOfMemory("pdftoppm could not draw everything")
        return pixels

    def _password(self) -> list[str]:
        # Poppler's programs take passwords on the command line only, where other
        # local users can see them while the program runs (seconds at most).
        return [] if self.password is None else ["-upw", self.password]

    def _run(
        self,
        program: str,
        arguments: list[str],
        output: IO[bytes],
        *,
        timeout_s: float | None = None,
    ) -> None:
        limit_s = self._timeout_s if timeout_s is None else min(timeout_s, self._timeout_s)
        try:
            done = subprocess.run(
                [str(self._folder / program), *arguments],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ToolTimeout(f"{program} took too long") from error
        if done.returncode in _NOT_STARTED:
            raise EngineUnavailable(
                f"PDF files cannot be read, because {program} cannot be started."
                " Check that poppler-utils is installed and the work folder writable."
            )
        if done.returncode != 0:
            raise self._failure(program, f"{program} ended with {done.returncode}")

    def _failure(self, program: str, text: str) -> ToolFailed:
        return ToolOutOfMemory(text) if self._ran_out_of_memory(program) else ToolFailed(text)

    def _ran_out_of_memory(self, program: str) -> bool:
        complaints = "\n".join(self.complaints(program)).lower()
        return any(word in complaints for word in _OUT_OF_MEMORY)


def _pixels(path: Path | None) -> NDArray[np.uint8]:
    """The pixels of a binary PPM, which is a short header and then nothing but them."""
    if path is None:
        raise ToolFailed("pdftoppm wrote no picture")
    with path.open("rb") as file:
        head = file.read(_MAX_HEADER_BYTES)
        fields = head.split(None, 3)
        width, height = int(fields[1]), int(fields[2])
        # The script limits the file's length, and with it what is allocated here.
        if fields[0] != b"P6" or width * height * 3 > path.stat().st_size:
            raise ToolFailed("pdftoppm wrote only a part of the picture")
        # Behind the third number stands one white space character, then the pixels.
        file.seek(len(head) - len(fields[3]) + len(b"255\n"))
        pixels = np.fromfile(file, dtype=np.uint8, count=width * height * 3)
    return pixels.reshape(height, width, 3)
