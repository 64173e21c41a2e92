"""From text to a file in its place: the name, the collision, the rights, the error note.

Order matters more than anything here. Figures and sidecars come first, so that a
`.mmd` never links to what is not there; the ledger learns of the name before
the rename and of the success after it. Killed at any point between, the next
start finds the same name again and replaces only what is its own.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from daemon.disposal import Disposal, dispose_source
from daemon.error_notes import remove_error_note, write_error_note
from daemon.errors import DeliveryError, OutputTaken, SourceBusy
from daemon.job import Job, OutputRecord
from daemon.ledger import Ledger
from daemon.output_files import (
    Folder,
    FolderMissing,
    Rights,
    Standing,
    examine,
    exists,
    file_chunks,
    open_below,
    plain_errors,
    shown,
    write_whole,
)
from daemon.output_names import (
    ASSETS,
    MARKDOWN,
    assets_stem,
    base_name,
    candidate_stems,
    document_header,
)
from daemon.output_place import rights_of, stem_in, target_folder
from daemon.settings import Inbox

__all__ = [
    "Beside",
    "Disposal",
    "deliver",
    "dispose_source",
    "find_delivered",
    "remove_error_note",
    "write_error_note",
]

_PLANS = 5
"""Somebody who takes five names in a row right before us does it on purpose."""


@dataclass(frozen=True, slots=True)
class _Spot:
    """A name that this job may write to."""

    stem: bytes
    folder: Folder
    standing: Standing | None
    """The job's own output that stands there and is replaced."""
    record: OutputRecord | None

    @property
    def name(self) -> bytes:
        return self.stem + MARKDOWN

    @property
    def output(self) -> bytes:
        return self.folder.join(self.name)

    @property
    def assets_name(self) -> bytes:
        return assets_stem(self.stem) + ASSETS


@dataclass(frozen=True, slots=True)
class Beside:
    """What is delivered together with a `.mmd`."""

    assets: Path | None = None
    """Work folder with the figures, flat; may be empty or missing."""
    sidecars: Mapping[str, Path] = field(default_factory=dict)
    """Suffix (".json", ".layout.pdf") to work file."""

    def figures(self) -> list[Path]:
        """The files of the assets folder, in order."""
        if self.assets is None or not self.assets.is_dir():
            return []
        return sorted(file for file in self.assets.iterdir() if file.is_file())

    def names(self, spot: _Spot) -> list[bytes]:
        """Every file, relative to the output's folder."""
        return [
            *(spot.assets_name + b"/" + os.fsencode(file.name) for file in self.figures()),
            *(spot.stem + suffix.encode() for suffix in self.sidecars),
        ]


NOTHING_BESIDE = Beside()


def deliver(
    job: Job,
    inbox: Inbox,
    render: Callable[[str], Path],
    ledger: Ledger,
    *,
    umask: int = 0o027,
    beside: Beside = NOTHING_BESIDE,
) -> Path:
    """Put a document's Markdown in its place; `ledger.finish` is the caller's next step.

    A name that holds anything but this source's own, unedited output is left
    alone, and `name~<hash8>.mmd` is taken instead.

    Args:
        job: A job whose fingerprint is set in the ledger.
        inbox: Says where to and with which rights.
        render: Given the name of the assets folder, makes the Markdown file in the
            work folder. Called again if somebody takes the name meanwhile.
        ledger: Learns of the output before it is there.
        umask: Taken off 0666 where the inbox sets no mode.
        beside: Figures and sidecars to deliver with it.

    Returns:
        Path of the `.mmd`, which is on the disk.

    Raises:
        NoSpace: The disk is full.
        SourceBusy: The share does not answer just now.
        DeliveryError: Somebody has to act; the message says what to do.
    """
    job = _with_fingerprint(job, ledger)
    rights = rights_of(inbox, umask)
    with target_folder(job, inbox, make=rights) as folder:
        for _ in range(_PLANS):
            spot = _find_spot(job, folder, ledger, beside)
            text = render(os.fsdecode(spot.assets_name))
            try:
                _place(job, spot, text, beside, rights=rights, ledger=ledger)
            except OutputTaken:
                continue
            return Path(os.fsdecode(spot.output))
    raise OutputTaken(
        f"Other programs keep taking the names for {shown(job.path)} in {shown(folder.path)}."
    )


