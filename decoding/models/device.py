"""The device and dtype of a model, chosen for the hardware where the user names none, and memory on the device."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import resource
import sys
from pathlib import Path

import psutil
import torch

from decoding.models.errors import ModelError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def pick_device(device: str) -> torch.device:
    """Return the device; `auto` is the GPU if there is one. Raises `ModelError` for a missing or unknown device."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device not in ("cpu", "cuda"):
        raise ModelError(f"device {device!r} is not known: give auto, cpu or cuda.")
    if device == "cuda" and not torch.cuda.is_available():
        raise ModelError("device is cuda, but PyTorch finds no GPU: give auto or cpu.")
    return torch.device(device)


def pick_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """Return the dtype; `auto` is bfloat16 if the hardware multiplies it, else float16 (GPU) or float32 (CPU).

    Raises `ModelError` for an unknown name.
    """
    if dtype in DTYPES:
        return DTYPES[dtype]
    if dtype != "auto":
        raise ModelError(f"dtype {dtype!r} is not known: give auto, {', '.join(DTYPES)}.")
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    return torch.bfloat16 if cpu_multiplies_bfloat16() else torch.float32


def cpu_multiplies_bfloat16() -> bool:
    """Whether the CPU has bfloat16 multiply instructions; without them bfloat16 is slower than float32."""
    return _has_any("avx512_bf16", "amx_bf16", "bf16")


def cpu_multiplies_bytes() -> bool:
    """Whether an x86 CPU sums products of unsigned and signed bytes in 32 bits; without VNNI or AMX they overflow."""
    return _has_any("avx512_vnni", "avx_vnni", "amx_int8")


def _has_any(*features: str) -> bool:
    """Whether the CPU has one of these instruction sets, as PyTorch and Linux name them."""
    if hasattr(torch.cpu, "get_capabilities"):
        capabilities = torch.cpu.get_capabilities()
        return any(capabilities.get(feature) for feature in features)
    cpuinfo = Path("/proc/cpuinfo")
    words = set(cpuinfo.read_text().split()) if cpuinfo.exists() else set()
    return not words.isdisjoint(features)


def get_device_name(device: torch.device) -> str:
    """Return the hardware's name for figures: the GPU model, or the CPU model and its number of cores."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor() or platform.machine()}, {os.cpu_count()} cores"


# The limit of a container: cgroup v2, then v1. Without a limit they hold "max" or a number beyond any memory.
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_COMMON_POOL = (0, 0)  # of PyTorch's allocator for GPUs; each set of graphs has another
# What PyTorch's allocator for CPUs says, on POSIX and on Windows.
_NO_MEMORY = ("can't allocate memory", "not enough memory")


def measure_available_bytes(device: str) -> int:
    """Return the bytes that this process has or could have on `device`, an `EngineConfig.device`.

    On a CPU that is the machine's memory that others leave, within the limit of the container. Raises ModelError for a
    device that is not here.
    """
    on = pick_device(device)
    if on.type == "cuda":
        return torch.cuda.mem_get_info(on)[0] + torch.cuda.memory_reserved(on)
    left: int = psutil.virtual_memory().available + psutil.Process().memory_info().rss
    return min([left, *_read_cgroup_limits()])


def count_free_bytes(device: torch.device) -> int:
    """Return the bytes that this process could still allocate on `device`.

    On a GPU what graphs hold in pools of their own is not among them: only their captures can use it.
    """
    if device.type == "cpu":
        return measure_available_bytes(device.type) - int(psutil.Process().memory_info().rss)
    free: int = torch.cuda.mem_get_info(device)[0]
    index = torch.cuda.current_device() if device.index is None else device.index
    for segment in torch.cuda.memory_snapshot():  # type: ignore[no-untyped-call]
        if segment["device"] == index and segment["segment_pool_id"] == _COMMON_POOL:
            free += segment["total_size"] - segment["allocated_size"]
    return free


def measure_peak_memory(device: torch.device) -> int:
    """Return the most memory used so far: allocated on the device on CUDA, resident in the process on a CPU."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def release_unused() -> None:
    """Give memory of dropped objects back to the system.

    Python's cycles, PyTorch's allocator for GPUs and glibc's heap keep it otherwise: after smollm2-135m was loaded and
    dropped, 1.1 of its 1.3 GB stayed with the process, and after loading it again 1.5 GB.
    """
    gc.collect()
    torch.cuda.empty_cache()  # does nothing where CUDA is not in use
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an allocation failed, on a GPU or in PyTorch's allocator for CPUs, which has no error type."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(message in str(error) for message in _NO_MEMORY)
    )


def _read_cgroup_limits() -> list[int]:
    texts = [path.read_text().strip() for path in _CGROUP_LIMITS if path.exists()]
    return [int(text) for text in texts if text.isdecimal()]
