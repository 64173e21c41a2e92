"""What may be taken from an inbox, and what must not."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from daemon.errors import IntakeRefused, SourceBusy
from daemon.intake import being_written, copy_in, examine, is_junk, opened, walk, wanted
from daemon.settings import Inbox


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    (tmp_path / "in").mkdir()
    return Inbox(path=tmp_path / "in")


def _path(inbox: Inbox, name: str | bytes) -> bytes:
    return os.fsencode(inbox.path) + b"/" + os.fsencode(name)


@pytest.mark.parametrize(
    "name",
    [".DS_Store", ".ds_store", "._scan.pdf", "Thumbs.db", "THUMBS.DB", "desktop.ini",
     "~$letter.docx", ".@__thumb", "@eaDir", "scan.pdf.part", "scan.PART", "scan.tmp",
     "scan.pdf.crdownload",
     "scan.filepart", "scan.pdf~", "#recycle", "lost+found", ".~lock.scan.pdf#",
     "scan.mmd", "scan.error.txt", "scan.assets", ".scanmd-1234", "System Volume Information"],
)  # fmt: skip
def test_junk_and_our_own_outputs_are_no_documents(name: str) -> None:
    assert is_junk(name.encode())


@pytest.mark.parametrize(
    "name", ["scan.pdf", "part.pdf", "tmp.tif", "Rechnung März.PDF", "a~b.pdf"]
)
def test_ordinary_names_are_documents(name: str) -> None:
    assert not is_junk(name.encode())


def test_patterns_know_no_case_and_junk_folders_hide_what_is_in_them(inbox: Inbox) -> None:
    assert wanted(_path(inbox, "SCAN.PDF"), inbox)
    assert wanted(_path(inbox, b"r\xe9sum\xe9.Pdf"), inbox)
    assert wanted(_path(inbox, "a\nb \N{PAGE FACING UP}.tiff"), inbox)
    assert not wanted(_path(inbox, "notes.docx"), inbox)
    assert not wanted(_path(inbox, "@eaDir/scan.pdf"), inbox)


def test_ignore_and_flat_inboxes_leave_files_alone(tmp_path: Path) -> None:
    inbox = Inbox(path=tmp_path, recursive=False, ignore=("draft-*",))
    assert not wanted(_path(inbox, "Draft-1.pdf"), inbox)
    assert not wanted(_path(inbox, "sub/scan.pdf"), inbox)
    assert wanted(_path(inbox, "scan.pdf"), inbox)


@pytest.mark.parametrize("path", [b"/etc/passwd", b"../scan.pdf", b"sub/../../scan.pdf", b""])
def test_nothing_outside_the_inbox_is_taken(inbox: Inbox, path: bytes) -> None:
    target = path if path.startswith(b"/") else _path(inbox, path)
    with pytest.raises(IntakeRefused):
        examine(target, inbox)


@pytest.mark.parametrize("kind", ["link", "folder link", "pipe", "folder"])
def test_only_ordinary_files_are_taken(inbox: Inbox, tmp_path: Path, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.pdf").write_bytes(b"%PDF-")
    target = inbox.path / "x.pdf"
    match kind:
        case "link":
            target.symlink_to(outside / "secret.pdf")
        case "folder link":
            (inbox.path / "sub").symlink_to(outside)
            target = inbox.path / "sub" / "secret.pdf"
        case "pipe":
            os.mkfifo(target)
        case "folder":
            target.mkdir()
    with pytest.raises(IntakeRefused, match="ordinary files"):
        examine(os.fsencode(target), inbox)
    assert kind == "pipe" or list(walk(inbox)) in ([], [os.fsencode(target)])


def test_names_of_any_bytes_are_found_and_copied_whole(inbox: Inbox, tmp_path: Path) -> None:
    # watchdog#811, paperless-ng#109
    names = [b"r\xe9sum\xe9.pdf", b"a" * 251 + b".pdf", "\N{PAGE FACING UP}\n.pdf".encode()]
    for number, name in enumerate(names):
        Path(os.fsdecode(_path(inbox, name))).write_bytes(b"%PDF-" + bytes([number]) * 3_000_000)
    assert sorted(walk(inbox)) == sorted(_path(inbox, name) for name in names)
    for number, name in enumerate(names):
        target = tmp_path / str(number)
        digest = copy_in(examine(_path(inbox, name), inbox), inbox, target, max_file_gb=1)
        assert digest == hashlib.sha256(target.read_bytes()).hexdigest()
        assert target.read_bytes() == b"%PDF-" + bytes([number]) * 3_000_000


def test_a_file_that_changed_since_it_was_seen_is_not_copied(inbox: Inbox, tmp_path: Path) -> None:
    source = inbox.path / "scan.pdf"
    source.write_bytes(b"half")
    arrival = examine(os.fsencode(source), inbox)
    with source.open("ab") as file:
        file.write(b" and the rest")
    with pytest.raises(SourceBusy, match="changed"):
        copy_in(arrival, inbox, tmp_path / "copy", max_file_gb=1)


def test_a_file_over_the_limit_is_refused_before_it_is_copied(inbox: Inbox, tmp_path: Path) -> None:
    source = inbox.path / "huge.pdf"
    with source.open("wb") as file:
        file.truncate(3_000_000_000)  # sparse: takes no room
    with pytest.raises(IntakeRefused, match="max_file_gb"):
        copy_in(examine(os.fsencode(source), inbox), inbox, tmp_path / "copy", max_file_gb=2)
    assert not (tmp_path / "copy").exists()


def test_a_link_planted_between_look_and_copy_is_not_followed(inbox: Inbox, tmp_path: Path) -> None:
    source = inbox.path / "scan.pdf"
    source.write_bytes(b"%PDF-")
    arrival = examine(os.fsencode(source), inbox)
    (tmp_path / "secret").write_bytes(b"secret")
    source.unlink()
    source.symlink_to(tmp_path / "secret")
    with pytest.raises(IntakeRefused, match="ordinary files"):
        copy_in(arrival, inbox, tmp_path / "copy", max_file_gb=1)


def test_a_writer_that_holds_the_file_is_seen(inbox: Inbox) -> None:
    source = inbox.path / "scan.pdf"
    with source.open("wb") as writer:
        writer.write(b"%PDF-")
        writer.flush()
        with opened(os.fsencode(source), inbox) as fd:
            assert being_written(fd) is True
    with opened(os.fsencode(source), inbox) as fd:
        assert being_written(fd) is False
