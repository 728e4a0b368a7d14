"""Timing on a device that works behind the host: whole graphs between two events, over data that no cache holds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch

_REPLAYS = 7
# Inputs are rotated among copies of at least this size in all: several times the L2 cache of any GPU of today.
_COLD_BYTES = 256 * 2**20
_MAX_COPIES = 64


def n_copies(n_bytes: int) -> int:
    """Return how many copies of inputs of `n_bytes` to rotate among, so that none is still in the cache."""
    return max(1, min(-(-_COLD_BYTES // max(n_bytes, 1)), _MAX_COPIES))


def seconds_each(works: Sequence[Callable[[], object]], device: torch.device) -> float:
    """Return the median seconds of one of `works`, run one after the other as one CUDA graph, or plainly on a CPU."""
    if device.type != "cuda":
        return _median(lambda: [work() for work in works], time.perf_counter) / len(works)
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for work in works:  # compilations are done before the capture
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for work in works:
            work()
    graph.replay()
    times = []
    for _ in range(_REPLAYS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(float(start.elapsed_time(end)) / 1000)
    return statistics.median(times) / len(works)


def copy_bandwidth(device: torch.device) -> float:
    """Return the bytes per second that a large copy reads and writes: the ceiling of everything bound by memory."""
    n_bytes = 2**30 if device.type == "cuda" else 2**26
    source = torch.randint(0, 255, (n_bytes,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * n_bytes / seconds_each([lambda: target.copy_(source)], device)


def matmul_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Return the floating-point operations per second of a large matrix product: the ceiling of arithmetic."""
    n = 8192 if device.type == "cuda" else 256
    a, b = torch.randn(2, n, n, device=device, dtype=dtype)
    return 2 * n**3 / seconds_each([lambda: a @ b], device)


def _median(work: Callable[[], object], clock: Callable[[], float]) -> float:
    times = []
    for _ in range(3):
        before = clock()
        work()
        times.append(clock() - before)
    return statistics.median(times)
