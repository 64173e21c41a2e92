"""Pages through the whole engine, on tiny random weights and a processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ocr import (  # noqa: E402  # what follows needs torch
    BlockKind,
    EngineOutOfMemory,
    EngineUnavailable,
    MarkdownOptions,
    PageImage,
    PageStatus,
    ReadOptions,
    page_from_dict,
    page_to_dict,
    render_markdown,
)
from ocr.engines.deepseek.engine import DeepseekEngine  # noqa: E402
from ocr.engines.deepseek.generate import Generated, Stop  # noqa: E402
from ocr.engines.deepseek.reading import PageReader  # noqa: E402
from ocr.engines.deepseek.vision import VisionEncoder  # noqa: E402
from tests.gpu import models  # noqa: E402

OPTIONS = ReadOptions(pre_correction=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    models.save_tiny(path)
    return path


@pytest.fixture(scope="module")
def engine(folder: Path) -> Any:
    made = DeepseekEngine(model_dir=folder, device="cpu", max_tokens=30)
    made.load()
    return made


def image(index: int = 0, width: int = 400, height: int = 300) -> PageImage:
    pixels = np.full((height, width, 3), 255, np.uint8)
    pixels[50:60, 40:300] = 0
    pixels[100 + index : 110 + index, 40:200] = 0
    return PageImage(index, (width, height), pixels, 100.0)


def says(engine: Any, monkeypatch: pytest.MonkeyPatch, *answers: tuple[str, Stop]) -> None:
    """Let the model say these things, one per attempt: real weights cannot be had here."""
    waiting = list(answers)

    def read(self: PageReader, page: Any, rung: Any, **limits: Any) -> Generated:
        text, stop = waiting.pop(0)
        tokens = self._model.tokenizer._inner.encode(text, add_special_tokens=False)
        return Generated(tokens, stop, 0.1)

    monkeypatch.setattr(PageReader, "read", read)


def test_random_weights_write_a_page_and_it_survives_the_journal(engine):
    beats = []
    page = engine.read(image(), OPTIONS, lambda: beats.append(1))
    assert page.engine == "deepseek"
    assert page.status is PageStatus.TRUNCATED
    assert "longer" in page.reason
    assert beats
    assert page_from_dict(page_to_dict(page)) == page
    assert "<!-- page 1 -->" in render_markdown([page], MarkdownOptions())


def test_the_same_page_twice_gives_the_same_text(engine):
    first, second = (engine.read(image(), OPTIONS) for _ in range(2))
    assert first.raw == second.raw


def test_what_the_model_says_becomes_markdown_and_figures(engine, monkeypatch, tmp_path):
    says(
        engine,
        monkeypatch,
        (
            "<|ref|>title<|/ref|><|det|>[[0, 0, 999, 99]]<|/det|>\n# Invoice\n\n"
            "<|ref|>image<|/ref|><|det|>[[99, 150, 760, 210]]<|/det|>\n\n"
            "<|ref|>table<|/ref|><|det|>[[0, 500, 999, 999]]<|/det|>\n"
            "<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2 * 3</td></tr></table>\n\n"
            "<|ref|>equation<|/ref|><|det|>[[0, 400, 999, 450]]<|/det|>\n\\[ a^2 \\]",
            Stop.END,
        ),
    )
    options = ReadOptions(pre_correction=False, assets_dir=tmp_path / "x.assets")
    page = engine.read(image(), options)
    assert page.status is PageStatus.OK
    figure = next(block for block in page.blocks if block.kind is BlockKind.FIGURE)
    assert (tmp_path / "x.assets" / figure.asset).is_file()
    assert figure.bbox.left == pytest.approx(39.6, abs=0.1)
    text = render_markdown([page], MarkdownOptions(assets_name="x.assets"))
    for part in ("# Invoice", f"x.assets/{figure.asset}", "| A", "$$\na^2\n$$"):
        assert part in text
    assert "<|ref|>" in page.raw


def test_boxes_come_back_in_the_pixels_of_a_turned_scan(engine, monkeypatch):
    from ocr.engines.deepseek import valve

    says(
        engine,
        monkeypatch,
        ("<|ref|>text<|/ref|><|det|>[[0, 0, 999, 333]]<|/det|>\nwords", Stop.END),
    )
    # The scan lies turned clockwise by 90 degrees.
    turned = np.array([0, 1, 0, 0], np.float32)
    monkeypatch.setattr(engine._loaded.valve, "_turn_scores", lambda scan: turned)
    monkeypatch.setattr(valve, "skew_deg", lambda grey: 0.0)
    page = engine.read(image(), ReadOptions())
    box = page.blocks[0].bbox
    # The upper third of the upright page is the right third of this scan.
    assert box.left == pytest.approx(400 * 2 / 3, abs=1.5)
    assert (box.top, box.right, box.bottom) == pytest.approx((0, 400, 300), abs=1.5)


def test_a_page_that_loops_is_read_again_at_another_scale(engine, monkeypatch):
    says(engine, monkeypatch, ("abc", Stop.LOOP), ("whole text", Stop.END))
    page = engine.read(image(), OPTIONS)
    assert page.status is PageStatus.OK
    assert page.raw == "whole text"
    assert any("another scale" in note for note in page.notes)


def test_a_page_that_loops_twice_is_delivered_truncated(engine, monkeypatch):
    says(engine, monkeypatch, ("the longer text", Stop.LOOP), ("short", Stop.TIME))
    page = engine.read(image(), OPTIONS)
    assert page.status is PageStatus.TRUNCATED
    assert page.raw == "the longer text"
    assert "repeat" in page.reason
    assert "the longer text" in render_markdown([page], MarkdownOptions())


def fail_times(monkeypatch: pytest.MonkeyPatch, count: int) -> list[int]:
    """Let the vision encoder run out of memory this often."""
    original = VisionEncoder.features
    left = [count]

    def features(self: VisionEncoder, page: Any) -> Any:
        if left[0] > 0:
            left[0] -= 1
            raise torch.OutOfMemoryError("CUDA out of memory (injected)")
        return original(self, page)

    monkeypatch.setattr(VisionEncoder, "features", features)
    return left


def test_out_of_memory_steps_down_and_full_size_is_tried_again(engine, monkeypatch):
    left = fail_times(monkeypatch, 1)
    stepped = engine.read(image(), OPTIONS)
    assert any("out of GPU memory" in note for note in stepped.notes)
    assert left == [0]
    after = engine.read(image(), OPTIONS)
    assert not any("memory" in note for note in after.notes)


def test_no_memory_at_all_is_an_error_the_daemon_knows(engine, monkeypatch):
    fail_times(monkeypatch, 99)
    with pytest.raises(EngineOutOfMemory, match="Page 1 does not fit"):
        engine.read(image(), OPTIONS)


def test_no_memory_at_all_can_fall_back_to_the_processor(folder, monkeypatch):
    engine = DeepseekEngine(model_dir=folder, device="cpu", max_tokens=5, cpu_fallback=True)
    engine.load()
    fail_times(monkeypatch, 99)
    page = engine.read(image(), OPTIONS)
    assert page.engine == "rapid"
    assert any("CPU engine" in note for note in page.notes)
    engine.unload()


def test_unloaded_and_loaded_again_reads_the_same(folder):
    engine = DeepseekEngine(model_dir=folder, device="cpu", max_tokens=5)
    first = engine.read(image(), OPTIONS)
    engine.unload()
    assert engine.describe().detail == "not loaded"
    assert engine.read(image(), OPTIONS).raw == first.raw
    assert "fp32" in engine.describe().detail or "float32" in engine.describe().detail


def test_a_plan_can_be_asked_for_without_loading(folder):
    engine = DeepseekEngine(model_dir=folder, device="cpu")
    assert "float32" in engine.plan().summary()
    assert engine.describe().detail == "not loaded"


@pytest.mark.parametrize("place", [None, "nowhere"])
def test_without_weights_the_message_says_what_to_do(place, tmp_path):
    engine = DeepseekEngine(model_dir=place and tmp_path / place, device="cpu")
    with pytest.raises(EngineUnavailable, match="scanmd model fetch"):
        engine.load()


def test_a_strip_is_a_page_error_not_a_crash(engine):
    from ocr import PageError

    with pytest.raises(PageError, match="strip"):
        engine.read(PageImage(0, (9000, 20), np.zeros((20, 9000, 3), np.uint8)), OPTIONS)


def test_a_real_document_becomes_markdown(folder, tmp_path):
    """Save, load, pages, `.mmd`: the way the daemon goes."""
    from PIL import Image

    from ocr import load_engine, read_document

    sheet = Image.fromarray(image().pixels)
    scan = tmp_path / "scan.tiff"
    sheet.save(scan, save_all=True, append_images=[sheet], dpi=(100, 100))
    engine = load_engine("deepseek", model_dir=folder, device="cpu", max_tokens=20)
    pages = list(read_document(scan, engine, ReadOptions()))
    assert [page.page_index for page in pages] == [0, 1]
    assert {page.engine for page in pages} == {"deepseek"}
    text = render_markdown(pages, MarkdownOptions())
    assert text.index("<!-- page 1 -->") < text.index("<!-- page 2 -->")
