"""The GPU paths against the plain ones, on a tiny random model."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

from ocr.engines.deepseek.cache import CacheShape  # noqa: E402  # needs torch
from ocr.engines.deepseek.generate import Bounds, Generator  # noqa: E402
from ocr.engines.deepseek.guard import NGramGuard  # noqa: E402
from ocr.engines.deepseek.model import Placement, check_model, load_model  # noqa: E402
from ocr.engines.deepseek.preprocess import cut  # noqa: E402
from tests.gpu import models  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    models.save_tiny(path)
    return path


def placed(folder: Path, **facts: object) -> object:
    with torch.no_grad():
        return load_model(check_model(folder), Placement(device="cuda", **facts))


@pytest.mark.parametrize("window", [5, 64])
def test_fused_kernels_give_the_plain_logits(folder: Path, window: int) -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    plain, fused = placed(folder), placed(folder, kernels=True)
    sizes = plain.sizes
    shape = CacheShape(sizes.layers, 1, sizes.heads, sizes.head_dim, 160, window)
    ids = torch.randint(4, 288, (100,), device="cuda")
    caches = []
    with torch.no_grad():
        for model in (plain, fused):
            generator = Generator(model.decoder, shape)
            generator.start(0, ids, model.decoder.embed(ids))
            caches.append(generator)
        for _ in range(40):
            token = caches[0].current.clone()
            expected = plain.decoder.step(token, caches[0].cache)
            got = fused.decoder.step(token, caches[1].cache)
            assert torch.allclose(got, expected, atol=2e-4, rtol=1e-4)
            caches[0].current.copy_(expected.argmax(-1))


@pytest.mark.parametrize("rows", [1, 3])
def test_a_captured_step_writes_the_same_tokens(folder: Path, rows: int) -> None:
    # Several rows take grouped_mm, which wants bf16; the host loop cannot be captured.
    facts = {} if rows == 1 else {"dtype": "bfloat16", "grouped": True}
    model = placed(folder, kernels=True, **facts)
    sizes = model.sizes
    shape = CacheShape(sizes.layers, rows, sizes.heads, sizes.head_dim, 160, 32)
    texts = []
    with torch.no_grad():
        for graph in (False, True):
            generator = Generator(model.decoder, shape, guard=NGramGuard(4, 30), graph=graph)
            for row in range(rows):
                torch.manual_seed(row)
                ids = torch.randint(4, 288, (60 + 20 * row,), device="cuda")
                generator.start(row, ids, model.decoder.embed(ids))
            generator.run(Bounds(max_tokens=120), eos=-1)
            ends = [generator.history[row, 60 + 20 * row :][:120].tolist() for row in range(rows)]
            texts.append(ends)
    assert texts[0] == texts[1]


def test_captured_vision_is_bit_identical(folder: Path) -> None:
    from tests.benchmarks.gpu_page import page_pixels

    page = cut(page_pixels())
    plain = placed(folder, dtype="bfloat16")
    captured = placed(folder, dtype="bfloat16", graphs=True)
    with torch.no_grad():
        first = plain.vision.features(page)
        assert torch.equal(captured.vision.features(page), first)
        assert torch.equal(captured.vision.features(page), first)
