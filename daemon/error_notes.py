"""The `.error.txt` beside a source that could not be read: what is wrong, what to do."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from daemon.errors import DeliveryError
from daemon.job import Job
from daemon.output_files import Folder, FolderMissing, plain_errors, shown, write_whole
from daemon.output_names import ERROR_NOTE, base_name, escaped_name, short_hash
from daemon.output_place import rights_of, stem_in, target_folder
from daemon.settings import Inbox


def write_error_note(job: Job, inbox: Inbox, reason: str, *, umask: int = 0o027) -> Path | None:
    """Tell the people at the folder why a document was not read; the note's path.

    Args:
        job: The failed job.
        inbox: None is written if it says so (`error_notes`).
        reason: What is wrong and what to do, in plain words.
        umask: Taken off 0666 where the inbox sets no mode.

    Raises:
        NoSpace, SourceBusy, DeliveryError: As `deliver`.
    """
    if not inbox.error_notes:
        return None
    rights = rights_of(inbox, umask)
    first_line = _note_first_line(job)
    text = first_line + (
        f"\n{reason}\n\n"
        "The file itself is untouched. It is tried again when it changes; to try the same file "
        f"again, the administrator can run: scanmd retry {job.id}\n"
        "This note goes away by itself once the file has been read.\n"
    ).encode("utf-8", "replace")
    with target_folder(job, inbox, make=rights) as folder:
        for name in _note_names(job, folder):
            mine = _is_note(folder, name, first_line)
            with suppress(FileExistsError):
                write_whole(folder, name, [text], rights, replace=mine)
                return Path(os.fsdecode(folder.join(name)))
    raise DeliveryError(
        f"The error note for {shown(job.path)} finds no free name in {shown(folder.path)}."
    )


def remove_error_note(job: Job, inbox: Inbox) -> bool:
    """Take away the note that an earlier failure left, if there is one; whether there was.

    Raises:
        SourceBusy, DeliveryError: As `deliver`.
    """
    removed = False
    first_line = _note_first_line(job)
    with suppress(FolderMissing), target_folder(job, inbox, make=None) as folder:
        for name in _note_names(job, folder):
            if _is_note(folder, name, first_line):
                with plain_errors("remove the error note from", folder.path):
                    os.unlink(name, dir_fd=folder.fd)
                removed = True
    return removed


def _note_names(job: Job, folder: Folder) -> list[bytes]:
    stem = stem_in(job, folder)
    return [stem + ERROR_NOTE, stem + b"~" + short_hash(job.path) + ERROR_NOTE]


def _note_first_line(job: Job) -> bytes:
    return f'scanmd could not read "{escaped_name(base_name(job.path))}".\n'.encode()


def _is_note(folder: Folder, name: bytes, first_line: bytes) -> bool:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(name, flags, dir_fd=folder.fd)
    except OSError:
        return False
    with os.fdopen(fd, "rb") as file:
        return file.read(len(first_line)) == first_line
