"""Regions of a page (text, title, table, figure ...), by the PicoDet layout model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np

from ocr.document import BBox
from ocr.layout.regions import Region

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocr.engines.rapid.network import Network

_SIZE = (608, 800)
_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_SPREAD = np.array([0.229, 0.224, 0.225], np.float32)
_STRIDES = (8, 16, 32, 64)
_SURE = 0.4
_SAME = 0.5
"""Boxes of one kind that overlap by more than this are one."""


def find_regions(network: Network, image: NDArray[np.uint8]) -> list[Region]:
    """Regions in pixels of `image` (uint8 RGB, upright), the surest first.

    Source: Yu et al., PP-PicoDet, section 2 (generalized focal loss head);
        PaddleDetection picodet_postprocess.
    """
    small = cv2.resize(image, _SIZE, interpolation=cv2.INTER_AREA)[:, :, ::-1]
    batch = ((small.astype(np.float32) / 255 - _MEAN) / _SPREAD).transpose(2, 0, 1)[None]
    outputs = network(batch)
    levels = len(_STRIDES)
    pairs = zip(outputs[:levels], outputs[levels:], _STRIDES, strict=True)
    decoded = [_decoded(scores[0], edges[0], stride) for scores, edges, stride in pairs]
    scores = np.concatenate([d[0] for d in decoded])
    boxes = np.concatenate([d[1] for d in decoded])
    kinds = network.metadata["character"].split("\n")
    stretch = np.array([image.shape[1] / _SIZE[0], image.shape[0] / _SIZE[1]] * 2)
    regions = [
        Region(_name(kinds[index]), _bbox(boxes[i] * stretch, image), float(scores[i, index]))
        for index in range(len(kinds))
        for i in _distinct(boxes, scores[:, index])
    ]
    return sorted(regions, key=lambda region: -region.score)


def _name(kind: str) -> str:
    return "equation" if kind.startswith("equ") else kind


def _decoded(
    scores: NDArray[np.float32], edges: NDArray[np.float32], stride: int
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Scores (n, kinds) and boxes (n, 4) of the cells with any sure kind."""
    kept = np.flatnonzero(scores.max(axis=1) > _SURE)
    columns = -(-_SIZE[0] // stride)
    x = (kept % columns + 0.5) * stride
    y = (kept // columns + 0.5) * stride
    bins = edges[kept].reshape(len(kept), 4, edges.shape[1] // 4).astype(np.float64)
    weights = np.exp(bins - bins.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    distance = (weights * np.arange(bins.shape[2])).sum(axis=2) * stride
    boxes = np.column_stack(
        [x - distance[:, 0], y - distance[:, 1], x + distance[:, 2], y + distance[:, 3]]
    )
    return scores[kept], boxes


def _distinct(boxes: NDArray[np.float64], scores: NDArray[np.float32]) -> list[int]:
    """Indices of sure boxes, each the surest among those that overlap it."""
    sure = [i for i in np.argsort(-scores) if scores[i] > _SURE]
    if not sure:
        return []
    corners = [[*boxes[i, :2], *(boxes[i, 2:] - boxes[i, :2])] for i in sure]
    kept = cv2.dnn.NMSBoxes(corners, [float(scores[i]) for i in sure], _SURE, _SAME)
    return [int(sure[int(k)]) for k in np.asarray(kept).flatten()]


def _bbox(box: NDArray[np.float64], image: NDArray[np.uint8]) -> BBox:
    height, width = image.shape[:2]
    left, right = (float(v) for v in np.clip(box[[0, 2]], 0, width))
    top, bottom = (float(v) for v in np.clip(box[[1, 3]], 0, height))
    return BBox(left, top, right, bottom)
