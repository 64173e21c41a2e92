"""Where every pixel of a corrected page came from on the page as scanned.

A `Transform` is the chain of all crops, scales, turns, tilts and perspective
corrections that led from the scan to the image a model looks at. It is one
projective matrix, so that chains neither lose precision nor need to be walked
step by step, plus the size before and after and a readable list of the steps.

Coordinates are continuous: the origin is the top left corner of the top left
pixel, whose centre is (0.5, 0.5). `size_px` is always (width, height). Angles
are clockwise as seen on the page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ocr.document import BBox

Size = tuple[int, int]
Points = NDArray[np.float64]

_HALF_PIXEL = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]])
_HALF_PIXEL_BACK = np.array([[1.0, 0.0, -0.5], [0.0, 1.0, -0.5], [0.0, 0.0, 1.0]])


@dataclass(frozen=True, slots=True, eq=False)
class Transform:
    """Maps points of the scan to points of the corrected image and back.

    Args:
        source_size_px: Width and height of the page as scanned.
        size_px: Width and height of the image that the chain ends in.
        matrix: float64, shape (3, 3), scan to image, in continuous pixels.
        steps: What was done, for notes and logs.
    """

    source_size_px: Size
    size_px: Size
    matrix: NDArray[np.float64]
    steps: tuple[str, ...] = ()

    @classmethod
    def identity(cls, size_px: Size) -> Transform:
        """The chain without any step, for a scan of this size."""
        return cls(size_px, size_px, np.eye(3))

    # -- adding a step ------------------------------------------------------

    def then(
        self, matrix: NDArray[np.float64] | Sequence[Sequence[float]], size_px: Size, step: str
    ) -> Transform:
        """This chain followed by any projective step.

        Args:
            matrix: Shape (3, 3), from the present image to the next one.
            size_px: Width and height of the next image.
            step: The step in words.
        """
        joined = np.asarray(matrix, dtype=np.float64) @ self.matrix
        return Transform(self.source_size_px, size_px, joined, (*self.steps, step))

    def crop(self, box: BBox) -> Transform:
        """Cut out whole pixels; parts outside of the image count as white margin."""
        left, top = math.floor(box.left), math.floor(box.top)
        size = (math.ceil(box.right) - left, math.ceil(box.bottom) - top)
        shift: list[list[float]] = [[1, 0, -left], [0, 1, -top], [0, 0, 1]]
        return self.then(shift, size, f"crop {size[0]}x{size[1]} at {left},{top}")

    def resize(self, size_px: Size) -> Transform:
        """Scale to exactly this width and height."""
        across, down = size_px[0] / self.size_px[0], size_px[1] / self.size_px[1]
        if size_px == self.size_px:
            return self
        return self.then(
            np.diag([across, down, 1.0]), size_px, f"resize to {size_px[0]}x{size_px[1]}"
        )

    def turn(self, quarter_turns: int) -> Transform:
        """Turn clockwise by whole right angles."""
        width, height = self.size_px
        match quarter_turns % 4:
            case 1:
                return self.then(
                    [[0, -1, height], [1, 0, 0], [0, 0, 1]], (height, width), "turn 90°"
                )
            case 2:
                matrix = [[-1, 0, width], [0, -1, height], [0, 0, 1]]
                return self.then(matrix, (width, height), "turn 180°")
            case 3:
                return self.then(
                    [[0, 1, 0], [-1, 0, width], [0, 0, 1]], (height, width), "turn 270°"
                )
        return self

    def tilt(self, clockwise_deg: float) -> Transform:
        """Rotate by any angle about the centre; the image grows so that nothing is lost."""
        width, height = self.size_px
        angle = math.radians(clockwise_deg)
        cosine, sine = math.cos(angle), math.sin(angle)
        size = (
            math.ceil(abs(width * cosine) + abs(height * sine) - 1e-9),
            math.ceil(abs(width * sine) + abs(height * cosine) - 1e-9),
        )
        x, y = width / 2, height / 2
        matrix: list[list[float]] = [
            [cosine, -sine, size[0] / 2 - x * cosine + y * sine],
            [sine, cosine, size[1] / 2 - x * sine - y * cosine],
            [0, 0, 1],
        ]
        return self.then(matrix, size, f"tilt {clockwise_deg:+.2f}°")

    def flatten(self, corners: ArrayLike, size_px: Size) -> Transform:
        """Pull the quadrilateral of a photographed sheet to a full rectangle.

        Args:
            corners: Shape (4, 2), in the present image, clockwise from top left.
            size_px: Width and height of the flat sheet.
        """
        width, height = size_px
        flat = np.array([[0, 0], [width, 0], [width, height], [0, height]], dtype=np.float32)
        matrix = cv2.getPerspectiveTransform(np.asarray(corners, dtype=np.float32), flat)
        return self.then(matrix, size_px, f"flatten to {width}x{height}")

    # -- mapping ------------------------------------------------------------

    def from_scan(self, points: ArrayLike) -> Points:
        """Points of the scan, shape (n, 2), as points of the corrected image."""
        return _project(self.matrix, points)

    def to_scan(self, points: ArrayLike) -> Points:
        """Points of the corrected image, shape (n, 2), as points of the scan."""
        return _project(np.linalg.inv(self.matrix), points)

    def box_to_scan(self, box: BBox) -> BBox:
        """The upright box around `box` on the scan, cut at the scan's edges."""
        return _clipped(_hull(self.to_scan(_corners(box))), self.source_size_px)

    def box_from_scan(self, box: BBox) -> BBox:
        """The upright box around a box of the scan, cut at the image's edges."""
        return _clipped(_hull(self.from_scan(_corners(box))), self.size_px)

    def apply(
        self, scan: NDArray[np.uint8], *, border: int | Sequence[int] = 255
    ) -> NDArray[np.uint8]:
        """The corrected image, resampled from the scan once for the whole chain.

        Args:
            scan: uint8, shape (height, width) or (height, width, channels).
            border: Value of pixels that lie outside of the scan.

        Returns:
            uint8 of `size_px`, the same number of channels.
        """
        exact = _without_resampling(self, scan)
        if exact is not None:
            return exact
        shrink = self._shrink_factor()
        matrix, image = self.matrix, scan
        if shrink > 1.0:
            # Warping samples few pixels; shrink by area first so that thin strokes survive.
            width = max(1, round(scan.shape[1] / shrink))
            height = max(1, round(scan.shape[0] / shrink))
            image = np.asarray(
                cv2.resize(scan, (width, height), interpolation=cv2.INTER_AREA), np.uint8
            )
            back = np.diag([scan.shape[1] / width, scan.shape[0] / height, 1.0])
            matrix = matrix @ back
        centred = _HALF_PIXEL_BACK @ matrix @ _HALF_PIXEL
        fill = [border] * 4 if isinstance(border, int) else list(border)
        warped = cv2.warpPerspective(
            image,
            centred,
            self.size_px,
            flags=cv2.INTER_CUBIC,
            borderMode=cv2.BORDER_CONSTANT,
            borderValue=fill,
        )
        return np.asarray(warped, np.uint8)

    def _shrink_factor(self) -> float:
        """How many scan pixels go into one image pixel at the image's centre."""
        x, y = self.size_px[0] / 2, self.size_px[1] / 2
        here, right, below = self.to_scan([(x, y), (x + 1, y), (x, y + 1)])
        return float(min(np.hypot(*(right - here)), np.hypot(*(below - here))))


