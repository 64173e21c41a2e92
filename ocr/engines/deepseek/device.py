"""What the device says of itself, and how a plan becomes a placement on it."""

from __future__ import annotations

from importlib.util import find_spec

from ocr.engines.deepseek.model import Placement
from ocr.engines.deepseek.plan import DeviceFacts, Plan
from ocr.errors import EngineUnavailable


def device_facts(device: str = "auto") -> DeviceFacts:
    """Facts of the device to use.

    Args:
        device: `auto` (the first GPU), `cpu`, or a torch name such as `cuda:1`.

    Raises:
        EngineUnavailable: A GPU was asked for and none can be used.
    """
    import torch

    if device == "cpu":
        return DeviceFacts("cpu", None, *_host_gb(), triton=False)
    if not torch.cuda.is_available():
        raise EngineUnavailable(
            "The deepseek engine finds no NVIDIA GPU that this torch build can use: "
            "check the driver with nvidia-smi, or set engine: rapid."
        )
    index = torch.device("cuda" if device == "auto" else device).index or 0
    try:
        free, total = torch.cuda.mem_get_info(index)
        capability = torch.cuda.get_device_capability(index)
        name = torch.cuda.get_device_name(index)
    except (RuntimeError, AssertionError) as error:
        raise EngineUnavailable(f"The GPU {device} cannot be used: {error}") from error
    return DeviceFacts(
        name,
        capability,
        total / 1e9,
        free / 1e9,
        flash=find_spec("flash_attn") is not None,
        triton=find_spec("triton") is not None,
    )


def placement(plan: Plan, device: str = "auto") -> Placement:
    """Where the model goes under this plan."""
    on_cpu = plan.dtype == "float32"
    return Placement(
        device="cpu" if on_cpu else ("cuda:0" if device == "auto" else device),
        dtype=plan.dtype,
        grouped=plan.experts == "grouped_mm",
        kernels=plan.kernels,
        graphs=plan.graphs,
        flash=plan.attention == "flash_attention_2",
        tiles_at_once=plan.tiles_at_once,
        limit_share=plan.limit_share,
    )


def _host_gb() -> tuple[float, float]:
    import os

    page = os.sysconf("SC_PAGE_SIZE")
    total = os.sysconf("SC_PHYS_PAGES") * page / 1e9
    return total, os.sysconf("SC_AVPHYS_PAGES") * page / 1e9
