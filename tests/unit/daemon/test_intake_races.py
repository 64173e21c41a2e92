"""What changes while it is being copied is not delivered as a mixture."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import daemon.intake
from daemon.errors import SourceBusy
from daemon.intake import copy_in, examine
from daemon.settings import Inbox


def _grow(source: Path) -> None:
    with source.open("ab") as file:
        file.write(b"more")


def _shrink(source: Path) -> None:
    os.truncate(source, 1_500_000)


def _overwrite(source: Path) -> None:
    with source.open("r+b") as file:
        file.seek(2_000_000)
        file.write(b"other words")


@pytest.mark.parametrize("change", [_grow, _shrink, _overwrite])
def test_a_file_that_changes_while_it_is_copied_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    inbox = Inbox(path=tmp_path / "in")
    inbox.path.mkdir()
    source = inbox.path / "scan.pdf"
    source.write_bytes(b"x" * 3_000_000)
    arrival = examine(os.fsencode(source), inbox)
    read, reads = os.read, []

    def read_then_change(fd: int, size: int) -> bytes:
        chunk = read(fd, size)
        reads.append(len(chunk))
        if len(reads) == 1:  # after the first MiB: the writer is not done after all
            change(source)
        return chunk

    monkeypatch.setattr(daemon.intake.os, "read", read_then_change)
    with pytest.raises(SourceBusy, match="while it was copied"):
        copy_in(arrival, inbox, tmp_path / "copy", max_file_gb=1)
    assert reads
