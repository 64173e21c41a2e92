"""A page's tiles and view to the features the decoder reads in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocr.engines.deepseek.preprocess import PageTiles, normalise
from ocr.engines.deepseek.upstream import TILE_PX, VIEW_PX, VisionTower

if TYPE_CHECKING:
    import torch


class VisionEncoder:
    """Encodes one tile at a time, or as many as the plan allows.

    On a GPU every image size is captured as a CUDA graph: the tower is 36 short
    layers, and launching them one by one takes longer than running them.

    Args:
        tower: The vision layers with their weights.
        projector: Weight (hidden, encoder width) and bias (hidden,).
        separator: (hidden,), put behind the page's features.
        tiles_at_once: How many tiles go through the tower together, 1..6.
        graphs: Capture the tower as CUDA graphs.
        pool: Memory pool the graphs share with others, from `torch.cuda.graph_pool_handle`.
    """

    def __init__(
        self,
        tower: VisionTower,
        projector: tuple[torch.Tensor, torch.Tensor],
        separator: torch.Tensor,
        *,
        tiles_at_once: int = 1,
        graphs: bool = False,
        pool: tuple[int, int] | None = None,
    ) -> None:
        self._tower = tower
        self._projector = projector
        self._separator = separator
        self._graphs = graphs
        self._pool = pool
        self._captured: dict[tuple[int, int], _Captured] = {}
        self.tiles_at_once = tiles_at_once
        tower.prepare(TILE_PX)
        tower.prepare(VIEW_PX)

    def features(self, page: PageTiles) -> torch.Tensor:
        """(image tokens, hidden): tiles, view, separator, in the stock order."""
        import torch

        parts = []
        for start in range(0, len(page.tiles), self.tiles_at_once):
            parts.append(self._encode(page.tiles[start : start + self.tiles_at_once]))
        parts.append(self._encode(page.view[None]))
        rows = [part.reshape(-1, part.shape[-1]) for part in parts]
        return torch.cat([*rows, self._separator[None]])

    def _encode(self, images: object) -> torch.Tensor:
        import torch

        pixels = torch.as_tensor(images).to(self._separator.device, non_blocking=True)
        if not self._graphs:
            return self._forward(pixels)
        key = (pixels.shape[0], pixels.shape[1])
        if key not in self._captured:
            self._captured[key] = _Captured(self, pixels, self._pool)
        return self._captured[key](pixels)

    def _forward(self, pixels: torch.Tensor) -> torch.Tensor:
        import torch

        encoded = self._tower(normalise(pixels, self._separator.dtype))
        projected: torch.Tensor = torch.nn.functional.linear(encoded, *self._projector)
        return projected

    def release(self) -> None:
        """Give back the captured graphs and their memory."""
        import torch

        self._captured.clear()
        if self._graphs:
            # A pool dies with its last graph.
            self._pool = torch.cuda.graph_pool_handle()


class _Captured:
    """One image size of the tower as a CUDA graph."""

    def __init__(
        self, encoder: VisionEncoder, example: torch.Tensor, pool: tuple[int, int] | None
    ) -> None:
        import torch

        self._input = example.clone()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            encoder._forward(self._input)  # first call chooses algorithms, which a capture may not
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        # What the trial run left in the general pool would otherwise count twice.
        torch.cuda.empty_cache()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=pool):
            self._output = encoder._forward(self._input)

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        self._input.copy_(pixels)
        self._graph.replay()
        # Another graph of the shared pool may overwrite the output.
        return self._output.clone()
