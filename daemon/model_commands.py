"""The functions behind `scanmd model fetch|list|verify|remove`.

The only place that ever touches the network, and only `fetch` does: the daemon
itself reads what lies in the model folder. Safetensors and text files only, one
exact revision, every file compared with the checksum its publisher states.
"""

# huggingface_hub is imported late and has no type here.
# ruff: noqa: ANN401

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daemon.errors import ScanmdError
from ocr import EngineUnavailable, inspect_model

REPOSITORY = "deepseek-community/DeepSeek-OCR-2"
RECORD = "scanmd-model.json"
"""Written beside the weights: where they came from, and every file's checksum."""

_WANTED = ("*.safetensors", "*.json", "*.txt", "*.model", "LICENSE*", "README*")
_CHUNK_BYTES = 4_000_000

Progress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes done and the bytes in all."""


class ModelError(ScanmdError):
    """A model command cannot do what was asked."""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file of a model; `sha256` is in hexadecimal."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """What `fetch` fetched: `revision` is the exact commit."""

    repository: str
    revision: str
    files: tuple[FileRecord, ...]


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """One line of `scanmd model list`; `problem` is None when it looks usable."""

    folder: Path
    repository: str | None
    revision: str | None
    gb: float
    problem: str | None


def model_folder(cache_dir: Path, repository: str = REPOSITORY) -> Path:
    """Where a fetched model lies: `<cache_dir>/models/<name>`."""
    return cache_dir / "models" / repository.rsplit("/", 1)[-1]


def fetch(
    folder: Path,
    *,
    repository: str = REPOSITORY,
    revision: str | None = None,
    progress: Progress | None = None,
    hub: Any = None,
) -> ModelRecord:
    """Download the model, or what is missing of it, and check it.

    Files that are complete already are not fetched again, and a broken download
    goes on where it stopped. A folder that was fetched before keeps its revision
    unless another is named.

    Args:
        folder: Where to.
        repository: Name on the hub.
        revision: Commit, tag or branch; a name is resolved to its commit once.
        progress: Told of the checking; the download shows a bar of its own.
        hub: The `huggingface_hub` module; a fake one for fault injection.

    Raises:
        ModelError: No network, no such model, a full disk, a wrong checksum.
    """
    hub = hub or _hub()
    known = read_record(folder)
    if revision is None and known is not None and known.repository == repository:
        revision = known.revision
    try:
        info = hub.HfApi().model_info(repository, revision=revision, files_metadata=True)
        hub.snapshot_download(
            repository, revision=info.sha, local_dir=folder, allow_patterns=list(_WANTED)
        )
    except Exception as error:  # the hub's own and its transport's errors are many
        raise ModelError(
            f"{repository} cannot be fetched: {_first_line(error)}. Check the network and run the "
            "command again (it goes on where it stopped), or copy the model's folder here by hand."
        ) from error
    record = _checked_record(folder, repository, info, progress)
    inspect(folder)
    _write_record(folder, record)
    return record


def _hub() -> Any:
    if os.environ.get("HF_HUB_OFFLINE", "").strip().lower() in ("1", "true", "yes", "on"):
        raise ModelError("HF_HUB_OFFLINE is set: unset it for this command to fetch the model.")
    try:
        import huggingface_hub
    except ImportError as error:
        raise ModelError(
            "Fetching needs the package huggingface_hub: pip install 'scanmd[gpu]'."
        ) from error
    return huggingface_hub


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".")


def _checked_record(
    folder: Path, repository: str, info: Any, progress: Progress | None
) -> ModelRecord:
    files = []
    for sibling in info.siblings:
        path = folder / sibling.rfilename
        if not path.is_file():
            continue
        size = path.stat().st_size
        if sibling.size is not None and size != sibling.size:
            raise ModelError(
                f"{path} has {size} bytes where {sibling.size} are published: "
                "run the command again."
            )
        digest = _sha256(path, progress)
        published = getattr(getattr(sibling, "lfs", None), "sha256", None)
        if published is not None and digest != published:
            path.unlink()
            raise ModelError(
                f"{path} did not have the published checksum and was removed: "
                "run the command again."
            )
        files.append(FileRecord(sibling.rfilename, size, digest))
    return ModelRecord(repository, info.sha, tuple(files))


def _sha256(path: Path, progress: Progress | None = None) -> str:
    digest = hashlib.sha256()
    total, done = path.stat().st_size, 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            done += len(chunk)
            if progress is not None:
                progress(path.name, done, total)
    return digest.hexdigest()


def inspect(folder: Path) -> None:
    """Fail unless the folder holds a complete model.

    Raises:
        ModelError: Says what is wrong and what to do.
    """
    try:
        inspect_model(folder)
    except EngineUnavailable as error:
        raise ModelError(str(error)) from error


def verify(folder: Path, progress: Progress | None = None) -> ModelRecord | None:
    """Check a model's files: complete, and as recorded when they were fetched.

    Returns:
        The record; None for a folder that was put there by hand, of which only
        completeness can be checked.

    Raises:
        ModelError: Names the first file that is wrong.
    """
    inspect(folder)
    record = read_record(folder)
    for file in record.files if record is not None else ():
        path = folder / file.name
        if not path.is_file():
            raise ModelError(f"{path} is missing: run `scanmd model fetch`.")
        if path.stat().st_size != file.bytes or _sha256(path, progress) != file.sha256:
            raise ModelError(
                f"{path} is not the file that was fetched: delete it and run `scanmd model fetch`."
            )
    return record


def list_models(cache_dir: Path, others: Iterable[Path] = ()) -> list[ModelSummary]:
    """The fetched models, and other folders (the configured one), briefly checked."""
    root = cache_dir / "models"
    found = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    found += [path for path in others if path not in found]
    return [_summary(path) for path in found]


def _summary(folder: Path) -> ModelSummary:
    problem = None
    size = 0
    try:
        size = inspect_model(folder).bytes
    except EngineUnavailable as error:
        problem = str(error)
    record = read_record(folder)
    return ModelSummary(
        folder,
        None if record is None else record.repository,
        None if record is None else record.revision,
        round(size / 1e9, 2),
        problem,
    )


def remove(folder: Path) -> int:
    """Delete a fetched model: the recorded files, nothing else.

    Returns:
        The bytes that were freed.

    Raises:
        ModelError: The folder was not fetched by scanmd, or cannot be deleted.
    """
    record = read_record(folder)
    if record is None:
        raise ModelError(
            f"{folder} was not fetched by scanmd (it holds no {RECORD}): delete it by hand."
        )
    freed = 0
    try:
        for file in record.files:
            path = folder / file.name
            if path.is_file():
                freed += path.stat().st_size
                path.unlink()
        (folder / RECORD).unlink()
        _remove_empty(folder)
    except OSError as error:
        raise ModelError(f"{folder} cannot be deleted: {error.strerror}.") from error
    return freed


def _remove_empty(folder: Path) -> None:
    """Remove the folders that are empty now; the hub's bookkeeping is `.cache`."""
    cache = folder / ".cache"
    for root, _, names in os.walk(cache, topdown=False):
        for name in names:
            (Path(root) / name).unlink()
        Path(root).rmdir()
    for root, _, _ in os.walk(folder, topdown=False):
        if not any(Path(root).iterdir()):
            Path(root).rmdir()


def read_record(folder: Path) -> ModelRecord | None:
    """What `fetch` wrote; None when there is nothing or nothing usable."""
    try:
        data = json.loads((folder / RECORD).read_text("utf-8"))
        files = tuple(FileRecord(**file) for file in data["files"])
        record = ModelRecord(data["repository"], data["revision"], files)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # A record is a list of what `remove` deletes: it must stay inside the folder.
    inside = all(not Path(f.name).is_absolute() and ".." not in Path(f.name).parts for f in files)
    return record if inside else None


def _write_record(folder: Path, record: ModelRecord) -> None:
    data = {
        "repository": record.repository,
        "revision": record.revision,
        "files": [
            {"name": file.name, "bytes": file.bytes, "sha256": file.sha256} for file in record.files
        ],
    }
    temporary = folder / (RECORD + ".part")
    try:
        temporary.write_text(json.dumps(data, indent=1), "utf-8")
        temporary.replace(folder / RECORD)
    except OSError as error:
        raise ModelError(f"{folder / RECORD} cannot be written: {error.strerror}.") from error
