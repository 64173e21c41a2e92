"""Boxes on an upright page: the few sums that every layout step needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ocr.document import BBox


class Boxed(Protocol):
    """Anything with edges in upright pixels."""

    @property
    def left(self) -> float: ...  # noqa: D102 - the names say it
    @property
    def top(self) -> float: ...  # noqa: D102
    @property
    def right(self) -> float: ...  # noqa: D102
    @property
    def bottom(self) -> float: ...  # noqa: D102


def union(boxes: Iterable[Boxed]) -> BBox:
    """The smallest box around all `boxes` (at least one)."""
    items = list(boxes)
    return BBox(
        min(b.left for b in items),
        min(b.top for b in items),
        max(b.right for b in items),
        max(b.bottom for b in items),
    )


def overlap_x(a: Boxed, b: Boxed) -> float:
    """Shared width in pixels; negative is the gap between them."""
    return min(a.right, b.right) - max(a.left, b.left)


def overlap_y(a: Boxed, b: Boxed) -> float:
    """Shared height in pixels; negative is the gap between them."""
    return min(a.bottom, b.bottom) - max(a.top, b.top)


def inside_share(inner: Boxed, outer: Boxed) -> float:
    """Share of `inner`'s area that lies in `outer`, 0..1."""
    across, down = overlap_x(inner, outer), overlap_y(inner, outer)
    area = (inner.right - inner.left) * (inner.bottom - inner.top)
    return across * down / area if across > 0 and down > 0 and area > 0 else 0.0


def middle_x(box: Boxed) -> float:
    """Horizontal centre in pixels."""
    return (box.left + box.right) / 2


def middle_y(box: Boxed) -> float:
    """Vertical centre in pixels."""
    return (box.top + box.bottom) / 2


def free_intervals(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The gaps between intervals, left to right; nothing outside them."""
    gaps: list[tuple[float, float]] = []
    reach: float | None = None
    for start, end in sorted(spans):
        if reach is not None and start > reach:
            gaps.append((reach, start))
        reach = end if reach is None else max(reach, end)
    return gaps
