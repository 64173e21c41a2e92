"""What the daemon and its reader process say to each other: JSON, one message a line.

Every message is bounded in length on both sides, so that neither a runaway engine nor
a damaged process can fill the other one's memory. JSON escapes everything beyond
ASCII, so undecodable file names (as Python's surrogates) pass unharmed.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import socket
import threading
import types
import typing
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from daemon import errors as daemon_errors
from ocr import OcrError

T = TypeVar("T")
Message = dict[str, Any]

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""A page of the densest newspaper with every word's box is under 4 MiB."""
_CHUNK_BYTES = 256 * 1024
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_REASON_LENGTH = 500


class ProtocolError(Exception):
    """The other side sent something that is no message."""


class Channel:
    """One end of the connection. `send` may be called from any thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._received = bytearray()
        self._scanned = 0
        self._sending = threading.Lock()

    def fileno(self) -> int:
        """The descriptor to poll for reading."""
        return self._connection.fileno()

    def send(self, message: Mapping[str, object]) -> None:
        """Send one message.

        Raises:
            OSError: The other side is gone.
            ProtocolError: The message is longer than any message may be.
        """
        data = json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"
        if len(data) > MAX_MESSAGE_BYTES:
            raise ProtocolError(f"a message of {len(data)} bytes is over the limit")
        with self._sending:
            self._connection.sendall(data)

    def fill(self) -> bool:
        """Take what has arrived, waiting for at least one byte; False at the end.

        Raises:
            OSError: The connection broke.
            ProtocolError: A message is longer than any message may be.
        """
        data = self._connection.recv(_CHUNK_BYTES)
        self._received += data
        if len(self._received) > MAX_MESSAGE_BYTES + _CHUNK_BYTES:
            raise ProtocolError("a message is over the limit")
        return bool(data)

    def next_message(self) -> Message | None:
        """The next whole message that has arrived, None when there is none yet.

        Raises:
            ProtocolError: The line is not a JSON object.
        """
        end = self._received.find(b"\n", self._scanned)
        if end < 0:
            self._scanned = len(self._received)
            return None
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        self._scanned = 0
        try:
            message = json.loads(line)
        except ValueError as error:
            raise ProtocolError("a message is not JSON") from error
        if not isinstance(message, dict):
            raise ProtocolError("a message is not a JSON object")
        return message

    def close(self) -> None:
        """Close this end; the other one reads the end of the stream."""
        self._connection.close()


def to_plain(value: object) -> object:
    """Options (a dataclass of simple fields) as JSON-ready data."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    return value


def from_plain(kind: type[T], data: object) -> T:
    """The value of type `kind` that `to_plain` turned into `data`.

    Understands what options are made of: dataclasses, enums, paths, tuples of one
    type, and one of these or None.
    """
    return typing.cast(T, _restored(kind, data))


def error_to_message(error: Exception) -> Message:
    """An error as a message: the class the other side knows, and its sentence."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _NO_SPACE:
            return {"error": "NoSpace", "reason": "There is no space left on the disk."}
        cause = cause.__cause__
    names = [base.__name__ for base in type(error).__mro__]
    known = next(name for name in [*names, "OcrError"] if name in _ERRORS)
    return {"error": known, "reason": str(error)[:_REASON_LENGTH]}


def error_from_message(message: Message) -> Exception:
    """The error that `error_to_message` described."""
    return _ERRORS.get(str(message["error"]), OcrError)(str(message["reason"]))


def _subclasses(base: type[Exception]) -> dict[str, type[Exception]]:
    found = {base.__name__: base}
    for child in base.__subclasses__():
        # Only ocr's own: an engine's private subclass is not known on the other side.
        if child.__module__ == base.__module__:
            found |= _subclasses(child)
    return found


_ERRORS: dict[str, type[Exception]] = {
    **_subclasses(OcrError),
    "NoSpace": daemon_errors.NoSpace,
}


def _restored(kind: object, data: object) -> object:
    origin, choices = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if data is None:
            return None
        return _restored(next(c for c in choices if c is not types.NoneType), data)
    if origin is tuple and isinstance(data, list):
        return tuple(_restored(choices[0], item) for item in data)
    if not isinstance(kind, type):
        return data
    if dataclasses.is_dataclass(kind) and isinstance(data, dict):
        hints = typing.get_type_hints(kind)
        return kind(**{name: _restored(hints[name], item) for name, item in data.items()})
    if issubclass(kind, Enum | Path) and isinstance(data, str):
        return kind(data)
    return data
