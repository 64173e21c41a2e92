"""The whole engine on a GPU, with a tiny random model."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

from ocr.document import PageStatus  # noqa: E402  # needs torch
from ocr.engines.base import PageImage  # noqa: E402
from ocr.engines.deepseek.engine import DeepseekEngine  # noqa: E402
from ocr.engines.deepseek.vision import VisionEncoder  # noqa: E402
from ocr.options import ReadOptions  # noqa: E402
from tests.gpu import models  # noqa: E402

OPTIONS = ReadOptions(pre_correction=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    models.save_tiny(path)
    return path


def image(index: int, width: int = 1000, height: int = 1400) -> PageImage:
    rng = np.random.default_rng(index)
    small = rng.integers(0, 256, (height // 10, width // 10, 3), dtype=np.uint8)
    return PageImage(index, (width, height), small.repeat(10, 0).repeat(10, 1), 100.0)


def test_memory_after_many_pages_is_that_after_one(folder: Path) -> None:
    engine = DeepseekEngine(model_dir=folder, max_tokens=200)
    shapes = [(1000, 1400), (1400, 1000), (700, 500), (900, 900)]
    taken = []
    for number in range(24):
        page = engine.read(image(number, *shapes[number % 4]), OPTIONS)
        assert page.status in (PageStatus.OK, PageStatus.TRUNCATED)
        if number % 4 == 3:
            taken.append((torch.cuda.memory_allocated(), torch.cuda.memory_reserved()))
    assert taken[-1][0] <= taken[1][0] * 1.01
    assert taken[-1][1] <= taken[1][1] * 1.01
    engine.unload()


def test_captured_pages_say_what_fresh_ones_say(folder: Path) -> None:
    engine = DeepseekEngine(model_dir=folder, max_tokens=200)
    fresh = [engine.read(image(number), OPTIONS).raw for number in range(3)]
    again = [engine.read(image(number), OPTIONS).raw for number in range(3)]
    assert again == fresh
    engine.unload()


def test_out_of_memory_steps_down_then_full_size_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = DeepseekEngine(model_dir=folder, max_tokens=100)
    before = engine.read(image(0), OPTIONS)
    original = VisionEncoder.features
    left = [2]

    def features(self: VisionEncoder, page: object) -> object:
        if left[0]:
            left[0] -= 1
            torch.empty(10**14, dtype=torch.uint8, device="cuda")  # a real failure
        return original(self, page)

    monkeypatch.setattr(VisionEncoder, "features", features)
    stepped = engine.read(image(0), OPTIONS)
    assert sum("out of GPU memory" in note for note in stepped.notes) == 2
    after = engine.read(image(0), OPTIONS)
    assert after.raw == before.raw
    engine.unload()


def test_an_older_card_reads_in_fp16(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from ocr.engines.deepseek import device

    facts = device.device_facts

    def like_a_t4(name: str = "auto") -> object:
        return replace(facts(name), capability=(7, 5))

    monkeypatch.setattr(device, "device_facts", like_a_t4)
    engine = DeepseekEngine(model_dir=folder, max_tokens=200)
    assert "float16" in engine.plan().summary()
    first, again = (engine.read(image(1), OPTIONS).raw for _ in range(2))
    assert first == again
    assert first
    engine.unload()


def test_unloading_gives_the_memory_back(folder: Path) -> None:
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    engine = DeepseekEngine(model_dir=folder, max_tokens=50)
    engine.read(image(0), OPTIONS)
    assert torch.cuda.memory_allocated() > before
    engine.unload()
    assert torch.cuda.memory_allocated() <= before + 1_000_000
