"""Timing of work on a device, and the two rates of a machine that no program exceeds.

A GPU runs asynchronously, so work there is captured in a CUDA graph and timed between two events.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch

_REPLAYS = 7
_CPU_REPEATS = 3
# Inputs rotate among copies that together are several times larger than the L2 cache of any current GPU.
_COLD_BYTES = 256 * 2**20
_MAX_COPIES = 64


def n_copies(n_bytes: int) -> int:
    """Return how many copies of inputs of `n_bytes` to rotate among so that the cache holds none of them."""
    return max(1, min(-(-_COLD_BYTES // max(n_bytes, 1)), _MAX_COPIES))


def seconds_each(works: Sequence[Callable[[], object]], device: torch.device) -> float:
    """Return the median seconds of one of `works`, which run one after the other: as a CUDA graph, or plainly."""
    measure = _seconds_on_gpu if device.type == "cuda" else _seconds_on_cpu
    return measure(works) / len(works)


def copy_bandwidth(device: torch.device) -> float:
    """Return the bytes per second of a large copy, read and written: the limit of work bound by memory."""
    n = 2**27 if device.type == "cuda" else 2**26
    source = torch.randint(2**62, (n,), device=device)
    target = source.clone()  # not torch.empty: the first write to a page costs more than the copy
    return 2 * source.nbytes / seconds_each([lambda: target.copy_(source)], device)


def matmul_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Return the floating-point operations per second of a large matrix product: the limit of arithmetic."""
    n = 8192 if device.type == "cuda" else 2048
    a, b = torch.randn(2, n, n, device=device).to(dtype)
    return 2 * n**3 / seconds_each([lambda: a @ b], device)


def _seconds_on_gpu(works: Sequence[Callable[[], object]]) -> float:
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for work in works:  # compile before the capture
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
    return statistics.median(times)


def _seconds_on_cpu(works: Sequence[Callable[[], object]]) -> float:
    times = []
    for _ in range(_CPU_REPEATS):
        started = time.perf_counter()
        for work in works:
            work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)
