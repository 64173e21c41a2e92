"""One network on the CPU: an ONNX file run by OpenVINO.

OpenVINO rather than onnxruntime because it reads the same page in three quarters
of the time, and in half where the processor multiplies bfloat16 natively.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ocr.errors import EngineError, EngineUnavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _Entry(Protocol):
    value: Mapping[str, object]


class _Model(Protocol):
    """The part of `openvino.Model` that is used here."""

    def has_rt_info(self, path: list[str]) -> bool: ...

    def get_rt_info(self, path: list[str]) -> _Entry: ...


_KEPT_SHAPES = 4
"""Input shapes whose compiled kernels are kept, when the caller says nothing."""


class Network:
    """A compiled model that maps one float32 array to float32 arrays.

    Args:
        path: The ONNX file.
        threads: How many cores to use, 1 and up.
        kept_shapes: For how many input shapes compiled kernels are kept; more save
            time where shapes recur and cost memory.

    Raises:
        EngineUnavailable: OpenVINO cannot be imported or refuses the file.
    """

    def __init__(self, path: Path, *, threads: int, kept_shapes: int = _KEPT_SHAPES) -> None:
        try:
            import openvino
        except ImportError as error:
            raise EngineUnavailable(
                f"OpenVINO cannot be imported ({error}): install scanmd's requirements again."
            ) from error
        try:
            core = openvino.Core()
            model = core.read_model(path)
            self.metadata = _metadata(model)
            compiled = core.compile_model(
                model,
                "CPU",
                {
                    "INFERENCE_NUM_THREADS": threads,
                    "NUM_STREAMS": 1,
                    "ENABLE_CPU_PINNING": False,
                    "CPU_RUNTIME_CACHE_CAPACITY": str(kept_shapes),
                },
            )
        except RuntimeError as error:
            raise EngineUnavailable(f"OpenVINO cannot load {path.name}: {error}") from error
        self._request: Any = compiled.create_infer_request()
        self._outputs = len(compiled.outputs)

    def __call__(self, batch: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        """Run once. The arrays handed back are valid until the next call.

        Raises:
            EngineError: The runtime failed on this input.
        """
        try:
            self._request.infer({0: np.ascontiguousarray(batch)}, share_inputs=True)
        except RuntimeError as error:
            raise EngineError(f"OpenVINO failed on an input of shape {batch.shape}.") from error
        return [self._request.get_output_tensor(i).data for i in range(self._outputs)]


def usable_cores() -> int:
    """How many cores this process may run on."""
    return len(os.sched_getaffinity(0))


def _metadata(model: _Model) -> dict[str, str]:
    """What the ONNX file says of itself, such as its character dictionary."""
    if not model.has_rt_info(["framework"]):
        return {}
    entries = model.get_rt_info(["framework"]).value
    return {str(key): str(getattr(entry, "value", entry)) for key, entry in entries.items()}
