"""Read lines become blocks in reading order."""

from ocr.layout.assembly import assemble
from ocr.layout.regions import Region

__all__ = ["Region", "assemble"]
