"""Triton kernels for one token: a decode step reads every weight once.

Each kernel is bound by memory, so all of them are plain dot products over rows
held in registers; what would be separate small launches (norms, activations,
expert choice, rotary positions, cache writes) is done by every program for
itself, because repeating that costs less than another launch.
"""

# A kernel takes pointers and sizes one by one, and pointers have no type to state.
# ruff: noqa: PLR0913, PLR0915, PLR0917, ANN001, ANN201, ANN202
# triton.jit has no types.
# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def linear_kernel(
    x_ptr,
    norm_ptr,
    weight_ptr,
    residual_ptr,
    out_ptr,
    outputs,
    eps,
    INPUTS: tl.constexpr,
    NORM: tl.constexpr,
    RESIDUAL: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    BLOCK_IN: tl.constexpr,
):
    """Compute out = W norm(x) (+ residual) for one token, BLOCK_OUT rows of W a program.

    The norm's scale is common to the whole row, so it is applied to the sum:
    the weights can then be loaded before it is known.
    """
    rows = tl.program_id(0) * BLOCK_OUT + tl.arange(0, BLOCK_OUT)
    inside = rows < outputs
    total = tl.zeros((BLOCK_OUT,), tl.float32)
    squares = 0.0
    for start in tl.static_range(0, INPUTS, BLOCK_IN):
        columns = start + tl.arange(0, BLOCK_IN)
        valid = columns < INPUTS
        weight = tl.load(
            weight_ptr + rows[:, None].to(tl.int64) * INPUTS + columns[None, :],
            mask=inside[:, None] & valid[None, :],
            other=0.0,
        ).to(tl.float32)
        x = tl.load(x_ptr + columns, mask=valid, other=0.0).to(tl.float32)
        if NORM:
            squares += tl.sum(x * x)
            x *= tl.load(norm_ptr + columns, mask=valid, other=0.0).to(tl.float32)
        total += tl.sum(weight * x[None, :], axis=1)
    if NORM:
        total *= tl.rsqrt(squares / INPUTS + eps)
    if RESIDUAL:
        total += tl.load(residual_ptr + rows, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + rows, total.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def gated_kernel(
    x_ptr,
    norm_ptr,
    weight_ptr,
    out_ptr,
    inner,
    eps,
    INPUTS: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    BLOCK_IN: tl.constexpr,
):
    """Compute silu(gate) * up of norm(x), for a dense gate-over-up matrix (2 * inner, INPUTS)."""
    rows = tl.program_id(0) * BLOCK_OUT + tl.arange(0, BLOCK_OUT)
    value = _gated(
        x_ptr, norm_ptr, weight_ptr, weight_ptr + inner.to(tl.int64) * INPUTS, rows, rows < inner,
        eps, INPUTS, BLOCK_OUT, BLOCK_IN,
    )  # fmt: skip
    tl.store(out_ptr + rows, value, mask=rows < inner)


@triton.jit
def _gated(
    x_ptr,
    norm_ptr,
    gate_ptr,
    up_ptr,
    rows,
    inside,
    eps,
    INPUTS: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    BLOCK_IN: tl.constexpr,
):
    gate = tl.zeros((BLOCK_OUT,), tl.float32)
    up = tl.zeros((BLOCK_OUT,), tl.float32)
    squares = 0.0
    for start in tl.static_range(0, INPUTS, BLOCK_IN):
        columns = start + tl.arange(0, BLOCK_IN)
        valid = columns < INPUTS
        place = rows[:, None].to(tl.int64) * INPUTS + columns[None, :]
        mask = inside[:, None] & valid[None, :]
        gates = tl.load(gate_ptr + place, mask=mask, other=0.0).to(tl.float32)
        ups = tl.load(up_ptr + place, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + columns, mask=valid, other=0.0).to(tl.float32)
        squares += tl.sum(x * x)
        x *= tl.load(norm_ptr + columns, mask=valid, other=0.0).to(tl.float32)
        gate += tl.sum(gates * x[None, :], axis=1)
        up += tl.sum(ups * x[None, :], axis=1)
    scale = tl.rsqrt(squares / INPUTS + eps)
    gate *= scale
    return gate * tl.sigmoid(gate) * up * scale


@triton.jit
def choose_expert(
    logits_ptr,
    rank,
    EXPERTS: tl.constexpr,
    TOP_K: tl.constexpr,
):
    """Id and softmax share of the expert of this rank (0 is the strongest)."""
    index = tl.arange(0, EXPERTS)
    logits = tl.load(logits_ptr + index)
    top = tl.max(logits, axis=0)
    share = 1.0 / tl.sum(tl.exp(logits - top), axis=0)
    chosen = 0
    strength = 0.0
    for place in tl.static_range(TOP_K):
        best = tl.max(logits, axis=0)
        expert = tl.min(tl.where(logits == best, index, EXPERTS), axis=0)
        chosen = tl.where(place == rank, expert, chosen)
        strength = tl.where(place == rank, tl.exp(best - top) * share, strength)
        logits = tl.where(index == expert, float("-inf"), logits)
    return chosen, strength


@triton.jit
def experts_up_kernel(
    x_ptr,
    norm_ptr,
    logits_ptr,
    experts_ptr,
    shared_ptr,
    out_ptr,
    ids_ptr,
    shares_ptr,
    shared_inner,
    eps,
    scaling,
    INPUTS: tl.constexpr,
    INNER: tl.constexpr,
    EXPERTS: tl.constexpr,
    TOP_K: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    BLOCK_IN: tl.constexpr,
):
    """First half of a MoE layer: gated inner values of the chosen and shared experts.

    Grid: (blocks of rows, TOP_K + 1); the last column is the shared experts.
    Writes fp32 `out`: TOP_K * INNER routed values, then the shared ones; and the
    chosen ids and shares for `experts_down_kernel`.
    """
    slot = tl.program_id(1)
    block = tl.program_id(0)
    rows = block * BLOCK_OUT + tl.arange(0, BLOCK_OUT)
    if slot < TOP_K:
        if block * BLOCK_OUT < INNER:
            expert, share = choose_expert(logits_ptr, slot, EXPERTS, TOP_K)
            gate_ptr = experts_ptr + expert.to(tl.int64) * (2 * INNER * INPUTS)
            value = _gated(
                x_ptr, norm_ptr, gate_ptr, gate_ptr + INNER * INPUTS, rows, rows < INNER,
                eps, INPUTS, BLOCK_OUT, BLOCK_IN,
            )  # fmt: skip
            tl.store(out_ptr + slot * INNER + rows, value, mask=rows < INNER)
            if block == 0:
                tl.store(ids_ptr + slot, expert)
                tl.store(shares_ptr + slot, share * scaling)
    elif block * BLOCK_OUT < shared_inner:
        inside = rows < shared_inner
        value = _gated(
            x_ptr, norm_ptr, shared_ptr, shared_ptr + shared_inner * INPUTS, rows, inside,
            eps, INPUTS, BLOCK_OUT, BLOCK_IN,
        )  # fmt: skip
        tl.store(out_ptr + TOP_K * INNER + rows, value, mask=inside)


@triton.jit
def experts_down_kernel(
    inner_ptr,
    ids_ptr,
    shares_ptr,
    experts_ptr,
    shared_ptr,
    residual_ptr,
    out_ptr,
    outputs,
    INNER: tl.constexpr,
    SHARED: tl.constexpr,
    TOP_K: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    BLOCK_IN: tl.constexpr,
):
    """Second half: residual + shares of the experts' down projections + the shared one."""
    rows = tl.program_id(0) * BLOCK_OUT + tl.arange(0, BLOCK_OUT)
    inside = rows < outputs
    total = tl.load(residual_ptr + rows, mask=inside, other=0.0).to(tl.float32)
    for slot in tl.static_range(TOP_K):
        expert = tl.load(ids_ptr + slot).to(tl.int64)
        part = _rows_dot(
            experts_ptr + expert * outputs * INNER, inner_ptr + slot * INNER, rows, inside,
            INNER, BLOCK_OUT, BLOCK_IN,
        )  # fmt: skip
        total += part * tl.load(shares_ptr + slot)
    total += _rows_dot(
        shared_ptr, inner_ptr + TOP_K * INNER, rows, inside, SHARED, BLOCK_OUT, BLOCK_IN
    )
    tl.store(out_ptr + rows, total.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _rows_dot(
    weight_ptr,
    x_ptr,
    rows,
    inside,
    INPUTS: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    BLOCK_IN: tl.constexpr,
):
    total = tl.zeros((BLOCK_OUT,), tl.float32)
    for start in tl.static_range(0, INPUTS, BLOCK_IN):
        columns = start + tl.arange(0, BLOCK_IN)
        valid = columns < INPUTS
        weight = tl.load(
            weight_ptr + rows[:, None].to(tl.int64) * INPUTS + columns[None, :],
            mask=inside[:, None] & valid[None, :],
            other=0.0,
        ).to(tl.float32)
        x = tl.load(x_ptr + columns, mask=valid, other=0.0).to(tl.float32)
        total += tl.sum(weight * x[None, :], axis=1)
    return total


@triton.jit
def attention_kernel(
    qkv_ptr,
    keys_ptr,
    values_ptr,
    cos_ptr,
    sin_ptr,
    prompt_ptr,
    generated_ptr,
    partial_ptr,
    peaks_ptr,
    sums_ptr,
    scale,
    prompt_slots,
    window,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    SPLITS: tl.constexpr,
    BLOCK_SLOTS: tl.constexpr,
):
    """One token's attention over a part of the cache; writes its own key and value.

    Grid: (rows, HEADS, SPLITS). A program covers every SPLITS-th block of slots,
    skipping those that hold nothing, and leaves unnormalised partial sums for
    `combine_kernel`. The program that meets the token's own slot takes key and
    value from the projection (no other program reads that slot) and stores them.
    """
    row = tl.program_id(0)
    head = tl.program_id(1)
    split = tl.program_id(2)
    prompt = tl.load(prompt_ptr + row)
    generated = tl.load(generated_ptr + row)
    own = prompt_slots + generated % window
    # Ring slots in use: all of them once the ring has come round.
    used = prompt_slots + tl.minimum(generated + 1, window)

    half: tl.constexpr = HEAD_DIM // 2
    lane = tl.arange(0, HEAD_DIM)
    other = (lane + half) % HEAD_DIM
    sign = tl.where(lane < half, -1.0, 1.0)
    position = (prompt + generated) * HEAD_DIM
    cos = tl.load(cos_ptr + position + lane).to(tl.float32)
    sin = tl.load(sin_ptr + position + lane).to(tl.float32)
    base = qkv_ptr + row * (3 * HEADS * HEAD_DIM) + head * HEAD_DIM
    q = tl.load(base + lane).to(tl.float32) * cos
    q += sign * tl.load(base + other).to(tl.float32) * sin
    base += HEADS * HEAD_DIM
    key = tl.load(base + lane).to(tl.float32) * cos
    key += sign * tl.load(base + other).to(tl.float32) * sin
    value = tl.load(base + HEADS * HEAD_DIM + lane)
    kind = keys_ptr.dtype.element_ty
    q = q.to(kind).to(tl.float32) * scale
    key = key.to(kind)
    value = value.to(kind)

    slots_total = prompt_slots + window
    cache = (row * HEADS + head).to(tl.int64) * slots_total * HEAD_DIM
    peak = float("-inf")
    total = 0.0
    acc = tl.zeros((HEAD_DIM,), tl.float32)
    for start in range(split * BLOCK_SLOTS, used, SPLITS * BLOCK_SLOTS):
        slots = start + tl.arange(0, BLOCK_SLOTS)
        visible = (slots < prompt) | ((slots >= prompt_slots) & (slots < used))
        place = cache + slots[:, None].to(tl.int64) * HEAD_DIM + lane[None, :]
        stored = visible & (slots != own)
        mine = (slots == own)[:, None]
        k = tl.load(keys_ptr + place, mask=stored[:, None], other=0.0)
        v = tl.load(values_ptr + place, mask=stored[:, None], other=0.0)
        k = tl.where(mine, key[None, :], k)
        v = tl.where(mine, value[None, :], v)
        score = tl.sum(k.to(tl.float32) * q[None, :], axis=1)
        score = tl.where(visible, score, float("-inf"))
        higher = tl.maximum(peak, tl.max(score, axis=0))
        # A block between a short prompt and the ring may hold nothing at all.
        higher = tl.where(higher == float("-inf"), -1e30, higher)
        weight = tl.exp(score - higher)
        fade = tl.exp(peak - higher)
        acc = acc * fade + tl.sum(weight[:, None] * v.to(tl.float32), axis=0)
        total = total * fade + tl.sum(weight, axis=0)
        peak = higher
    if (own // BLOCK_SLOTS) % SPLITS == split:
        place = cache + own.to(tl.int64) * HEAD_DIM + lane
        tl.store(keys_ptr + place, key)
        tl.store(values_ptr + place, value)
    part = (row * HEADS + head) * SPLITS + split
    tl.store(partial_ptr + part * HEAD_DIM + lane, acc)
    tl.store(peaks_ptr + part, peak)
    tl.store(sums_ptr + part, total)


@triton.jit
def combine_kernel(
    partial_ptr,
    peaks_ptr,
    sums_ptr,
    out_ptr,
    HEAD_DIM: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """Joins the partial sums of `attention_kernel`. Grid: (rows * heads,)."""
    part = tl.program_id(0)
    split = tl.arange(0, SPLITS)
    lane = tl.arange(0, HEAD_DIM)
    peaks = tl.load(peaks_ptr + part * SPLITS + split)
    weight = tl.exp(peaks - tl.max(peaks, axis=0))
    total = tl.sum(weight * tl.load(sums_ptr + part * SPLITS + split), axis=0)
    place = (part * SPLITS + split)[:, None] * HEAD_DIM + lane[None, :]
    acc = tl.sum(weight[:, None] * tl.load(partial_ptr + place), axis=0)
    tl.store(out_ptr + part * HEAD_DIM + lane, (acc / total).to(out_ptr.dtype.element_ty))


@triton.jit
def position_bias_kernel(
    down_ptr,
    across_ptr,
    out_ptr,
    stride,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Row of a position bias: out[y * WIDTH + x] = down[y] + across[x].

    Grid: (queries,). `down` is (queries, HEIGHT), `across` (queries, WIDTH), `out`
    (queries, stride). Rounds once, as one addition in the tensors' type does.
    """
    query = tl.program_id(0).to(tl.int64)
    for start in range(0, HEIGHT * WIDTH, BLOCK):
        key = start + tl.arange(0, BLOCK)
        inside = key < HEIGHT * WIDTH
        down = tl.load(down_ptr + query * HEIGHT + key // WIDTH, mask=inside, other=0.0)
        across = tl.load(across_ptr + query * WIDTH + key % WIDTH, mask=inside, other=0.0)
        total = down.to(tl.float32) + across.to(tl.float32)
        tl.store(out_ptr + query * stride + key, total.to(out_ptr.dtype.element_ty), mask=inside)
