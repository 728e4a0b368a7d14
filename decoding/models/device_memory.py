"""Memory of a device: what this process may have, how to give it back, and how to tell that there is none."""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path

import psutil
import torch

from decoding.models.device import pick_device

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
