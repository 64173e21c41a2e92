"""The runtime computes what the stock classes compute, on tiny random weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ocr import EngineUnavailable  # noqa: E402  # what follows needs torch
from ocr.engines.deepseek.cache import CacheShape  # noqa: E402
from ocr.engines.deepseek.generate import Bounds, Generator, Stop, best_token  # noqa: E402
from ocr.engines.deepseek.guard import LoopDetector, NGramGuard  # noqa: E402
from ocr.engines.deepseek.model import Placement, check_model, load_model  # noqa: E402
from ocr.engines.deepseek.preprocess import cut, normalise  # noqa: E402
from ocr.engines.deepseek.upstream import tile_grid  # noqa: E402
from tests.gpu import models  # noqa: E402

WORDS = "\nRead."


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("tiny")
    return folder, models.save_tiny(folder)


@pytest.fixture(scope="module")
def model(tiny: tuple[Path, Any]) -> Any:
    return load_model(check_model(tiny[0]), Placement())


@pytest.fixture
def stuck(tiny: tuple[Path, Any]) -> Any:
    """A model that says one token for ever."""
    looping = load_model(check_model(tiny[0]), Placement())
    looping.decoder.head.weight.zero_()
    return looping


def noise(width: int, height: int) -> Any:
    rng = np.random.default_rng(width)
    small = rng.integers(0, 256, (height // 10, width // 10, 3), dtype=np.uint8)
    return small.repeat(10, 0).repeat(10, 1)


def generator(model: Any, window: int = 256, **settings: Any) -> Generator:
    sizes = model.sizes
    shape = CacheShape(sizes.layers, 1, sizes.heads, sizes.head_dim, 80, window)
    return Generator(model.decoder, shape, **settings)


def prompt_ids(count: int = 50) -> Any:
    return torch.randint(4, 288, (count,), generator=torch.Generator().manual_seed(count))


def written(model: Any, ids: Any, count: int, **settings: Any) -> list[int]:
    reader = generator(model, **settings)
    reader.start(0, ids, model.decoder.embed(ids))
    return reader.run(Bounds(max_tokens=count), eos=-1).tokens


# -- vision ---------------------------------------------------------------


@pytest.mark.parametrize("size", [(700, 500), (500, 1000), (1000, 760)])
def test_pixels_features_and_logits_equal_the_stock_model(tiny, model, size):
    from transformers import AutoTokenizer, DeepseekOcr2ImageProcessorPil, DeepseekOcr2Processor

    folder, stock = tiny
    pixels = noise(*size)
    page = cut(pixels)
    processor = DeepseekOcr2Processor(
        DeepseekOcr2ImageProcessorPil(), AutoTokenizer.from_pretrained(folder)
    )
    given = processor(images=Image.fromarray(pixels), text="<image>" + WORDS, return_tensors="pt")
    view = normalise(torch.as_tensor(page.view[None]), torch.float32)
    tiles = normalise(torch.as_tensor(page.tiles), torch.float32)
    assert torch.equal(view, given["pixel_values"])
    local = given.get("pixel_values_local")
    assert len(page.tiles) == (0 if local is None else len(local))
    assert local is None or torch.equal(tiles, local)
    ids = torch.tensor(model.tokenizer.prompt(WORDS, page.tokens))
    assert torch.equal(ids, given["input_ids"][0])
    assert ids[0] == 0

    features = model.vision.features(page)
    with torch.no_grad():
        one_by_one = [
            stock.get_image_features(view, tiles[place : place + 1], [1]).pooler_output[0][:144]
            for place in range(len(tiles))
        ]
        whole = stock.get_image_features(view).pooler_output[0]
        expected = stock(**given).logits[0]
    assert torch.equal(features, torch.cat([*one_by_one, whole]))

    sizes = model.sizes
    shape = CacheShape(sizes.layers, 1, sizes.heads, sizes.head_dim, len(ids), 8)
    reader = Generator(model.decoder, shape)
    embedded = model.decoder.embed(ids)
    embedded[1 : 1 + page.tokens] = features
    row = torch.zeros(1, dtype=torch.long)
    got = model.decoder.read_prompt(embedded, reader.cache, row, every=True)
    assert torch.allclose(got, expected, atol=1e-4, rtol=1e-4)


def test_pages_are_cut_as_the_stock_processor_cuts_them():
    from transformers.models.deepseek_ocr2.image_processing_pil_deepseek_ocr2 import (
        get_optimal_tiled_canvas,
    )

    sides = np.random.default_rng(1).integers(300, 5000, (400, 2))
    for width, height in [*sides.tolist(), (1654, 2339), (1536, 1536), (2000, 1000), (1000, 3000)]:
        expected = get_optimal_tiled_canvas((height, width), (768, 768), 2, 6)
        if max(width, height) > 768:
            assert tile_grid(width, height) == expected


# -- decoding ---------------------------------------------------------------


def test_tokens_equal_stock_generate(tiny, model):
    ids = prompt_ids()
    with torch.no_grad():
        expected = tiny[1].generate(
            inputs_embeds=model.decoder.embed(ids)[None],
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            max_new_tokens=60,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=2,
        )
    assert written(model, ids, 60) == expected[0].tolist()


@pytest.mark.parametrize("window", [1, 7, 32])
def test_a_window_equals_full_attention_masked_to_it(tiny, model, window):
    """Prompt always visible, generated tokens only while in the window."""
    ids = prompt_ids(40)
    tokens = written(model, ids, 70, window=window)
    everything = torch.cat([ids, torch.tensor(tokens)])
    place = torch.arange(len(everything))
    query, key = place[:, None], place[None]
    visible = (key <= query) & ((key < len(ids)) | (query - key < window))
    mask = torch.where(visible, 0.0, torch.finfo(torch.float32).min)[None, None]
    with torch.no_grad():
        hidden = tiny[1].model.language_model(
            inputs_embeds=model.decoder.embed(everything)[None], attention_mask=mask
        )[0]
        expected = tiny[1].lm_head(hidden)[0].argmax(-1)
    assert expected[len(ids) - 1 : -1].tolist() == tokens


def test_a_wide_window_changes_nothing(model):
    ids = prompt_ids(33)
    assert written(model, ids, 90, window=90) == written(model, ids, 90, window=400)


def test_rows_do_not_see_each_other(model):
    sizes = model.sizes
    shape = CacheShape(sizes.layers, 3, sizes.heads, sizes.head_dim, 80, 16)
    reader = Generator(model.decoder, shape)
    prompts = [prompt_ids(count) for count in (20, 45, 70)]
    for row, ids in enumerate(prompts):
        reader.start(row, ids, model.decoder.embed(ids))
    reader.steps(39)
    for row, ids in enumerate(prompts):
        together = reader.history[row, len(ids) :][:40].tolist()
        assert together == written(model, ids, 40, window=16)


def test_a_row_can_be_used_again(model):
    reader = generator(model, 16)
    for count in (30, 55, 30):
        ids = prompt_ids(count)
        reader.start(0, ids, model.decoder.embed(ids))
        again = reader.run(Bounds(max_tokens=40), eos=-1).tokens
        assert again == written(model, ids, 40, window=16)


def test_the_guard_prevents_repeated_ngrams(model):
    tokens = written(model, prompt_ids(), 150, guard=NGramGuard(3, 200))
    grams = [tuple(tokens[place : place + 3]) for place in range(148)]
    assert len(grams) == len(set(grams))


def test_a_loop_ends_the_text(stuck):
    model, ids = stuck, prompt_ids()
    reader = generator(model)
    reader.start(0, ids, model.decoder.embed(ids))
    ended = reader.run(Bounds(max_tokens=900), eos=-1, detector=LoopDetector())
    assert ended.stop is Stop.LOOP
    assert ended.tokens == [0]


def test_the_end_token_ends_the_text(model):
    ids = prompt_ids()
    tokens = written(model, ids, 60)
    end = tokens[20]
    reader = generator(model)
    reader.start(0, ids, model.decoder.embed(ids))
    result = reader.run(Bounds(max_tokens=60), eos=end)
    assert result.stop is Stop.END
    assert result.tokens == tokens[: tokens.index(end)]


def test_the_time_limit_ends_the_text(model):
    ticks = iter(range(10_000))
    reader = generator(model, clock=lambda: float(next(ticks)))
    ids = prompt_ids()
    reader.start(0, ids, model.decoder.embed(ids))
    result = reader.run(Bounds(max_tokens=500, max_seconds=4.0), eos=-1)
    assert result.stop is Stop.TIME
    assert 0 < len(result.tokens) < 200


def test_a_prompt_that_does_not_fit_is_refused(model):
    ids = prompt_ids(81)
    with pytest.raises(ValueError, match="81 tokens"):
        generator(model).start(0, ids, model.decoder.embed(ids))


def test_the_best_token_is_found_in_two_rounds():
    logits = torch.randn(5, 1280, generator=torch.Generator().manual_seed(3))
    assert torch.equal(best_token(logits), logits.argmax(-1))


# -- checkpoints ---------------------------------------------------------------


def test_both_layouts_load_to_the_same_tensors(tiny, model, tmp_path):
    models.save_native(tiny[1], tmp_path)
    other = load_model(check_model(tmp_path), Placement())
    ids = prompt_ids()
    assert written(other, ids, 30) == written(model, ids, 30)
    page = cut(noise(300, 200))
    assert torch.equal(other.vision.features(page), model.vision.features(page))


def test_the_original_configuration_is_understood(tiny):
    from ocr.engines.deepseek import upstream

    language = {
        "vocab_size": 129280, "hidden_size": 1280, "intermediate_size": 6848,
        "num_hidden_layers": 12, "num_attention_heads": 10, "num_key_value_heads": 10,
        "max_position_embeddings": 8192, "n_routed_experts": 64, "n_shared_experts": 2,
        "num_experts_per_tok": 6, "moe_intermediate_size": 896, "n_group": 1,
        "topk_group": 1, "topk_method": "greedy", "bos_token_id": 0, "eos_token_id": 1,
        "first_k_dense_replace": 1,
    }  # fmt: skip
    from ocr.engines.deepseek.plan import PUBLISHED

    folder = tiny[0].parent / "original"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(
        json.dumps({"model_type": "deepseek_vl_v2", "language_config": language})
    )
    assert upstream.text_sizes(upstream.read_config(folder)) == PUBLISHED


def changed(tiny: tuple[Path, Any], target: Path, change: Any) -> Path:
    from safetensors.torch import load_file, save_file

    shutil.copytree(tiny[0], target, dirs_exist_ok=True)
    tensors = load_file(target / "model.safetensors")
    change(tensors)
    save_file(tensors, target / "model.safetensors")
    return target


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("lm_head.weight"), r"lacks 1 of \d+ tensors.*lm_head"),
        (lambda t: t.update(extra=torch.zeros(2)), "holds 1 tensors that"),
        (lambda t: t.update({"lm_head.weight": torch.zeros(3, 3)}), "do not belong together"),
        (
            lambda t: t.update({"lm_head.weight": torch.zeros(288, 64, dtype=torch.int8)}),
            "quantized in a form",
        ),
        (
            lambda t: t.pop("model.layers.1.mlp.experts.3.up_proj.weight"),
            r"experts\.3\.up_proj",
        ),
    ],
)
def test_a_wrong_checkpoint_is_said_before_loading(tiny, tmp_path, change, message):
    folder = changed(tiny, tmp_path / "wrong", change)
    with pytest.raises(EngineUnavailable, match=message):
        check_model(folder)


def test_a_configuration_of_another_model_is_said(tiny, tmp_path):
    folder = tmp_path / "other"
    shutil.copytree(tiny[0], folder)
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["topk_method"] = "group_limited_greedy"
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(EngineUnavailable, match="grouped expert choice"):
        check_model(folder)
