"""Timing of device work, with inputs larger than the caches, and of the first token after a known beginning."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch

from decoding.engine import Engine
from decoding.request import Request

_REPLAYS = 7
_REPEATS = 3
# Inputs rotate among copies of at least this size in all, several times the L2 cache of any current GPU.
_COLD_BYTES = 256 * 2**20
_MAX_COPIES = 64
SHARED_TOKENS = 512
OWN_TOKENS = 32
PREFIX_REPEATS = 6


def count_copies(n_bytes: int) -> int:
    """Return how many copies of inputs of `n_bytes` to rotate among, so that none stays in the cache."""
    return max(1, min(-(-_COLD_BYTES // max(n_bytes, 1)), _MAX_COPIES))


def time_each(works: Sequence[Callable[[], object]], device: torch.device) -> float:
    """Return the median seconds of one of `works`, run one after the other as one CUDA graph, or plainly on a CPU."""
    if device.type != "cuda":
        return _time_median(lambda: [work() for work in works]) / len(works)
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
    return statistics.median(times) / len(works)


def measure_copy_bandwidth(device: torch.device) -> float:
    """Return the bytes per second that a large copy reads and writes: the limit of work bound by memory bandwidth."""
    n_bytes = 2**30 if device.type == "cuda" else 2**28
    source = torch.randint(0, 255, (n_bytes,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * n_bytes / time_each([lambda: target.copy_(source)], device)


def measure_read_bandwidth(device: torch.device) -> float:
    """Return the bytes per second of a sum over a large array: the limit of a round, which reads the weights and writes
    little. A copy on a CPU says less about it: some processes copy twice as fast as others."""
    n_bytes = 2**30 if device.type == "cuda" else 2**28
    source = torch.randint(0, 255, (n_bytes,), dtype=torch.uint8, device=device).view(torch.int64)
    return n_bytes / time_each([source.sum], device)


def measure_matmul_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Return the floating-point operations per second of a large matrix product: the limit of arithmetic."""
    n = 8192 if device.type == "cuda" else 2048
    a, b = torch.randn(2, n, n, device=device, dtype=dtype)
    return 2 * n**3 / time_each([lambda: a @ b], device)


def _time_median(work: Callable[[], object]) -> float:
    times = []
    for _ in range(_REPEATS):
        before = time.perf_counter()
        work()
        times.append(time.perf_counter() - before)
    return statistics.median(times)


def measure_first_token_ratios(engine: Engine) -> list[float]:
    """Return the time to the first token of a second request over the first one's, of PREFIX_REPEATS pairs.

    Their prompts share SHARED_TOKENS tokens and end with OWN_TOKENS others.
    """
    ratios = []
    for repeat in range(PREFIX_REPEATS):
        shared = _build_text(engine, SHARED_TOKENS, 7919 * (repeat + 1))
        own = (_build_text(engine, OWN_TOKENS, 104729 * (2 * repeat + which)) for which in (1, 2))
        first, second = (_time_first_token(engine, shared + text) for text in own)
        ratios.append(second / first)
    return ratios


def _build_text(engine: Engine, n_tokens: int, seed: int) -> str:
    """Words that are tokens of their own, so that joined texts have joined tokens."""
    tokenizer = engine.target.tokenizer
    words = [word for word in ("def", "return", "import", "class", "for", "while", "print", "list", "value", "name")
             if len(tokenizer(" " + word, add_special_tokens=False)["input_ids"]) == 1]  # fmt: skip
    return "".join(" " + words[(seed * (place + 1) >> 3) % len(words)] for place in range(n_tokens))


def _time_first_token(engine: Engine, prompt: str) -> float:
    (sample,) = engine.generate(Request(prompt, n=1, max_new_tokens=4, prefix_cache=True)).samples
    assert sample.first_token_s is not None
    return sample.first_token_s
