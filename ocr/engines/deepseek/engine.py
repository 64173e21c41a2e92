"""The engine: a scanned page in, blocks out, whatever the device allows."""

from __future__ import annotations

import gc
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from ocr.document import Block, Page, PageStatus
from ocr.engines.base import Engine, EngineInfo, PageImage, Progress
from ocr.engines.deepseek.generate import Generated, Stop
from ocr.engines.deepseek.plan import MAX_TOKENS, Plan, Wishes, make_plan
from ocr.errors import EngineError, EngineOutOfMemory, EngineUnavailable
from ocr.options import ReadOptions

if TYPE_CHECKING:
    from ocr.engines.deepseek.model import Checked
    from ocr.engines.deepseek.reading import PageReader, Rung
    from ocr.engines.deepseek.valve import Prepared, Valve

GROUNDED = "\n<|grounding|>Convert the document to markdown."
"""The published prompt that answers with regions and Markdown."""
_RETRY_MARGIN = 0.08
"""White margin of the second attempt: the same page at 86 % of its scale."""

_REASONS = {
    Stop.LOOP: "the model began to repeat itself",
    Stop.TOKENS: "the text is longer than the model can write for one page",
    Stop.TIME: "reading took longer than the time limit of a page",
}


@dataclass(frozen=True, slots=True)
class _Loaded:
    plan: Plan
    reader: PageReader
    valve: Valve


@dataclass(frozen=True, slots=True)
class _Attempt:
    prepared: Prepared
    generated: Generated
    notes: tuple[str, ...]


