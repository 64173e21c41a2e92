"""A page's pixels cut into the square images the vision tower reads.

Pixel for pixel what the stock image processor makes, but kept as bytes: the
normalisation runs on the device, which spares the host most of its work.

Source: transformers 5.24, image_processing_pil_deepseek_ocr2.py.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ocr.engines.deepseek.upstream import TILE_PX, VIEW_PX, image_tokens, tile_grid
from ocr.errors import PageError

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from PIL import Image

_PADDING_GREY = 127
_MAX_ASPECT = 100


@dataclass(frozen=True, slots=True)
class PageTiles:
    """A page ready for the vision tower.

    `tiles` is uint8 (tiles, 768, 768, 3) in reading order, possibly empty;
    `view` is uint8 (1024, 1024, 3), the whole page padded to a square.
    """

    tiles: NDArray[np.uint8]
    view: NDArray[np.uint8]

    @property
    def tokens(self) -> int:
        """Image tokens the page takes."""
        return image_tokens(len(self.tiles))


def cut(pixels: NDArray[np.uint8], most_tiles: int = 6, *, sharpen: bool = False) -> PageTiles:
    """Tiles and view of a page.

    Args:
        pixels: uint8 RGB (height, width, 3).
        most_tiles: Upper bound of tiles, 0..6; 0 gives the view alone.
        sharpen: Raise the contrast of strokes that resizing made faint.

    Raises:
        PageError: The page is an extreme strip that no view can show.
    """
    import numpy as np
    from PIL import Image

    height, width = pixels.shape[:2]
    if max(height, width) > _MAX_ASPECT * min(height, width):
        raise PageError(
            f"The page is a strip of {width} × {height} pixels, too narrow to hold readable text."
        )
    image = Image.fromarray(pixels)
    grid = tile_grid(width, height, most_tiles) if most_tiles else None
    if grid is None:
        return PageTiles(np.empty((0, TILE_PX, TILE_PX, 3), np.uint8), _view(image))
    # Pillow resizes without the interpreter's lock, so the two can run side by side.
    with ThreadPoolExecutor(1) as beside:
        view = beside.submit(_view, image)
        return PageTiles(_tiles(image, grid, sharpen=sharpen), view.result())


def _tiles(image: Image.Image, grid: tuple[int, int], *, sharpen: bool) -> NDArray[np.uint8]:
    import numpy as np
    from PIL import Image, ImageFilter

    columns, rows = grid
    resized = image.resize((columns * TILE_PX, rows * TILE_PX), Image.Resampling.BICUBIC)
    if sharpen:
        resized = resized.filter(ImageFilter.UnsharpMask(radius=1.2, percent=60, threshold=2))
    canvas = np.array(resized)  # a copy: torch warns of pixels it may not write
    tiles = canvas.reshape(rows, TILE_PX, columns, TILE_PX, 3).swapaxes(1, 2)
    return np.ascontiguousarray(tiles.reshape(-1, TILE_PX, TILE_PX, 3))


def _view(image: Image.Image) -> NDArray[np.uint8]:
    import numpy as np
    from PIL import Image

    scale = VIEW_PX / max(image.size)
    width, height = (round(side * scale) for side in image.size)
    small = np.asarray(image.resize((width, height), Image.Resampling.BICUBIC))
    view = np.full((VIEW_PX, VIEW_PX, 3), _PADDING_GREY, np.uint8)
    left, top = (VIEW_PX - width) // 2, (VIEW_PX - height) // 2
    view[top : top + height, left : left + width] = small
    return view


def normalise(images: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """uint8 (images, size, size, 3) -> (images, 3, size, size) in -1..1, in `dtype`."""
    # Scaled in fp64 and rounded to fp32 before the rest, as the stock processor does.
    scaled = (images.permute(0, 3, 1, 2).double() * (1 / 255)).float()
    return ((scaled - 0.5) / 0.5).to(dtype).contiguous()
