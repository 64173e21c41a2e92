"""A model folder is judged by its headers, before anything is loaded."""

import json
import struct
from pathlib import Path

import pytest

from ocr import EngineUnavailable, inspect_model
from ocr.engines.deepseek.checkpoint import INDEX, open_checkpoint
from ocr.engines.deepseek.weights import native_key


def write_file(path: Path, tensors: dict[str, list[int]]) -> None:
    header, offset = {}, 0
    for key, shape in tensors.items():
        size = 2
        for side in shape:
            size *= side
        header[key] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(offset))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_file(tmp_path / "a.safetensors", {"lm_head.weight": [4, 2], "x": [3]})
    write_file(tmp_path / "b.safetensors", {"y": [5, 5]})
    (tmp_path / "config.json").write_text('{"model_type": "deepseek_ocr2"}')
    (tmp_path / "tokenizer.json").write_text("{}")
    return tmp_path


def test_a_whole_folder_is_counted(folder):
    found = inspect_model(folder)
    assert (found.files, found.tensors, found.bytes) == (2, 3, 2 * (8 + 3 + 25))


@pytest.mark.parametrize("cut", [1, 40, 100])
def test_a_cut_off_file_is_named(folder, cut):
    file = folder / "b.safetensors"
    file.write_bytes(file.read_bytes()[:-cut])
    with pytest.raises(EngineUnavailable, match=r"b\.safetensors"):
        inspect_model(folder)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00" * 4, b"\xff" * 64, struct.pack("<Q", 2) + b"[]", b"\x02" + b"\x00" * 7 + b"{{"],
)
def test_what_is_no_safetensors_file_is_named(folder, content):
    (folder / "b.safetensors").write_bytes(content)
    with pytest.raises(EngineUnavailable, match=r"b\.safetensors"):
        inspect_model(folder)


def test_other_weight_formats_are_refused(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(EngineUnavailable, match="no safetensors"):
        open_checkpoint(tmp_path)


def test_a_file_the_index_names_must_be_there(folder):
    (folder / INDEX).write_text(json.dumps({"weight_map": {"y": "c.safetensors"}}))
    with pytest.raises(EngineUnavailable, match=r"lacks c\.safetensors"):
        inspect_model(folder)


def test_an_index_cannot_point_outside_its_folder(folder):
    (folder / INDEX).write_text(json.dumps({"weight_map": {"y": "../b.safetensors"}}))
    with pytest.raises(EngineUnavailable, match="outside its folder"):
        inspect_model(folder)


def test_the_same_tensor_in_two_files_is_refused(folder):
    write_file(folder / "b.safetensors", {"x": [3]})
    with pytest.raises(EngineUnavailable, match="mixed"):
        inspect_model(folder)


def test_another_model_is_refused(folder):
    (folder / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(EngineUnavailable, match="does not hold DeepSeek-OCR-2"):
        inspect_model(folder)


def test_a_missing_folder_says_what_to_do(tmp_path):
    with pytest.raises(EngineUnavailable, match="scanmd model fetch"):
        inspect_model(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("original", "native"),
    [
        (
            "model.layers.3.self_attn.q_proj.weight",
            "model.language_model.layers.3.self_attn.q_proj.weight",
        ),
        (
            "model.sam_model.blocks.0.norm1.bias",
            "model.vision_tower.sam_encoder.layers.0.layer_norm1.bias",
        ),
        ("model.view_seperator", "model.view_separator"),
        ("model.projector.layers.weight", "model.multi_modal_projector.weight"),
        ("lm_head.weight", "lm_head.weight"),
        ("model.language_model.norm.weight", "model.language_model.norm.weight"),
    ],
)
def test_original_names_become_native_ones(original, native):
    assert native_key(original) == native
