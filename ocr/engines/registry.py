"""Engines by name: which one to take on this machine, and how to make it.

Nothing here imports an engine's libraries until that engine is asked for, so that
`scanmd doctor` and the daemon can ask which engine it would be.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from ocr.engines.base import Engine
from ocr.errors import EngineUnavailable

AUTO = "auto"
ENGINES = {
    "rapid": "ocr.engines.rapid.engine:RapidEngine",
    "deepseek": "ocr.engines.deepseek.engine:DeepseekEngine",
}
"""The engines that come with scanmd: name → `module:Class`."""

_GPU_PACKAGES = ("torch", "transformers")


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine to take and, for a person, why this one."""

    name: str
    why: str


def choose_engine(
    requested: str,
    *,
    model_dir: Path | None = None,
    find_gpu: Callable[[], str | None] | None = None,
    installed: Callable[[str], bool] | None = None,
) -> EngineChoice:
    """The engine that `requested` means on this machine.

    `auto` takes `deepseek` where an NVIDIA device, its packages and the weights are
    present, else `rapid`. Every other name stands for itself.

    Args:
        requested: `auto`, `rapid`, `deepseek`, or `package.module:Class`.
        model_dir: Folder that would hold the weights of `deepseek`.
        find_gpu: Says what is wrong with the GPU, or None when one can be used.
        installed: Whether a package can be imported.
    """
    if requested != AUTO:
        return EngineChoice(requested, f"The settings ask for the engine '{requested}'.")
    obstacle = (find_gpu or _gpu_obstacle)()
    is_installed = installed or _installed
    missing = [name for name in _GPU_PACKAGES if not is_installed(name)]
    if obstacle is None and missing:
        obstacle = f"the package {missing[0]} is not installed (pip install 'scanmd[gpu]')"
    if obstacle is None:
        obstacle = _weights_obstacle(model_dir)
    if obstacle is None:
        return EngineChoice("deepseek", f"An NVIDIA GPU and the weights in {model_dir} are here.")
    return EngineChoice("rapid", f"The CPU engine is used, because {obstacle}.")


def load_engine(name: str, **engine_settings: object) -> Engine:
    """The engine of that name, made but not yet loaded: its `load` does that.

    Args:
        name: As for `choose_engine`.
        engine_settings: Keyword arguments for the engine's class. With `auto`,
            `model_dir` takes part in the choice, and an engine that knows nothing
            of the GPU is not given the settings meant for `deepseek`.

    Raises:
        EngineUnavailable: No such engine, a package is missing, or a setting is
            not one of this engine's.
    """
    if name == AUTO:
        model_dir = engine_settings.get("model_dir")
        choice = choose_engine(AUTO, model_dir=None if model_dir is None else Path(str(model_dir)))
        name = choice.name
        if name != "deepseek":
            engine_settings = {}
    module_name, _, class_name = ENGINES.get(name, name).partition(":")
    if not class_name:
        known = ", ".join([AUTO, *ENGINES])
        raise EngineUnavailable(
            f"There is no engine '{name}'. Known are {known}, or package.module:Class."
        )
    try:
        engine_class = getattr(import_module(module_name), class_name)
    except ImportError as error:
        raise EngineUnavailable(
            f"The engine '{name}' cannot be loaded: {error}. Install what it needs."
        ) from error
    except AttributeError as error:
        raise EngineUnavailable(f"{module_name} has no engine class {class_name}.") from error
    try:
        engine: Engine = engine_class(**engine_settings)
    except TypeError as error:
        raise EngineUnavailable(
            f"The engine '{name}' does not take these settings: {error}."
        ) from error
    return engine


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _weights_obstacle(model_dir: Path | None) -> str | None:
    """What is wrong with the weights folder; None when it looks usable."""
    if model_dir is None:
        return "no folder with the model's weights is configured"
    try:
        with os.scandir(model_dir) as entries:
            found = any(entry.name.endswith(".safetensors") for entry in entries)
    except OSError as error:
        return f"the weights folder {model_dir} cannot be read ({error.strerror})"
    return None if found else f"the weights folder {model_dir} holds no .safetensors file"


def _gpu_obstacle() -> str | None:
    """What is wrong with the NVIDIA GPU; None when one can be used.

    The device nodes are looked at first: without them the driver's library is not
    loaded at all. NVML is asked through ctypes, because importing torch for it would
    cost the daemon hundreds of megabytes.
    """
    if not any(Path(f"/dev/nvidia{number}").exists() for number in range(16)):
        return "this machine has no NVIDIA GPU (no /dev/nvidia0)"
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return "the NVIDIA driver's library libnvidia-ml.so.1 is missing"
    if code := nvml.nvmlInit_v2():
        return f"the NVIDIA driver does not answer (NVML error {code})"
    count = ctypes.c_uint(0)
    code = nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    nvml.nvmlShutdown()
    if code or count.value == 0:
        return "the NVIDIA driver finds no GPU"
    return None
