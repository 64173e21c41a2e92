"""What the layout model says of a page: regions with a kind and a score."""

from __future__ import annotations

from dataclasses import dataclass

from ocr.document import BBox


@dataclass(frozen=True, slots=True)
class Region:
    """One region, in the same upright pixels as the lines of the page.

    `kind` is the layout model's own word in lower case: `text`, `title`,
    `figure`, `figure_caption`, `table`, `table_caption`, `header`, `footer`,
    `reference`, `equation`. `score` is 0..1.
    """

    kind: str
    bbox: BBox
    score: float
