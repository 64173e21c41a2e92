"""What a folder of safetensors files holds, from the headers alone.

Standard library only, so that `scanmd model verify` needs neither torch nor a
GPU, and a cut-off download is found before any memory is taken.

Source: safetensors format, "Format": eight bytes of header length, JSON header,
then the tensors' bytes without gaps.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ocr.errors import EngineUnavailable

_MAX_HEADER_BYTES = 100_000_000  # the format's own limit
INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor in one file; `kind` is the format's name of the type (BF16, I8 ...)."""

    key: str
    file: Path
    shape: tuple[int, ...]
    kind: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder's tensors by key as the files name them."""

    folder: Path
    tensors: dict[str, TensorEntry]
    bytes: int
    """Size of all tensors together, in bytes."""


def open_checkpoint(folder: Path) -> Checkpoint:
    """The folder's tensors, every file checked for completeness.

    Raises:
        EngineUnavailable: No safetensors files, one is missing, cut off or broken.
    """
    files = _files(folder)
    tensors: dict[str, TensorEntry] = {}
    total = 0
    for file in files:
        entries, size = read_header(file)
        total += size
        for entry in entries:
            if entry.key in tensors:
                raise EngineUnavailable(
                    f"{entry.key} stands in both {tensors[entry.key].file.name} and {file.name} "
                    f"in {folder}: files of two models are mixed."
                )
            tensors[entry.key] = entry
    return Checkpoint(folder, tensors, total)


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise EngineUnavailable(
            f"There is no model folder {folder}: fetch the model with `scanmd model fetch`."
        )
    index = folder / INDEX
    if index.exists():
        names = _indexed(index)
        for name in names:
            if not (folder / name).is_file():
                raise EngineUnavailable(
                    f"{folder} lacks {name}, which its index names: "
                    "the download is incomplete, run `scanmd model fetch` again."
                )
        return [folder / name for name in names]
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise EngineUnavailable(
            f"{folder} holds no safetensors files (other weight formats are refused): "
            "fetch the model with `scanmd model fetch`."
        )
    return files


def _indexed(index: Path) -> list[str]:
    try:
        names = sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise EngineUnavailable(f"{index} cannot be read as an index of tensors.") from error
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise EngineUnavailable(f"{index} names a file outside its folder: {name!r}.")
    return names


def read_header(file: Path) -> tuple[list[TensorEntry], int]:
    """One file's tensors and their bytes in all, the file's length checked.

    Raises:
        EngineUnavailable: Cut off, too long, or not safetensors.
    """
    try:
        size = file.stat().st_size
        with file.open("rb") as handle:
            head = handle.read(8)
            length = struct.unpack("<Q", head)[0] if len(head) == 8 else -1
            if not 0 < length <= min(_MAX_HEADER_BYTES, size - 8):
                raise EngineUnavailable(
                    f"{file} is no complete safetensors file: fetch the model again."
                )
            header = json.loads(handle.read(length))
    except OSError as error:
        raise EngineUnavailable(f"{file} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise EngineUnavailable(f"{file} has a damaged header: fetch the model again.") from error
    try:
        entries, end = _entries(file, header)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EngineUnavailable(f"{file} has a damaged header: fetch the model again.") from error
    if size != 8 + length + end:
        word = "cut off" if size < 8 + length + end else "longer than it says"
        raise EngineUnavailable(
            f"{file} is {word} ({size} bytes where its header counts {8 + length + end}): "
            "fetch the model again."
        )
    return entries, end


def _entries(file: Path, header: dict[str, Any]) -> tuple[list[TensorEntry], int]:
    entries = []
    end = 0
    for key, value in header.items():
        if key == "__metadata__":
            continue
        start, stop = value["data_offsets"]
        if not 0 <= start <= stop:
            raise ValueError(key)
        end = max(end, stop)
        entries.append(TensorEntry(key, file, tuple(value["shape"]), value["dtype"]))
    return entries, end


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What a model folder holds, for `scanmd model list` and `verify`."""

    folder: Path
    files: int
    tensors: int
    bytes: int


def inspect_model(folder: Path) -> ModelFiles:
    """The folder's files, every header read and every length checked.

    Whether the tensors are those of the model is checked when the engine loads
    them; here neither torch nor a GPU is needed.

    Raises:
        EngineUnavailable: Something is missing, cut off, or of another model.
    """
    checkpoint = open_checkpoint(folder)
    for name in ("config.json", "tokenizer.json"):
        if not (folder / name).is_file():
            raise EngineUnavailable(
                f"{folder} lacks {name}: fetch the model again with `scanmd model fetch`."
            )
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise EngineUnavailable(f"{folder / 'config.json'} cannot be read: {error}.") from error
    known = isinstance(config, dict) and (
        config.get("model_type") == "deepseek_ocr2" or "language_config" in config
    )
    if not known:
        raise EngineUnavailable(
            f"{folder} does not hold DeepSeek-OCR-2, by its config.json: "
            "fetch the right model with `scanmd model fetch`."
        )
    files = {entry.file for entry in checkpoint.tensors.values()}
    return ModelFiles(folder, len(files), len(checkpoint.tensors), checkpoint.bytes)
