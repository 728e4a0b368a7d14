"""CUDA graphs of a model's forward: the host starts a round on the GPU in a few calls and reads its outcome once.

A forward of a small model is hundreds of kernels, and starting them from Python takes longer than running them. A
CUDA graph is recorded once per shape and started as a whole. To keep shapes few, rows and tokens per row are rounded up
to buckets. Rows beyond the batch and tokens beyond a row's draft compute on token 0 after everything committed; what
they write is garbage past a length, which the ragged cache never reads (cache.py).

`verify_graphs.py` and `drawing_graphs.py` build on this. A replay reads lengths, pages and sampling parameters from
buffers that stay in place, so it stays valid while rows grow and for every request; all shapes are captured when an
engine is loaded.

If the capture of a shape fails, one line names it, and rounds of this shape run without a graph from then on.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch

from decoding.attention.runner import ModelRunner
from decoding.limits import MAX_DRAFT_LENGTH
from decoding.memory.cache import RaggedCache
from decoding.memory.layout import Layout
from decoding.models.errors import get_first_line
from kernels.rows import RaggedRows
from kernels.upload import stage

_log = logging.getLogger(__name__)
_TOKENS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, MAX_DRAFT_LENGTH + 1)
# Runs before a capture: kernels are compiled, libraries choose theirs, and buffers are allocated.
_WARM_UPS = 2


def round_up_rows(n: int) -> int:
    """Return the number of rows that graphs are captured for, the least at or above `n`: 1, 2, 4, then eights."""
    return next((size for size in (1, 2, 4) if size >= n), -(-n // 8) * 8)


def round_up_tokens(n: int) -> int:
    """Return the tokens per row (k + 1) that graphs are captured for, the least at or above `n`."""
    return next(size for size in _TOKENS if size >= n)


def list_row_buckets(max_rows: int) -> list[int]:
    """Return the buckets of 1 to `max_rows` rows, largest first, so that later captures reuse the pool's memory."""
    return sorted({round_up_rows(n) for n in range(1, max_rows + 1)}, reverse=True)


@dataclass(frozen=True, slots=True)
class GraphWork:
    """Something to replay: `inputs` are device buffers to fill first; `run` returns tensors that stay in place."""

    inputs: dict[str, torch.Tensor]
    run: Callable[[], tuple[torch.Tensor, ...]]


class GraphRunner(Protocol):
    """What runs in graphs: its device, its name for messages, and the cache that its graphs write to."""

    name: str
    cache: RaggedCache

    @property
    def device(self) -> torch.device:
        """The device that it runs on."""


Runner = TypeVar("Runner", bound=GraphRunner)


