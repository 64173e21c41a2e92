"""Which way is up, by the page orientation model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocr.engines.rapid.network import Network

_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_SPREAD = np.array([0.229, 0.224, 0.225], np.float32)


def turn_scores(network: Network, image: NDArray[np.uint8]) -> NDArray[np.float32]:
    """How likely the page lies turned clockwise by 0, 90, 180, 270°; sums to 1.

    Args:
        network: The orientation model.
        image: uint8 RGB, shape (height, width, 3).
    """
    height, width = image.shape[:2]
    scale = 256 / min(height, width)
    size = (max(224, round(width * scale)), max(224, round(height * scale)))
    small = cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)
    left, top = (size[0] - 224) // 2, (size[1] - 224) // 2
    middle = small[top : top + 224, left : left + 224, ::-1].astype(np.float32) / 255
    batch = ((middle - _MEAN) / _SPREAD).transpose(2, 0, 1)[None]
    return np.array(network(batch)[0][0], np.float32)