def find_delivered(job: Job, inbox: Inbox, ledger: Ledger, fingerprint: str) -> Path | None:
    """The output that already holds this very content of this source, if there is one.

    This is how a file that was only touched, or moved away and back, is not read
    again, nor is one whose ledger was lost, nor one whose delivery ended between
    the rename and the ledger's commit. None for a job that `retry` asked for.
    """
    if job.forced:
        return None
    for record in ledger.outputs_of(job.path, fingerprint):
        if _still_there(record):
            if record.pending_sha256 is not None or record.lineage != job.lineage:
                ledger.adopt_output(job.id, record.output, sha256=_sha256_of(record))
            return Path(os.fsdecode(record.output))
    with suppress(FolderMissing), target_folder(job, inbox, make=None) as folder:
        return _recognised(job, folder, ledger, fingerprint)
    return None


def _find_spot(job: Job, folder: Folder, ledger: Ledger, beside: Beside) -> _Spot:
    for stem in _stems(job, folder, ledger):
        name = stem + MARKDOWN
        record = ledger.output_owner(folder.join(name))
        with plain_errors("look into", folder.path):
            standing = examine(folder, name)
            taken = standing is None and exists(folder, name)
        if taken or (standing is not None and not _is_own(job, record, standing)):
            continue
        if standing is None and record is not None and record.source != job.path:
            if record.pending_sha256 is not None:
                continue  # another source is being delivered there at this moment
            record = None
        if record is not None and not _same_document(job, record):
            record = None
        spot = _Spot(stem, folder, standing, record)
        if _room_beside(spot, beside):
            return spot
    raise DeliveryError(
        f"All names for the text of {shown(job.path)} in {shown(folder.path)} are taken. "
        "Move some of those files away."
    )


def _stems(job: Job, folder: Folder, ledger: Ledger) -> Iterator[bytes]:
    """The names to try: where the last version went, then the plain one, then with hashes."""
    previous = ledger.previous_output(job.path)
    if previous is not None and previous.output == folder.join(base_name(previous.output)):
        yield base_name(previous.output).removesuffix(MARKDOWN)
    yield from candidate_stems(stem_in(job, folder), str(job.fingerprint))


def _is_own(job: Job, record: OutputRecord | None, standing: Standing) -> bool:
    """Whether a file is this document's output and nobody edited it."""
    if record is not None:
        if not _same_document(job, record):
            return False
        if standing.sha256 in record.digests:
            return True
        if standing.size == 0 and record.pending_sha256 is not None:
            return True  # the placeholder of a share that cannot rename safely
    # What the header vouches for is the same content, read from the same name.
    return _vouched(job, standing, job.fingerprint) and _unedited(standing)


def _same_document(job: Job, record: OutputRecord) -> bool:
    """Whether a record is of this source: the same file lineage, or the same content again."""
    return record.source == job.path and (
        record.lineage == job.lineage or record.fingerprint == job.fingerprint
    )


def _vouched(job: Job, standing: Standing, fingerprint: str | None) -> bool:
    header = standing.header
    return (
        header is not None and header.source == base_name(job.path) and header.sha256 == fingerprint
    )


def _unedited(standing: Standing) -> bool:
    return standing.header is not None and standing.header.text_sha256 == standing.text_sha256


def _room_beside(spot: _Spot, beside: Beside) -> bool:
    """Whether figures and sidecars would meet nobody else's files."""
    if spot.standing is not None and spot.record is None:
        return True  # recognised by its header: what stands beside it came with it
    known = {os.fsencode(name) for name in spot.record.extras} if spot.record else set()
    known |= {name.split(b"/")[0] for name in known}
    wanted = {name.split(b"/")[0] for name in beside.names(spot)}
    with plain_errors("look into", spot.folder.path):
        return not any(exists(spot.folder, name) for name in wanted - known)


# Writing


def _place(
    job: Job,
    spot: _Spot,
    text: Path,
    beside: Beside,
    *,
    rights: Rights,
    ledger: Ledger,
) -> None:
    text_sha256 = _digest(file_chunks(text))
    header = document_header(base_name(job.path), str(job.fingerprint), text_sha256)
    sha256 = _digest(_document(header, text))
    names = [os.fsdecode(name) for name in beside.names(spot)]
    if not ledger.intend_output(job.id, spot.output, sha256=sha256, extras=names):
        raise OutputTaken(f"{shown(spot.output)} is being written for another source.")
    written: list[str] = []
    try:
        _write_beside(spot, beside, rights, written)
        if spot.standing is None or spot.standing.sha256 != sha256:
            write_whole(
                spot.folder,
                spot.name,
                _document(header, text),
                rights,
                replace=spot.standing is not None,
                last_check=lambda: _check_unchanged(spot),
            )
    except (FileExistsError, OutputTaken) as error:
        _remove(spot.folder, written)
        ledger.withdraw_output(job.id, spot.output)
        raise OutputTaken(f"{shown(spot.output)} was taken by another file.") from error
    stale = set(spot.record.extras if spot.record is not None else ()) - set(names)
    _remove(spot.folder, sorted(stale))
    ledger.set_extras(spot.output, names)


