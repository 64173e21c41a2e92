"""`scanmd doctor`: whether this machine has what reading needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from daemon.errors import ScanmdError
from daemon.service import chosen_engine, make_reader
from daemon.settings import Settings, check_folders
from daemon.watching import filesystem_of, must_poll
from ocr import OcrError

_POPPLER = ("pdfinfo", "pdftoppm", "pdftotext", "pdfimages", "pdftohtml")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    what: str
    ok: bool
    text: str


def examine_machine(settings: Settings) -> Iterator[Finding]:
    """Everything worth checking, most basic first."""
    yield _poppler()
    yield _opencv()
    yield _engine(settings)
    yield _inotify(settings)
    yield from _folders(settings)
    yield _room(settings)


def _poppler() -> Finding:
    missing = [tool for tool in _POPPLER if shutil.which(tool) is None]
    if missing:
        return Finding(
            "poppler", False, f"{', '.join(missing)} missing → apt-get install poppler-utils"
        )
    told = subprocess.run(["pdftoppm", "-v"], capture_output=True, text=True, check=False)
    return Finding("poppler", True, told.stderr.splitlines()[0])


def _opencv() -> Finding:
    owners = sorted(
        name
        for found in distributions()
        if (name := str(found.metadata["Name"]).lower()).startswith("opencv")
    )
    if len(owners) == 1:
        return Finding("OpenCV", True, owners[0])
    return Finding(
        "OpenCV",
        False,
        f"{len(owners)} packages own cv2 ({', '.join(owners)}) → pip uninstall opencv-python, then "
        "pip install --force-reinstall --no-deps opencv-python-headless",
    )


def _engine(settings: Settings) -> Finding:
    choice = chosen_engine(settings)
    reader = make_reader(settings, choice)
    try:
        info = reader.load()
    except (ScanmdError, OcrError) as error:
        return Finding("engine", False, f"{choice.name}: {error}")
    finally:
        reader.kill()
    return Finding(
        "engine", True, f"{info.name} {info.version} on {info.device}. {choice.why} {info.detail}"
    )


def _inotify(settings: Settings) -> Finding:
    limit = int(Path("/proc/sys/fs/inotify/max_user_watches").read_text())
    folders = 0
    for inbox in settings.inboxes:
        for _ in os.walk(inbox.path):
            folders += 1
            if folders > limit:
                break
    if folders > limit * 0.9:
        return Finding(
            "inotify",
            False,
            f"{folders} folders, {limit} watches → raise fs.inotify.max_user_watches",
        )
    return Finding("inotify", True, f"{folders} folders, {limit} watches")


def _folders(settings: Settings) -> Iterator[Finding]:
    problems = {}
    for problem in check_folders(settings):
        problems[problem.path] = problem.reason
    for inbox in settings.inboxes:
        reason = problems.pop(inbox.path, None)
        if reason is not None:
            yield Finding(f"inbox {inbox.path}", False, reason)
            continue
        kind = filesystem_of(os.fsencode(inbox.path))
        mode = "polled" if must_poll(kind) else "watched natively"
        yield Finding(f"inbox {inbox.path}", True, f"{kind}, {mode}")
    for path, reason in problems.items():
        yield Finding(f"folder {path}", False, reason)


def _room(settings: Settings) -> Finding:
    folder = settings.state_dir
    while not folder.exists():
        folder = folder.parent
    room = os.statvfs(folder)
    free_gb = room.f_bavail * room.f_frsize / 1e9
    text = f"{free_gb:.1f} GB free on the disk with {settings.state_dir}"
    if free_gb < settings.min_free_gb:
        return Finding("disk", False, f"{text} → free some; reading pauses below min_free_gb")
    return Finding("disk", True, f"{text}; Python {sys.version.split()[0]}")
