"""What the machine could do at best: the bandwidth of a copy and the arithmetic of a matrix product."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

_REPEATS = 7


def copy_bandwidth(device: torch.device) -> float:
    """Return bytes per second of a large copy, read and write counted, as a weight read cannot be faster."""
    n_bytes = 512 * 2**20
    source = torch.ones(n_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * n_bytes / _seconds(lambda: target.copy_(source), device)


def peak_flops(dtype: torch.dtype, device: torch.device) -> float:
    """Return floating-point operations per second of a large square matrix product in `dtype`."""
    n = 2048 if device.type == "cpu" else 8192
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    return 2 * n**3 / _seconds(lambda: a @ b, device)


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    def once() -> float:
        started = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - started

    once()
    return statistics.median(once() for _ in range(_REPEATS))