def _check_unchanged(spot: _Spot) -> None:
    """Make sure that nobody edited the output while its successor was made."""
    if spot.standing is not None and examine(spot.folder, spot.name) != spot.standing:
        raise OutputTaken(f"{shown(spot.output)} was edited.")


def _write_beside(spot: _Spot, beside: Beside, rights: Rights, written: list[str]) -> None:
    """Deliver figures and sidecars; `written` gets the names of those that were new."""
    replace = spot.standing is not None or spot.record is not None
    figures = beside.figures()
    if figures:
        with open_below(spot.folder, spot.assets_name, make=rights) as folder:
            for file in figures:
                name = os.fsencode(file.name)
                if _write_copy(folder, name, file, rights, replace=replace) and not replace:
                    written.append(os.fsdecode(spot.assets_name + b"/" + name))
    for suffix, file in beside.sidecars.items():
        name = spot.stem + suffix.encode()
        if _write_copy(spot.folder, name, file, rights, replace=replace) and not replace:
            written.append(os.fsdecode(name))


def _write_copy(folder: Folder, name: bytes, file: Path, rights: Rights, *, replace: bool) -> bool:
    """Write a copy where there is not the same already; whether it was written."""
    with plain_errors("look into", folder.path):
        standing = examine(folder, name)
    if standing is not None and standing.sha256 == _digest(file_chunks(file)):
        return False
    write_whole(folder, name, file_chunks(file), rights, replace=replace)
    return True


def _remove(folder: Folder, names: Sequence[str]) -> None:
    """Remove files that we delivered; a leftover is untidy, never a failed delivery."""
    with suppress(OSError, DeliveryError):
        for name in map(os.fsencode, names):
            below, _, file = name.rpartition(b"/")
            if not below:
                with suppress(FileNotFoundError):
                    os.unlink(file, dir_fd=folder.fd)
                continue
            with suppress(FileNotFoundError, FolderMissing), open_below(folder, below) as assets:
                os.unlink(file, dir_fd=assets.fd)
            with suppress(OSError):  # stays while it holds other files
                os.rmdir(below, dir_fd=folder.fd)


def _document(header: bytes, text: Path) -> Iterator[bytes]:
    yield header
    yield from file_chunks(text)


def _digest(chunks: Iterator[bytes]) -> str:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


# Recognising


def _still_there(record: OutputRecord) -> bool:
    """Whether the file is there, and is what the record says or a person's edit of it."""
    try:
        information = os.lstat(record.output)
    except OSError:
        return False
    if not stat.S_ISREG(information.st_mode):
        return False
    # Intended, not confirmed: only the new content counts, not what it was to replace.
    return record.pending_sha256 is None or _sha256_of(record) == record.pending_sha256


def _sha256_of(record: OutputRecord) -> str | None:
    """The recorded digest that the file has; None if a person edited it."""
    try:
        found = _digest(file_chunks(Path(os.fsdecode(record.output))))
    except SourceBusy:
        return None
    return found if found in record.digests else None


def _recognised(job: Job, folder: Folder, ledger: Ledger, fingerprint: str) -> Path | None:
    stems = candidate_stems(stem_in(job, folder), fingerprint)
    for stem, _ in zip(stems, range(2), strict=False):
        output = folder.join(stem + MARKDOWN)
        with plain_errors("look into", folder.path):
            standing = examine(folder, stem + MARKDOWN)
        if standing is None or not _vouched(job, standing, fingerprint):
            continue
        owner = ledger.output_owner(output)
        if owner is None or owner.source == job.path:
            ledger.adopt_output(
                job.id, output, sha256=standing.sha256 if _unedited(standing) else None
            )
            return Path(os.fsdecode(output))
    return None


def _with_fingerprint(job: Job, ledger: Ledger) -> Job:
    current = ledger.job(job.id)
    if current is None or current.fingerprint is None:
        raise LookupError(f"job {job.id} has no fingerprint yet: call set_fingerprint first")
    return current
