"""The time that the parts of a round take on the device, measured without waiting for it in between."""

from __future__ import annotations

import time

import torch


class Stopwatch:
    """Takes times: `perf_counter` on a CPU; CUDA events on a GPU, whose work runs behind the host."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._times: list[float] = []
        self._events: list[torch.cuda.Event] = []

    def mark(self) -> None:
        """Take the time at which all work started so far is done."""
        if self._on_gpu:
            event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            event.record()
            self._events.append(event)
        else:
            self._times.append(time.perf_counter())

    def read_intervals(self) -> list[float]:
        """Return the seconds between successive marks; waits for the last one."""
        if self._on_gpu:
            self._events[-1].synchronize()
            pairs = zip(self._events[:-1], self._events[1:], strict=True)
            return [a.elapsed_time(b) / 1000 for a, b in pairs]
        return [b - a for a, b in zip(self._times[:-1], self._times[1:], strict=True)]
