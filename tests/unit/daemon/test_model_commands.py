"""Fetching, checking and removing a model; the hub is played by a fake one."""

import hashlib
import json
import struct
from types import SimpleNamespace

import pytest

from daemon.model_commands import (
    RECORD,
    ModelError,
    fetch,
    list_models,
    model_folder,
    remove,
    verify,
)

HEADER = json.dumps({"x": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}}).encode()
FILES = {
    "config.json": b'{"model_type": "deepseek_ocr2"}',
    "tokenizer.json": b"{}",
    "model.safetensors": struct.pack("<Q", len(HEADER)) + HEADER + bytes(8),
}


class Hub:
    """Answers as huggingface_hub does; `spoil` changes what arrives."""

    def __init__(self, spoil=None, error=None):
        self.revisions = []
        self._spoil = spoil or {}
        self._error = error

    def HfApi(self):
        return self

    def model_info(self, repository, *, revision, files_metadata):
        self.revisions.append(revision)
        if self._error:
            raise self._error
        siblings = [
            SimpleNamespace(
                rfilename=name,
                size=len(data),
                lfs=SimpleNamespace(sha256=hashlib.sha256(data).hexdigest())
                if name.endswith("safetensors")
                else None,
            )
            for name, data in FILES.items()
        ]
        siblings.append(SimpleNamespace(rfilename="modeling.py", size=3, lfs=None))
        return SimpleNamespace(sha=revision or "c0ffee", siblings=siblings)

    def snapshot_download(self, repository, *, revision, local_dir, allow_patterns):
        assert not any("py" in pattern for pattern in allow_patterns)
        local_dir.mkdir(parents=True, exist_ok=True)
        for name, data in FILES.items():
            (local_dir / name).write_bytes(self._spoil.get(name, data))


@pytest.fixture
def folder(tmp_path):
    return model_folder(tmp_path)


def test_a_fetched_model_is_recorded_and_verifies(folder, tmp_path):
    record = fetch(folder, hub=Hub())
    assert record.revision == "c0ffee"
    assert verify(folder) == record
    (found,) = list_models(tmp_path)
    assert (found.problem, found.revision) == (None, "c0ffee")


def test_a_second_fetch_keeps_the_revision(folder):
    fetch(folder, hub=Hub(), revision="aaaa")
    hub = Hub()
    assert fetch(folder, hub=hub).revision == "aaaa"
    assert hub.revisions == ["aaaa"]


def test_a_wrong_checksum_removes_the_file(folder):
    spoiled = FILES["model.safetensors"][:-1] + b"!"
    with pytest.raises(ModelError, match="checksum"):
        fetch(folder, hub=Hub({"model.safetensors": spoiled}))
    assert not (folder / "model.safetensors").exists()
    assert not (folder / RECORD).exists()


def test_a_short_file_is_said(folder):
    with pytest.raises(ModelError, match="published"):
        fetch(folder, hub=Hub({"model.safetensors": FILES["model.safetensors"][:-3]}))


def test_without_network_the_message_says_what_to_do(folder):
    with pytest.raises(ModelError, match="Check the network"):
        fetch(folder, hub=Hub(error=ConnectionError("no route")))


def test_offline_mode_refuses_to_fetch(folder, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE"):
        fetch(folder)


def test_a_changed_file_does_not_verify(folder):
    fetch(folder, hub=Hub())
    (folder / "tokenizer.json").write_text("[]")
    with pytest.raises(ModelError, match=r"tokenizer\.json is not the file"):
        verify(folder)


def test_a_missing_file_does_not_verify(folder):
    fetch(folder, hub=Hub())
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="no safetensors"):
        verify(folder)


def test_a_folder_put_there_by_hand_verifies_without_a_record(tmp_path):
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    assert verify(tmp_path) is None


def test_removing_deletes_only_what_was_fetched(folder):
    fetch(folder, hub=Hub())
    (folder / "notes.txt").write_text("mine")
    assert remove(folder) == sum(len(data) for data in FILES.values())
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_an_empty_folder_goes_too(folder):
    fetch(folder, hub=Hub())
    remove(folder)
    assert not folder.exists()


def test_a_folder_of_the_user_is_not_removed(tmp_path):
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ModelError, match="by hand"):
        remove(tmp_path)
    assert (tmp_path / "config.json").exists()


def test_a_record_that_points_outside_is_not_obeyed(folder, tmp_path):
    fetch(folder, hub=Hub())
    victim = tmp_path / "victim"
    victim.write_text("x")
    data = json.loads((folder / RECORD).read_text())
    data["files"].append({"name": "../../victim", "bytes": 1, "sha256": ""})
    (folder / RECORD).write_text(json.dumps(data))
    with pytest.raises(ModelError):
        remove(folder)
    assert victim.exists()
