"""What is measured of an engine on this machine: the cost of verifies, the machine's speed, equal bits in any batch."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from decoding.attention.runner_pool import RunnerPool
from decoding.checks.invariance import MIN_ROWS, is_batch_invariant
from decoding.costs import SIZES, VerifyCost, measure_verify_cost
from decoding.models.loaded import LoadedModel
from decoding.models.weight_formats import use_threads_for
from decoding.request import Calibration

N_TOKENS = 8
_REPEATS = 5
# Seconds after which no further run is begun: on a crowded machine one verify may take as long.
_TIME_LIMIT_S = 0.5
# Larger than the caches of a CPU or GPU, so that it is read from memory.
_BUFFER_BYTES = 128 * 2**20
# A GPU reads the buffer in less time than a launch takes, so it is read several times in a row.
_READS = {"cpu": 1, "cuda": 50}
# Rows and columns of the matrices: large enough for the full rate of arithmetic.
_MATRIX = {"cpu": 1024, "cuda": 8192}


def calibrate(verify: Callable[[int], None], device: torch.device, dtype: torch.dtype) -> Calibration:
    """Return the least time of `verify(N_TOKENS)` and the rates on `device`, of up to five runs each.

    The rates are measured by reading a buffer and by multiplying two square matrices of `dtype`. The least is the time
    that the work itself takes: what disturbs a single run only ever makes it longer.

    `verify` verifies that many dummy tokens and leaves no state (`TargetRunner.verify_dummy`).
    """
    verify_s = _measure_least_s(lambda: verify(N_TOKENS), device)
    buffer = torch.zeros(_BUFFER_BYTES // 4, dtype=torch.float32, device=device)
    reads = _READS[device.type]

    def read() -> None:
        for _ in range(reads):
            buffer.sum()

    read_s = _measure_least_s(read, device)
    n = _MATRIX[device.type]
    matrix = torch.ones(n, n, dtype=dtype, device=device)
    product_s = _measure_least_s(lambda: matrix @ matrix, device)
    return Calibration(verify_s, _BUFFER_BYTES * reads / read_s, 2 * n**3 / product_s)


def _measure_least_s(work: Callable[[], object], device: torch.device) -> float:
    """The least seconds of a few runs of `work`, each until the device has done it."""
    until = time.perf_counter() + _TIME_LIMIT_S
    _time_work(work, device)  # the first run allocates, and wakes the processor
    runs = [_time_work(work, device)]
    while len(runs) < _REPEATS and time.perf_counter() < until:
        runs.append(_time_work(work, device))
    return min(runs)


def _time_work(work: Callable[[], object], device: torch.device) -> float:
    _wait(device)
    started = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - started


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


# The most rows of a verify that is timed.
_DUMMY_ROWS = 8


class EngineMeasurements:
    """Measures in runners of the engine's pool; what depends on the target alone is measured once for it."""

    def __init__(self, target: LoadedModel, pool: RunnerPool) -> None:
        self._target = target
        self._pool = pool

    def get_verify_cost(self) -> VerifyCost:
        """Return the seconds of a verify by its tokens."""
        if self._pool.has_graphs:  # which are this engine's own
            return self._time_verifies()
        return self._target.compute_once("verify_cost", self._time_verifies)

    @torch.inference_mode()
    def _time_verifies(self) -> VerifyCost:
        longest = min(SIZES[-1], self._target.context_length - 1)
        with use_threads_for(self._target.weights), self._pool.acquire(_DUMMY_ROWS) as runners:
            return measure_verify_cost(lambda n_tokens: runners.target.verify_dummy(min(n_tokens, longest)))

    def is_batch_invariant(self) -> bool:
        """Return whether a token's logits do not depend on its batch here."""
        with use_threads_for(self._target.weights):
            return self._target.compute_once(
                "batch_invariant", lambda: is_batch_invariant(self._pool.make_runner(self._target, MIN_ROWS))
            )

    @torch.inference_mode()
    def calibrate(self) -> Calibration:
        """Return how fast the machine is now."""
        with self._pool.acquire(_DUMMY_ROWS) as runners:

            def verify(n_tokens: int) -> None:
                with use_threads_for(self._target.weights):
                    runners.target.verify_dummy(n_tokens)

            return calibrate(verify, self._target.device, self._target.dtype)
