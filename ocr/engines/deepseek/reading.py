"""One page through the model: from tiles to text, within bounds.

Holds what an engine keeps on the device between pages. It knows nothing of
blocks, figures or settings: `engine` does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ocr.engines.deepseek.cache import CacheShape
from ocr.engines.deepseek.generate import Bounds, Generated, Generator
from ocr.engines.deepseek.guard import LoopDetector, NGramGuard
from ocr.engines.deepseek.model import Model
from ocr.engines.deepseek.plan import PROMPT_SLOTS, Plan
from ocr.engines.deepseek.preprocess import PageTiles

if TYPE_CHECKING:
    import torch

_CELL_TAGS = ("<td>", "</td>")


@dataclass(frozen=True, slots=True)
class Rung:
    """How much memory a page may take; the engine steps down these when it runs out.

    Args:
        name: For the log.
        tiles_at_once: Tiles encoded together.
        window: Generated tokens that stay visible.
        most_tiles: Upper bound of tiles a page is cut into.
    """

    name: str
    tiles_at_once: int
    window: int
    most_tiles: int = 6


def rungs(plan: Plan) -> list[Rung]:
    """The ladder: as planned, fewer tiles at once, shorter cache, smaller page."""
    ladder = [Rung("as planned", plan.tiles_at_once, plan.kv_window)]
    if plan.tiles_at_once > 1:
        ladder.append(Rung("one tile at a time", 1, plan.kv_window))
    if plan.kv_window > 128:
        ladder.append(Rung("a shorter cache", 1, 128))
    ladder.append(Rung("a smaller page", 1, min(128, plan.kv_window), 2))
    return ladder


class PageReader:
    """Reads prepared pages with one model; memory stays the same from page to page.

    Args:
        model: On its device.
        plan: The plan it was loaded under.
        prompt: The words behind the page's image tokens.
        seconds: Wall-clock limit of one attempt at a page.
    """

    def __init__(self, model: Model, plan: Plan, *, prompt: str, seconds: float) -> None:
        self._model = model
        self._plan = plan
        self._prompt = prompt
        self._seconds = seconds
        self._generator: Generator | None = None

    def read(
        self,
        page: PageTiles,
        rung: Rung,
        *,
        max_tokens: int,
        progress: Callable[[], None] | None = None,
    ) -> Generated:
        """The page's tokens.

        Args:
            page: Tiles and view.
            rung: How much memory it may take.
            max_tokens: Token limit of this page.
            progress: Called as work advances.
        """
        import torch

        sizes = self._model.sizes
        self._step_to(rung)
        with torch.no_grad():
            ids, embedded = self._take_in(page)
            if progress is not None:
                progress()
            generator = self._generator
            if generator is None:
                generator = self._generator = self._make_generator(rung.window)
            generator.start(0, ids, embedded)
            bounds = Bounds(min(max_tokens, sizes.max_positions - len(ids)), self._seconds)
            return generator.run(
                bounds, eos=sizes.eos_token, detector=LoopDetector(), progress=progress
            )

    def text(self, generated: Generated) -> str:
        """What the tokens say."""
        return self._model.tokenizer.text(generated.tokens)

    def release(self) -> None:
        """Give back all that is not weights: graphs and cache; made again when needed."""
        import gc

        import torch

        self._generator = None
        self._model.vision.release()
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _step_to(self, rung: Rung) -> None:
        vision = self._model.vision
        if vision.tiles_at_once != rung.tiles_at_once:
            vision.release()
            vision.tiles_at_once = rung.tiles_at_once
        generator = self._generator
        if generator is not None and generator.cache.shape.window != rung.window:
            self.release()

    def _take_in(self, page: PageTiles) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        model = self._model
        features = model.vision.features(page)
        ids = torch.tensor(
            model.tokenizer.prompt(self._prompt, page.tokens), device=features.device
        )
        embedded = model.decoder.embed(ids)
        # The image tokens stand right behind BOS (`Tokenizer.prompt`).
        embedded[1 : 1 + page.tokens] = features
        return ids, embedded

    def _make_generator(self, window: int) -> Generator:
        import torch

        sizes = self._model.sizes
        words = len(self._model.tokenizer.prompt(self._prompt, 0))
        slots = max(PROMPT_SLOTS, words + _most_image_tokens())
        shape = CacheShape(sizes.layers, 1, sizes.heads, sizes.head_dim, slots, window)
        return Generator(
            self._model.decoder,
            shape,
            guard=NGramGuard(exempt=self._model.tokenizer.ids(_CELL_TAGS)),
            graph=self._plan.graphs,
            graph_prompts=self._plan.experts == "grouped_mm",
            pool=torch.cuda.graph_pool_handle() if self._plan.graphs else None,
        )


def _most_image_tokens() -> int:
    from ocr.engines.deepseek.upstream import image_tokens

    return image_tokens(6)
