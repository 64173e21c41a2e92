"""What each kind of graphics card is asked to do."""

from dataclasses import replace

import pytest

from ocr import EngineUnavailable
from ocr.engines.deepseek.plan import (
    PUBLISHED,
    QUANTIZED_WEIGHTS_GB,
    DeviceFacts,
    Wishes,
    make_plan,
)

T4 = DeviceFacts("Tesla T4", (7, 5), 15.8, 15.4)
RTX_3060 = DeviceFacts("RTX 3060", (8, 6), 12.5, 11.9, flash=True)
RTX_4060 = DeviceFacts("RTX 4060", (8, 9), 8.2, 7.4)
GTX_6GB = DeviceFacts("GTX 1660", (7, 5), 6.2, 5.9)
RTX_4090 = DeviceFacts("RTX 4090", (8, 9), 25.3, 24.6)
A2 = DeviceFacts("A2", (8, 6), 15.8, 15.4)
H200 = DeviceFacts("H200", (9, 0), 150.0, 149.0)
QUANTIZED = Wishes(weights_gb=QUANTIZED_WEIGHTS_GB)


@pytest.mark.parametrize("facts", [RTX_3060, RTX_4090, A2, H200], ids=lambda f: f.name)
def test_ampere_and_newer_use_bf16_and_grouped_experts(facts):
    plan = make_plan(facts, PUBLISHED)
    assert (plan.dtype, plan.experts, plan.graphs) == ("bfloat16", "grouped_mm", True)
    assert plan.tiles_at_once == 6
    assert plan.peak_gb <= plan.budget_gb


def test_a_t4_uses_fp16_and_plain_attention():
    plan = make_plan(replace(T4, flash=True), PUBLISHED)
    assert (plan.dtype, plan.attention, plan.experts) == ("float16", "sdpa", "loop")
    assert plan.kernels


def test_flash_attention_is_taken_where_it_is_installed():
    assert make_plan(RTX_3060, PUBLISHED).attention == "flash_attention_2"
    assert make_plan(RTX_4090, PUBLISHED).attention == "sdpa"


@pytest.mark.parametrize("facts", [RTX_4060, GTX_6GB], ids=lambda f: f.name)
def test_small_cards_cannot_hold_16_bit_weights_and_are_told_what_fits(facts):
    with pytest.raises(EngineUnavailable, match=r"GB free.*needs at least 7\.\d GB.*quantized"):
        make_plan(facts, PUBLISHED)
    assert make_plan(facts, PUBLISHED, QUANTIZED).peak_gb < 4.0


def test_a_tight_card_encodes_fewer_tiles_at_once():
    roomy = make_plan(RTX_4090, PUBLISHED)
    tight = make_plan(RTX_4090, PUBLISHED, Wishes(vram_budget_gb=7.8))
    assert tight.tiles_at_once < roomy.tiles_at_once
    assert tight.peak_gb <= 7.8 - 0.45
    assert tight.kv_window == 512


def test_the_window_shrinks_when_nothing_else_helps():
    plan = make_plan(RTX_4090, PUBLISHED, Wishes(vram_budget_gb=7.75, kv_window=None))
    assert plan.tiles_at_once == 1
    assert plan.kv_window in (512, 256, 128)


def test_a_budget_below_the_weights_names_the_budget():
    with pytest.raises(EngineUnavailable, match="vram_budget_gb 2"):
        make_plan(H200, PUBLISHED, Wishes(vram_budget_gb=2.0))


def test_more_pages_at_once_are_given_up_before_the_window():
    wishes = Wishes(decode_batch=16, vram_budget_gb=8.5)
    plan = make_plan(H200, PUBLISHED, wishes)
    assert 1 < plan.decode_batch < 16
    assert plan.kv_window == 512


def test_a_processor_reads_in_fp32_without_kernels():
    plan = make_plan(DeviceFacts("cpu", None, 32.0, 30.0, triton=False), PUBLISHED)
    assert (plan.dtype, plan.kernels, plan.graphs) == ("float32", False, False)


def test_without_triton_nothing_is_captured():
    plan = make_plan(replace(H200, triton=False), PUBLISHED)
    assert (plan.kernels, plan.graphs) == (False, False)


def test_the_summary_says_what_was_planned():
    text = make_plan(H200, PUBLISHED).summary()
    for part in ("H200", "bfloat16", "grouped_mm", "window 512"):
        assert part in text


def test_a_budget_is_held_by_the_allocator_too():
    assert make_plan(H200, PUBLISHED).limit_share is None
    plan = make_plan(H200, PUBLISHED, Wishes(vram_budget_gb=9.0))
    assert plan.limit_share is not None
    assert plan.peak_gb < plan.limit_share * H200.total_gb < 9.0