class Graphs(ABC, Generic[Runner]):
    """The captured graphs of one runner over its cache, by shape; `failed` are the shapes whose capture failed.

    `captured_s` are the seconds that captures have taken, `n_bytes` the memory of the graphs on a GPU.
    """

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.failed: set[Hashable] = set()
        self.captured_s = 0.0
        self.n_bytes = 0
        self._works: dict[Hashable, GraphWork] = {}
        self._shared: torch.Tensor | None = None
        self._pool = torch.cuda.graph_pool_handle() if runner.device.type == "cuda" else None

    @property
    def all_failed(self) -> bool:
        """Whether no capture has succeeded, though some were tried."""
        return bool(self.failed) and not self._works

    @property
    def shapes(self) -> list[Any]:
        """The captured shapes, (rows, ..)."""
        return list(self._works)

    @abstractmethod
    def list_shapes(self, max_rows: int, longest_draft: int) -> list[Any]:
        """Return the shapes of up to `max_rows` rows and drafts of up to `longest_draft`, largest first."""

    @abstractmethod
    def capture(self, shape: Any) -> None:
        """Capture one of these shapes, before a clock runs."""

    def replay(
        self, key: Hashable, make: Callable[[], GraphWork], values: dict[str, Any]
    ) -> tuple[torch.Tensor, ...] | None:
        """Run the work of a shape on `values`, captured at its first use; None where its capture has failed.

        `values` are host lists or device tensors, by the names of the work's inputs; they are copied in.
        """
        if key in self.failed:
            return None
        work = self._works.get(key)
        if work is None:
            started = time.perf_counter()
            work = make()
            _fill(work, values)
            try:
                work = self._works[key] = self._capture(work)
            except Exception as error:  # compilers and drivers raise errors of many types
                self.failed.add(key)
                what, why = f"{self.runner.name}, shape {key}", get_first_line(error)
                level = logging.WARNING if len(self.failed) == 1 else logging.DEBUG
                _log.log(level, "no CUDA graph of %s (%s): its rounds run without, more slowly", what, why)
                return None
            self.captured_s += time.perf_counter() - started
        else:
            _fill(work, values)
        return work.run()

    def _capture(self, work: GraphWork) -> GraphWork:
        """Record the work as a graph; on a CPU, which has none, a replay runs the work again."""
        if self._pool is None:
            return work
        torch.cuda.empty_cache()  # as a capture does: what is reserved beyond this belongs to the graph
        reserved = torch.cuda.memory_reserved()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                work.run()
        torch.cuda.current_stream().wait_stream(stream)
        graph, current = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            # Other threads decode meanwhile: only what this one starts must fit into a graph.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                outputs = work.run()
        except Exception:
            _end_capture(self._pool, current)
            raise
        self.n_bytes += max(torch.cuda.memory_reserved() - reserved, 0)

        def replay() -> tuple[torch.Tensor, ...]:
            graph.replay()
            return outputs

        return GraphWork(work.inputs, replay)

    def keep(self, values: torch.Tensor) -> torch.Tensor:
        """Copy values [..., V] of the vocabulary to the beginning of the buffer that all graphs share, and return that.

        It holds them until the next replay: each graph would retain its own. The largest shape is captured first; its
        runs before the capture make the buffer.
        """
        flat = values.flatten(0, -2)
        if self._shared is None or len(self._shared) < len(flat):
            self._shared = torch.empty_like(flat, memory_format=torch.contiguous_format)
        return self._shared[: len(flat)].copy_(flat).view(values.shape)

    def buffers(self, **shapes: tuple[int, ...]) -> dict[str, torch.Tensor]:
        """Return int64 input buffers of the given shapes."""
        return {name: torch.zeros(size, dtype=torch.int64, device=self.runner.device) for name, size in shapes.items()}


def _end_capture(pool: Any, stream: torch.cuda.Stream) -> None:
    """End what a failed capture has begun, and make `stream` current again.

    After an operation that a capture forbids, torch leaves its own stream current, allocates from the graphs' pool, and
    refuses random numbers, and replays too, because the default generator is in a capture. Ending another one, of a
    graph that nobody replays, ends that.
    """
    torch.cuda.set_stream(stream)
    with suppress(RuntimeError):  # where the capture did end, there is nothing to give back
        torch._C._cuda_endAllocateToPool(stream.device_index, pool)
    one = torch.ones(1, device=stream.device)
    with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
        one.add_(1)


def build_uniform_layout(cache: RaggedCache, R: int, T: int, length: torch.Tensor) -> Layout:
    """Return the layout of T tokens in each of R rows of a cache after `length` [R], all on the device."""
    packed = torch.arange(R * T, device=length.device)
    position = (length[:, None] + torch.arange(T, device=length.device)).flatten()
    each = torch.full((R,), T, dtype=torch.int32, device=length.device)
    page_table, size = cache.table.pages[:R], cache.pool.page_size
    rows = RaggedRows(packed[::T].int(), each, length.int(), position, T, page_table=page_table, page_size=size)
    return Layout(rows, cache.find_slots(packed // T, position))


def forward(
    runner: ModelRunner, ids: torch.Tensor, length: torch.Tensor, keep: torch.Tensor | None = None
) -> torch.Tensor:
    """Return a model's logits [R * T, V] of `ids` [R, T] after `length` [R]; [R, V] at positions `keep` if given."""
    assert runner.cache.max_rows >= len(ids)
    R, T = ids.shape
    layout = build_uniform_layout(runner.cache, R, T, length)
    runner.cache.use(layout)
    return runner.forward_packed(ids.view(1, -1), layout, keep)


def _fill(work: GraphWork, values: dict[str, Any]) -> None:
    """Copy values into the inputs; a value smaller than its input fills the beginning."""
    for name, value in values.items():
        buffer = work.inputs[name]
        tensor = stage(value, buffer.device)
        part = buffer[tuple(slice(size) for size in tensor.shape)]
        part.copy_(tensor, non_blocking=True)
