"""Repetition is forbidden, and noticed where it may not be forbidden."""

import random

import pytest

from ocr.engines.deepseek.guard import LoopDetector, NGramGuard


def tail_of(tokens, **settings):
    detector = LoopDetector(**settings)
    for place, token in enumerate(tokens):
        repeated = detector.add(token)
        if repeated is not None:
            return place + 1 - repeated
    return None


@pytest.mark.parametrize("period", [1, 2, 7, 60, 300])
def test_a_loop_is_found_and_its_first_round_kept(period):
    text = [1000 + place for place in range(50)]
    loop = [5000 + place for place in range(period)]
    assert tail_of(text + loop * (400 // period + 5)) == 50 + period


def test_a_table_of_alike_rows_is_no_loop():
    rows = [token for row in range(60) for token in (1, 2, 100 + row, 3, 4, 500 + row * 7, 5)]
    assert tail_of(rows) is None


def test_a_few_repetitions_are_no_loop():
    assert tail_of([7, 8, 9] * 20 + list(range(100))) is None


def test_random_text_is_no_loop():
    numbers = random.Random(1)
    assert tail_of([numbers.randrange(200) for _ in range(5000)]) is None


def reference(tokens, size, window, exempt):
    """The published processor, token by token."""
    if len(tokens) < size:
        return set()
    banned = set()
    prefix = tokens[len(tokens) - size + 1 :]
    for start in range(max(0, len(tokens) - window), len(tokens) - size + 1):
        gram = tokens[start : start + size]
        if gram[:-1] == prefix:
            banned.add(gram[-1])
    return banned - set(exempt)


@pytest.mark.parametrize(("size", "window"), [(2, 10), (3, 20), (4, 90), (5, 5)])
def test_the_guard_forbids_what_the_published_one_forbids(size, window):
    torch = pytest.importorskip("torch")
    numbers = random.Random(size)
    guard = NGramGuard(size, window, exempt=(2,))
    for length in [1, 2, 3, 5, 17, 64, 200]:
        rows = [[numbers.randrange(4) for _ in range(length)] for _ in range(3)]
        history = torch.zeros((3, 256), dtype=torch.long)
        history[:, :length] = torch.tensor(rows)
        lengths = torch.full((3,), length)
        logits = guard.forbid(torch.zeros(3, 6), history, lengths)
        for row, tokens in enumerate(rows):
            banned = set((logits[row] == float("-inf")).nonzero().flatten().tolist())
            assert banned == reference(tokens, size, window, (2,)), (length, tokens)
