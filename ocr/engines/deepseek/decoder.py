"""The text decoder: a prompt in one pass, then one token a step.

Plain classes over tensors, no module tree: what a layer's weights look like is
decided by the `layers` interfaces, so the same code runs 16-bit and quantized
weights. Equal to the stock model's logits in fp32.

Source: transformers 5.24, models/deepseek_ocr2/modeling_deepseek_ocr2.py, Text*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ocr.engines.deepseek.cache import KVCache
from ocr.engines.deepseek.layers import FeedForward, Linear, Norm

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class TextSizes:
    """The decoder's sizes, as the checkpoint's configuration states them."""

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    dense_inner: int
    dense_layers: int
    """Leading layers with one dense feed-forward; the others have experts."""
    experts: int
    top_k: int
    expert_inner: int
    shared_inner: int
    max_positions: int
    rope_theta: float
    norm_eps: float
    routed_scaling: float
    eos_token: int
    image_token: int

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden // self.heads


@dataclass(frozen=True, slots=True)
class Attention:
    """One layer's attention: `qkv` is (3 * hidden, hidden), query rows first."""

    qkv: Linear
    out: Linear


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer."""

    input_norm: Norm
    attention: Attention
    post_norm: Norm
    feed_forward: FeedForward


class Rotary:
    """Rotary position table of `positions` rows, cos and sin each (positions, head_dim).

    Computed in fp32 and rounded to `dtype`, as the stock model does per call.
    """

    def __init__(self, sizes: TextSizes, dtype: torch.dtype, device: torch.device) -> None:
        import torch

        half = torch.arange(0, sizes.head_dim, 2, dtype=torch.float32)
        frequency = 1.0 / (sizes.rope_theta ** (half / sizes.head_dim))
        angle = torch.arange(sizes.max_positions).float()[:, None] * frequency
        both = torch.cat((angle, angle), dim=-1)
        self.cos = both.cos().to(device, dtype)
        self.sin = both.sin().to(device, dtype)

    def turn(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """X (tokens, heads, head_dim), each token turned to its position."""
        import torch

        first, second = x.chunk(2, dim=-1)
        rotated = torch.cat((-second, first), dim=-1)
        cos = self.cos[positions][:, None]
        sin = self.sin[positions][:, None]
        return x * cos + rotated * sin


PromptAttention = Callable[["torch.Tensor", "torch.Tensor", "torch.Tensor"], "torch.Tensor"]
"""Causal attention over a prompt: q, k, v (heads, tokens, head_dim) -> the same shape."""

StepAttention = Callable[["torch.Tensor", int, KVCache, Rotary], "torch.Tensor"]
"""One token per row: qkv (rows, 3 * hidden), layer index, cache -> (rows, hidden).

Writes the token's keys and values into the cache.
"""


def sdpa_prompt(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention by torch (its built-in flash kernel where the device has one)."""
    import torch

    attend = torch.nn.functional.scaled_dot_product_attention
    out: torch.Tensor = attend(q[None], k[None], v[None], is_causal=True)[0]
    return out


def flash_prompt(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention by the flash-attn package (FlashAttention-2)."""
    from flash_attn import flash_attn_func

    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    out: torch.Tensor = flash_attn_func(q, k, v, causal=True)[0].transpose(0, 1)
    return out


def sdpa_step(qkv: torch.Tensor, layer: int, cache: KVCache, rotary: Rotary) -> torch.Tensor:
    """The reference `StepAttention`: torch operations, any device."""
    import torch

    rows = qkv.shape[0]
    heads, head_dim = cache.shape.heads, cache.shape.head_dim
    q, k, v = qkv.view(rows, 3, heads, head_dim).unbind(1)
    positions = cache.positions()
    cache.write_next(layer, rotary.turn(k, positions), v)
    out = torch.nn.functional.scaled_dot_product_attention(
        rotary.turn(q, positions)[:, :, None],
        cache.keys[layer],
        cache.values[layer],
        attn_mask=cache.visible()[:, None, None],
    )
    return out.reshape(rows, heads * head_dim)


class Decoder:
    """Embedding, layers, final norm and head.

    Attributes:
        embedding: (vocabulary, hidden).
        head: Linear from hidden to vocabulary.
    """

    def __init__(  # noqa: PLR0913  # the parts of a decoder, by keyword
        self,
        sizes: TextSizes,
        *,
        embedding: torch.Tensor,
        layers: list[Layer],
        norm: Norm,
        head: Linear,
        prompt_attention: PromptAttention = sdpa_prompt,
        step_attention: StepAttention = sdpa_step,
    ) -> None:
        self.sizes = sizes
        self.embedding = embedding
        self.layers = layers
        self.norm = norm
        self.head = head
        self.prompt_attention = prompt_attention
        self.step_attention = step_attention
        self.rotary = Rotary(sizes, embedding.dtype, embedding.device)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Token ids (tokens,) -> (tokens, hidden)."""
        import torch

        embedded: torch.Tensor = torch.nn.functional.embedding(ids, self.embedding)
        return embedded

    def read_prompt(
        self, embedded: torch.Tensor, cache: KVCache, row: torch.Tensor, *, every: bool = False
    ) -> torch.Tensor:
        """Take in a whole prompt, pinning it in the cache's row.

        Args:
            embedded: (tokens, hidden), image features already in place.
            cache: Where keys and values go; the row starts anew.
            row: Which page of the batch, (1,) int64 on the device: a captured
                prompt serves every row.
            every: Logits of every token (for tests), not only the last.

        Returns:
            Logits fp32, (1, vocabulary) or (tokens, vocabulary).
        """
        import torch

        tokens = embedded.shape[0]
        positions = torch.arange(tokens, device=embedded.device)
        x = embedded
        for index, layer in enumerate(self.layers):
            x = self._prompt_layer(layer, x, positions, (cache, index, row))
        cache.start_row(row, tokens)
        return self.logits(x if every else x[-1:])

    def _prompt_layer(
        self,
        layer: Layer,
        x: torch.Tensor,
        positions: torch.Tensor,
        target: tuple[KVCache, int, torch.Tensor],
    ) -> torch.Tensor:
        cache, index, row = target
        tokens = x.shape[0]
        qkv = layer.attention.qkv.normed(x, layer.input_norm)
        q, k, v = qkv.view(tokens, 3, self.sizes.heads, self.sizes.head_dim).unbind(1)
        q = self.rotary.turn(q, positions).transpose(0, 1)
        k = self.rotary.turn(k, positions).transpose(0, 1)
        v = v.transpose(0, 1)
        cache.write_prompt(index, row, k, v)
        context = self.prompt_attention(q, k, v).transpose(0, 1).reshape(tokens, -1)
        x = layer.attention.out.added(context, x)
        return layer.feed_forward(x, layer.post_norm)

    def step(self, ids: torch.Tensor, cache: KVCache) -> torch.Tensor:
        """Logits after one more token per row; advances the cache.

        Args:
            ids: (rows,) int64, the token each row chose last.
            cache: Read and written in place; nothing here asks the host, so the
                call can be captured as a CUDA graph.

        Returns:
            Logits fp32, (rows, vocabulary).
        """
        x = self.embed(ids)
        for index, layer in enumerate(self.layers):
            qkv = layer.attention.qkv.normed(x, layer.input_norm)
            context = self.step_attention(qkv, index, cache, self.rotary)
            x = layer.attention.out.added(context, x)
            x = layer.feed_forward(x, layer.post_norm)
        cache.advance()
        return self.logits(x)

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """Hidden states (tokens, hidden) -> logits fp32 (tokens, vocabulary)."""
        return self.head.normed(x, self.norm).float()
