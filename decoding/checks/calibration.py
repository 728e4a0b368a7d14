"""How fast this machine is right now: the time of a fixed benchmark step, and the rates of reading memory and of
arithmetic.

All are the same work each time, whatever the requests are. So two calibrations differ only where the machine does: by
other programs, by its temperature, or because it is another machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

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
