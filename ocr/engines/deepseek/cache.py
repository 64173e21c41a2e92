"""A key-value cache of constant size: the prompt stays, a ring holds the text.

A plain sliding window would drop the image tokens, which every later word
needs. Here the prompt (image tokens included) is pinned in the first slots and
only the generated text slides, in a ring of `window` slots behind it. Keys are
stored with their rotary position already applied, so a slot's place in the ring
does not matter to attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class CacheShape:
    """Sizes of a cache; every count is in tokens, heads or rows."""

    layers: int
    rows: int
    heads: int
    head_dim: int
    prompt_slots: int
    window: int
    """Ring slots for generated tokens; at least 1."""

    @property
    def slots(self) -> int:
        """Slots a row has in every layer."""
        return self.prompt_slots + self.window

    def bytes(self, item_bytes: int) -> int:
        """Memory of keys and values together, for elements of `item_bytes`."""
        values = self.layers * self.rows * self.heads * self.slots * self.head_dim
        return 2 * values * item_bytes


class KVCache:
    """Keys and values of `rows` pages being read at once.

    Attributes:
        keys, values: (layers, rows, heads, slots, head_dim).
        prompt_length: (rows,) int32, pinned tokens of each row.
        generated: (rows,) int32, generated tokens already written.

    The counters live on the device, so that a captured step can advance them
    without asking the host.
    """

    def __init__(self, shape: CacheShape, dtype: torch.dtype, device: torch.device) -> None:
        import torch

        self.shape = shape
        size = (shape.layers, shape.rows, shape.heads, shape.slots, shape.head_dim)
        # Zeros, not empty: a masked slot may hold anything but NaN.
        self.keys = torch.zeros(size, dtype=dtype, device=device)
        self.values = torch.zeros(size, dtype=dtype, device=device)
        self.prompt_length = torch.zeros(shape.rows, dtype=torch.int32, device=device)
        self.generated = torch.zeros(shape.rows, dtype=torch.int32, device=device)
        self._slots = torch.arange(shape.slots, dtype=torch.int32, device=device)
        self._rows = torch.arange(shape.rows, device=device)

    def write_prompt(
        self, layer: int, row: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> None:
        """Pin a prompt's keys and values, each (heads, tokens, head_dim), in row (1,) int64."""
        tokens = keys.shape[1]
        self.keys[layer, :, :, :tokens].index_copy_(0, row, keys[None])
        self.values[layer, :, :, :tokens].index_copy_(0, row, values[None])

    def start_row(self, row: torch.Tensor, prompt_tokens: int) -> None:
        """Forget what the row (1,) held: it now has this prompt and no text."""
        self.prompt_length.index_fill_(0, row, prompt_tokens)
        self.generated.index_fill_(0, row, 0)

    def positions(self) -> torch.Tensor:
        """Rotary position of the token to be written next, (rows,) int64."""
        return (self.prompt_length + self.generated).long()

    def write_next(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Write one token per row, each (rows, heads, head_dim), without advancing."""
        slot = (self.shape.prompt_slots + self.generated % self.shape.window).long()
        self.keys[layer, self._rows, :, slot] = keys
        self.values[layer, self._rows, :, slot] = values

    def visible(self) -> torch.Tensor:
        """Slots the token just written may look at, itself included, (rows, slots) bool."""
        pinned = self._slots < self.prompt_length[:, None]
        ring = self._slots - self.shape.prompt_slots
        written = (ring >= 0) & (ring <= self.generated[:, None])
        return pinned | written

    def advance(self) -> None:
        """Count the token just written in every layer."""
        self.generated += 1
