"""The embedded CPU engine: a scanned page in, blocks out."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import cv2
import numpy as np

from ocr.document import Line, Page, TextOrigin
from ocr.engines.base import EngineInfo, PageImage, Progress
from ocr.engines.rapid import weights
from ocr.engines.rapid.detection import find_text, search_scale
from ocr.engines.rapid.layout_model import find_regions
from ocr.engines.rapid.lines import line_from
from ocr.engines.rapid.network import Network, usable_cores
from ocr.engines.rapid.orientation import turn_scores
from ocr.engines.rapid.placement import save_figures, to_scan
from ocr.engines.rapid.recognition import Recogniser, cut_out
from ocr.engines.rapid.wording import corrected
from ocr.errors import EngineUnavailable
from ocr.imaging.measure import text_height
from ocr.imaging.skew import skew_deg
from ocr.imaging.transform import Transform
from ocr.layout import Region, assemble
from ocr.options import ReadOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SURE_TURN = 0.55
"""A page is turned only when the orientation model is this sure."""
_SMALLEST_TILT_DEG = 0.15


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


class RapidEngine:
    """PP-OCRv6 small, page orientation and page layout on the processor.

    Args:
        threads: Cores to use; None takes all that this process may run on.
    """

    def __init__(self, *, threads: int | None = None) -> None:
        self._threads = threads or usable_cores()
        self._models: _Models | None = None

    def load(self, progress: Progress | None = None) -> None:
        """Compile the networks, under a second on two cores.

        Raises:
            EngineUnavailable: A package or weight file is missing.
        """
        if self._models is not None:
            return
        networks = []
        for model in (weights.ORIENTATION, weights.DETECTION, weights.RECOGNITION, weights.LAYOUT):
            networks.append(Network(weights.weights_path(model), threads=self._threads))
            if progress is not None:
                progress()
        orientation, detection, recognition, layout = networks
        self._models = _Models(orientation, detection, Recogniser(recognition), layout)

    def unload(self) -> None:
        """Drop the networks and all that they hold."""
        self._models = None
        gc.collect()

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
        scan = np.ascontiguousarray(image.pixels)
        transform = self._upright(models, scan, options)
        upright = transform.apply(scan)
        letters = text_height(np.asarray(cv2.cvtColor(upright, cv2.COLOR_RGB2GRAY), np.uint8))
        scale = search_scale(transform.size_px, None if letters is None else letters.usual_px)
        boxes = find_text(models.detection, upright, scale=scale)
        if progress is not None:
            progress()
        readings = models.recognition.read([cut_out(upright, box) for box in boxes], progress)
        readings = corrected(readings)
        lines = [line_from(box, reading) for box, reading in zip(boxes, readings, strict=True)]
        regions = find_regions(models.layout, upright)
        return ReadLines(
            tuple(line for line in lines if line is not None),
            tuple(regions),
            upright,
            transform,
            transform.steps,
        )

    def _upright(self, models: _Models, scan: NDArray[np.uint8], options: ReadOptions) -> Transform:
        transform = Transform.identity((scan.shape[1], scan.shape[0]))
        if not options.pre_correction:
            return transform
        scores = turn_scores(models.orientation, scan)
        if float(scores.max()) > _SURE_TURN:
            transform = transform.turn(-int(scores.argmax()))
        tilt = skew_deg(
            np.asarray(cv2.cvtColor(transform.apply(scan), cv2.COLOR_RGB2GRAY), np.uint8)
        )
        return transform.tilt(tilt) if abs(tilt) >= _SMALLEST_TILT_DEG else transform

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
