"""What the daemon and its reader say to each other survives the way, and stays bounded."""

import dataclasses
import json
import socket
from pathlib import Path

import pytest

import daemon.reader_protocol
from daemon.errors import NoSpace
from daemon.reader_protocol import (
    Channel,
    ProtocolError,
    error_from_message,
    error_to_message,
    from_plain,
    to_plain,
)
from ocr import (
    EngineError,
    EngineInfo,
    EngineOutOfMemory,
    Limits,
    MarkdownOptions,
    OcrError,
    PasswordRequired,
    Profile,
    ReadOptions,
    TextLayer,
)


@pytest.fixture
def ends():
    """The two ends of a connection."""
    ours, theirs = (Channel(end) for end in socket.socketpair())
    yield ours, theirs
    ours.close()
    theirs.close()


def received(channel):
    while (message := channel.next_message()) is None:
        assert channel.fill()
    return message


@pytest.mark.parametrize(
    "options",
    [
        ReadOptions(),
        ReadOptions(
            dpi=300,
            text_layer=TextLayer.FORCE_OCR,
            passwords=("geheim", "päss wort"),
            limits=Limits(max_pages=3, max_page_mpx=12.5),
            pre_correction=False,
            profile=Profile.FAST,
            assets_dir=Path("/work/7/assets"),
            visualization=True,
        ),
        MarkdownOptions(),
        MarkdownOptions(page_separator="rule", mark_uncertain=0.5, assets_name="a.assets"),
        EngineInfo("rapid", "1", "cpu", "OpenVINO"),
    ],
)
def test_options_arrive_as_they_were(options):
    restored = from_plain(type(options), json.loads(json.dumps(to_plain(options))))
    assert restored == options
    for field in dataclasses.fields(options):
        assert type(getattr(restored, field.name)) is type(getattr(options, field.name))


def test_messages_arrive_whole_and_in_order(ends):
    ours, theirs = ends
    ours.send({"page": "ä\n\u2028\udcff", "n": 1})
    ours.send({"n": 2})
    assert received(theirs) == {"page": "ä\n\u2028\udcff", "n": 1}
    assert received(theirs) == {"n": 2}
    assert theirs.next_message() is None


def test_the_end_of_the_connection_is_noticed(ends):
    ours, theirs = ends
    ours.close()
    assert theirs.fill() is False


@pytest.mark.parametrize("line", [b"{]\n", b"[1]\n", b"\xff\n"])
def test_what_is_no_message_is_refused(line):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(theirs)
        ours.sendall(line)
        channel.fill()
        with pytest.raises(ProtocolError):
            channel.next_message()


def test_a_message_without_end_is_refused(ends, monkeypatch):
    ours, theirs = ends
    monkeypatch.setattr(daemon.reader_protocol, "MAX_MESSAGE_BYTES", 1000)
    monkeypatch.setattr(daemon.reader_protocol, "_CHUNK_BYTES", 100)
    with pytest.raises(ProtocolError, match="over the limit"):
        ours.send({"page": "x" * 1000})
    ours._connection.sendall(b"x" * 2000)
    for _ in range(11):
        theirs.fill()
    with pytest.raises(ProtocolError, match="over the limit"):
        theirs.fill()


@pytest.mark.parametrize("kind", [EngineError, EngineOutOfMemory, PasswordRequired, OcrError])
def test_an_error_arrives_as_the_class_it_was(kind):
    restored = error_from_message(error_to_message(kind("It needs a password.")))
    assert type(restored) is kind
    assert str(restored) == "It needs a password."


def test_an_engine_s_private_error_arrives_as_the_one_it_stems_from():
    class TileError(EngineOutOfMemory):
        pass

    assert type(error_from_message(error_to_message(TileError("x")))) is EngineOutOfMemory


def test_a_full_disk_is_told_apart_however_deep_it_lies():
    error = EngineError("The figure could not be saved.")
    error.__cause__ = ValueError()
    error.__cause__.__cause__ = OSError(28, "No space left on device")
    assert type(error_from_message(error_to_message(error))) is NoSpace