def _without_resampling(transform: Transform, scan: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
    """Turns and plain scales need no warp and stay exact to the pixel."""
    matrix = transform.matrix
    if np.array_equal(matrix, np.eye(3)) and transform.size_px == transform.source_size_px:
        return scan
    for turns, code in (
        (1, cv2.ROTATE_90_CLOCKWISE),
        (2, cv2.ROTATE_180),
        (3, cv2.ROTATE_90_COUNTERCLOCKWISE),
    ):
        pure = Transform.identity(transform.source_size_px).turn(turns)
        if pure.size_px == transform.size_px and np.allclose(pure.matrix, matrix, atol=1e-9):
            return np.asarray(cv2.rotate(scan, code), np.uint8)
    scaled = Transform.identity(transform.source_size_px).resize(transform.size_px)
    if np.allclose(scaled.matrix, matrix, atol=1e-9):
        smaller = transform.size_px[0] < scan.shape[1]
        how = cv2.INTER_AREA if smaller else cv2.INTER_CUBIC
        return np.asarray(cv2.resize(scan, transform.size_px, interpolation=how), np.uint8)
    return None


def _project(matrix: NDArray[np.floating[Any]], points: ArrayLike) -> Points:
    flat = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    projected = np.column_stack([flat, np.ones(len(flat))]) @ matrix.T
    return np.asarray(projected[:, :2] / projected[:, 2:], dtype=np.float64)


def _corners(box: BBox) -> Points:
    return np.array(
        [
            (box.left, box.top),
            (box.right, box.top),
            (box.right, box.bottom),
            (box.left, box.bottom),
        ],
        dtype=np.float64,
    )


def _hull(points: Points) -> BBox:
    left, top = points.min(axis=0)
    right, bottom = points.max(axis=0)
    return BBox(float(left), float(top), float(right), float(bottom))


def _clipped(box: BBox, size: Size) -> BBox:
    width, height = size
    left, right = (min(max(v, 0.0), float(width)) for v in (box.left, box.right))
    top, bottom = (min(max(v, 0.0), float(height)) for v in (box.top, box.bottom))
    return BBox(left, top, right, bottom)