class DeepseekEngine:
    """DeepSeek-OCR-2 on an NVIDIA GPU.

    Args:
        model_dir: Folder of the checkpoint; nothing is ever downloaded here.
        device: `auto`, `cpu` (slow, for tests), or a torch name such as `cuda:1`.
        vram_budget_gb: Upper bound of GPU memory; None: what is free, less a reserve.
        kv_window: Generated tokens that stay visible while writing; None: all.
        kv_max_tokens: Token limit of mostly blank pages (prompt and text).
        max_tokens: Token limit of the text of any page.
        page_seconds: Wall-clock limit of one attempt at a page.
        cpu_fallback: Read a page with the CPU engine when even the smallest step
            runs out of memory.
    """

    def __init__(  # noqa: PLR0913  # the engine's settings, by keyword
        self,
        *,
        model_dir: Path | str | None = None,
        device: str = "auto",
        vram_budget_gb: float | None = None,
        kv_window: int | None = 512,
        kv_max_tokens: int = 4096,
        max_tokens: int = MAX_TOKENS,
        page_seconds: float = 120.0,
        cpu_fallback: bool = False,
    ) -> None:
        self._model_dir = None if model_dir is None else Path(model_dir)
        self._device = device
        self._wishes = Wishes(vram_budget_gb, kv_window, max_tokens)
        self._lean_tokens = kv_max_tokens
        self._page_seconds = page_seconds
        self._cpu_fallback = cpu_fallback
        self._spare: Engine | None = None
        self._loaded: _Loaded | None = None

    def load(self, progress: Progress | None = None) -> None:
        """Check the checkpoint, plan, then stream the weights to the device.

        Raises:
            EngineUnavailable: The checkpoint, the packages or the device will not do.
        """
        if self._loaded is not None:
            return
        checked, plan = self._checked_plan()
        from ocr.engines.deepseek.device import placement
        from ocr.engines.deepseek.model import load_model
        from ocr.engines.deepseek.reading import PageReader
        from ocr.engines.deepseek.valve import Valve

        try:
            model = load_model(checked, placement(plan, self._device), progress)
        except Exception as error:
            if not _is_out_of_memory(error):
                raise
            _give_back()
            raise EngineUnavailable(
                f"{plan.device} ran out of memory while the model was loaded: something else "
                "took it meanwhile. Free memory on the device or use the engine rapid."
            ) from error
        reader = PageReader(model, plan, prompt=GROUNDED, seconds=self._page_seconds)
        self._loaded = _Loaded(plan, reader, Valve())

    def plan(self) -> Plan:
        """How pages would be read here, without loading anything (for `doctor`).

        Raises:
            EngineUnavailable: The checkpoint, the packages or the device will not do.
        """
        if self._loaded is not None:
            return self._loaded.plan
        return self._checked_plan()[1]

    def _checked_plan(self) -> tuple[Checked, Plan]:
        from ocr.engines.deepseek import upstream

        if self._model_dir is None:
            raise EngineUnavailable(
                "No model folder is set for the deepseek engine (model_dir): "
                "fetch the model with `scanmd model fetch`."
            )
        upstream.require()
        from ocr.engines.deepseek.device import device_facts
        from ocr.engines.deepseek.model import check_model

        checked = check_model(self._model_dir)
        wishes = replace(self._wishes, weights_gb=checked.bytes / 1e9)
        return checked, make_plan(device_facts(self._device), checked.sizes, wishes)

    def unload(self) -> None:
        """Drop the model, cache and graphs, and give the memory back to the device."""
        self._loaded = None
        if self._spare is not None:
            self._spare.unload()
            self._spare = None
        _give_back()

    def describe(self) -> EngineInfo:
        """Name, transformers' version, device and plan."""
        try:
            packages = f"transformers {version('transformers')}, torch {version('torch')}"
        except PackageNotFoundError as error:
            return EngineInfo("deepseek", "", "", f"not usable: {error.name} is not installed")
        if self._loaded is None:
            return EngineInfo("deepseek", packages, self._device, "not loaded")
        plan = self._loaded.plan
        return EngineInfo("deepseek", packages, plan.device, plan.summary())

    def read(
        self, image: PageImage, options: ReadOptions, progress: Progress | None = None
    ) -> Page:
        """The page's blocks, boxes in the pixels of the page as scanned.

        A page that runs away (loop, too long, too slow) is read once more at
        another scale; what is then still incomplete comes back as TRUNCATED.
        Pages with a text layer are left to the CPU engine's assembly.

        Raises:
            EngineError: This page failed.
            EngineOutOfMemory: Not enough memory even after stepping down.
        """
        if image.lines is not None or image.pixels is None:
            return self._spare_engine().read(image, options, progress)
        self.load(progress)
        loaded = self._loaded
        if loaded is None:
            raise EngineUnavailable("The deepseek engine is not loaded.")
        try:
            first = self._attempt(loaded, image, options, progress=progress)
            best = first
            if first.generated.stop is not Stop.END:
                again = self._attempt(loaded, image, options, _RETRY_MARGIN, progress=progress)
                best = _better(first, again)
        except EngineOutOfMemory:
            if not self._cpu_fallback:
                raise
            page = self._spare_engine().read(image, options, progress)
            note = "out of GPU memory: read with the CPU engine"
            return replace(page, notes=(*page.notes, note))
        return self._page(loaded, image, options, best)

    def _spare_engine(self) -> Engine:
        if self._spare is None:
            from ocr.engines.rapid.engine import RapidEngine

            self._spare = RapidEngine()
        return self._spare

    def _attempt(
        self,
        loaded: _Loaded,
        image: PageImage,
        options: ReadOptions,
        margin: float = 0.0,
        *,
        progress: Progress | None = None,
    ) -> _Attempt:
        from ocr.engines.deepseek.reading import rungs

        notes: list[str] = []
        ladder = rungs(loaded.plan)
        for place, rung in enumerate(ladder):
            try:
                attempt = self._on_rung(loaded, image, options, rung, margin, progress)
            except Exception as error:
                if not _is_out_of_memory(error):
                    raise _as_engine_error(error, image) from error
            else:
                return replace(attempt, notes=(*notes, *attempt.notes))
            # Outside of the handler: its traceback would keep the page's tensors alive.
            loaded.reader.release()
            if place + 1 < len(ladder):
                notes.append(f"out of GPU memory: {ladder[place + 1].name}")
        raise EngineOutOfMemory(
            f"Page {image.page_index + 1} does not fit into the memory of {loaded.plan.device}, "
            "not even as a smaller page."
        )

    def _on_rung(
        self,
        loaded: _Loaded,
        image: PageImage,
        options: ReadOptions,
        rung: Rung,
        margin: float,
        progress: Progress | None,
    ) -> _Attempt:
        from ocr.engines.deepseek.preprocess import cut

        pixels = image.pixels
        if pixels is None:
            raise EngineUnavailable("The deepseek engine was given a page without an image.")
        prepared = loaded.valve.prepare(
            pixels, correct=options.pre_correction, margin=margin, most_tiles=rung.most_tiles
        )
        page = cut(prepared.upright, prepared.most_tiles, sharpen=prepared.sharpen)
        limit = self._wishes.max_tokens
        if prepared.lean:
            limit = min(limit, max(1, self._lean_tokens - page.tokens))
        generated = loaded.reader.read(page, rung, max_tokens=limit, progress=progress)
        return _Attempt(prepared, generated, prepared.notes)

    def _page(
        self, loaded: _Loaded, image: PageImage, options: ReadOptions, attempt: _Attempt
    ) -> Page:
        from ocr.engines.deepseek.parsing import parse
        from ocr.engines.rapid.placement import save_figures, to_scan

        raw = loaded.reader.text(attempt.generated)
        prepared = attempt.prepared
        blocks: tuple[Block, ...] = parse(raw, prepared.transform.size_px)
        blocks = save_figures(
            blocks, prepared.upright, folder=options.assets_dir, page_index=image.page_index
        )
        whole = attempt.generated.stop is Stop.END
        return Page(
            page_index=image.page_index,
            size_px=image.size_px,
            dpi=image.dpi,
            blocks=tuple(to_scan(block, prepared.transform) for block in blocks),
            status=PageStatus.OK if whole else PageStatus.TRUNCATED,
            engine="deepseek",
            reason=None if whole else _REASONS[attempt.generated.stop],
            raw=raw,
            notes=(*image.notes, *attempt.notes),
        )


def _better(first: _Attempt, again: _Attempt) -> _Attempt:
    """The complete one, else the one that says more."""
    note = f"read again at another scale, because {_REASONS[first.generated.stop]}"
    if again.generated.stop is Stop.END or len(again.generated.tokens) > len(
        first.generated.tokens
    ):
        return replace(again, notes=(*again.notes, note))
    return replace(first, notes=(*first.notes, note))


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether the device ran out of memory (torch is imported if that can be)."""
    import torch

    known: tuple[type[BaseException], ...] = (torch.OutOfMemoryError,)
    return isinstance(error, known) or "CUDA out of memory" in str(error)


def _as_engine_error(error: Exception, image: PageImage) -> Exception:
    from ocr.errors import OcrError

    if isinstance(error, OcrError):
        return error
    return EngineError(f"The model failed on page {image.page_index + 1}: {type(error).__name__}.")


def _give_back() -> None:
    gc.collect()
    try:
        import torch
    except ImportError:
        return
    if torch.cuda.is_available():
        # cuBLAS keeps a workspace per stream, captures included: 32 MiB each on Hopper.
        # Documented under "cuBLAS workspaces" in torch's CUDA notes.
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
