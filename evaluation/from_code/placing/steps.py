"""How long a call may take, counted in steps: function calls, and lines of the candidate."""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

from evaluation.from_code.placing.views import read_views
from evaluation.from_code.recording import objects, values

FILE = "<candidate>"
MAX_STEPS = 200_000
MUTANT_STEPS = 5
"""A mutant may take this many times the original's steps and MAX_STEPS / 20 more; then it is endless."""

VIEW_STEPS = MAX_STEPS // 10
"""Steps of the project's code for all views of a call; a call that takes more has no views."""
MUTANT_CPU_S = 2.0
"""Of a mutant in all its calls; the original has one second for them."""
CHANCE, CLOCK = "chance", "clock"
_DRAWS = ("random", "getrandbits")
_CLOCKS = frozenset({
    "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time",
    "process_time_ns", "now", "utcnow", "today",
})  # fmt: skip
_AGAIN_S = 0.5
"""Until CallStopped is raised again where a mutant caught it."""
_OURS = frozenset(
    each.__code__.co_filename for each in (values.serialize, objects.resolve_name, read_views, json.loads, json.dumps,
                                           json.JSONDecoder.decode, json.JSONEncoder.encode)
)  # fmt: skip
"""Files of the code that reads and writes views."""


class CallStopped(BaseException):
    """Ends a call: it took too long, or waits for an event loop."""


class StepCounter:
    """Ends a call after a number of steps: function calls, and lines of the candidate."""

    def __init__(self, limit: int) -> None:
        self.steps = 0
        self.limit = limit

    def count(self) -> None:
        """Raises CallStopped after too many steps."""
        self.steps += 1
        if self.steps > self.limit:
            raise CallStopped("too long")

    def trace(self, frame: Any, event: str, _value: Any) -> Any:
        """What sys.settrace calls."""
        self.count()
        return self._count_line if frame.f_code.co_filename == FILE else None

    def _count_line(self, frame: Any, event: str, _value: Any) -> Any:
        if event == "line":
            self.count()
        return self._count_line


class CpuTimer:
    """Raises CallStopped in the block after some seconds of CPU time: few steps may take long, for example on a text
    that doubles with each. `is_over` says that it did."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.is_over = self._is_armed = False

    def __enter__(self) -> CpuTimer:
        self._is_armed = True
        signal.signal(signal.SIGVTALRM, self._end)
        signal.setitimer(signal.ITIMER_VIRTUAL, self.limit_s, _AGAIN_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_armed = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _end(self, _number: int, _frame: Any) -> None:
        if self._is_armed:
            self.is_over = True
            raise CallStopped("too long")


class ViewCounter(StepCounter):
    """Counts the steps of the project's code in views, and notes which of them run the function: `dependent` has their
    names by value."""

    def __init__(self, limit: int, function: Any) -> None:
        super().__init__(limit)
        self.code, self.name = function.__code__, function.__name__
        self.dependent: list[set[str]] = []
        self.ran = False

    def trace(self, frame: Any, event: str, _value: Any) -> Any:
        """What sys.settrace calls."""
        if frame.f_code is self.code:
            self.ran = True
        return None if frame.f_code.co_filename in _OURS else super().trace(frame, event, _value)

    def start_value(self, place: int) -> Any:
        """What `read_views` calls after each view of the next value."""
        self.dependent.append(set())
        self.ran = False

        def add(name: str) -> None:
            if self.ran:
                self.dependent[place].add(name)
            self.ran = False

        return add


class ArcTracer(StepCounter):
    """Counts the steps of a call, and notes those from line to line inside the function; `hidden_inputs` says whether
    the call drew numbers by chance or read the clock."""

    def __init__(self, limit: int, first: int, last: int) -> None:
        super().__init__(limit)
        self.first, self.last = first, last
        self.arcs: set[tuple[int, int]] = set()
        self.hidden_inputs: set[str] = set()

    def note_hidden_input(self, _frame: Any, event: str, function: Any) -> None:
        """What sys.setprofile calls."""
        if event != "c_call":
            return
        name, owner = function.__name__, getattr(function, "__self__", None)
        if name in _CLOCKS and (owner is sys.modules.get("time") or isinstance(owner, type)):
            self.hidden_inputs.add(CLOCK)
        elif name == "urandom" or (name in _DRAWS and owner is getattr(sys.modules.get("random"), "_inst", None)):
            self.hidden_inputs.add(CHANCE)

    def trace(self, frame: Any, event: str, _value: Any) -> Any:
        """What sys.settrace calls."""
        self.count()
        code = frame.f_code
        if code.co_filename != FILE:
            return None
        if not self.first <= code.co_firstlineno <= self.last:
            return self._count_line
        previous = [0]

        def trace_line(inner: Any, what: str, _: Any) -> Any:
            if what == "line":
                self.count()
                self.arcs.add((previous[0], inner.f_lineno - self.first))
                previous[0] = inner.f_lineno - self.first
            elif what == "return":
                self.arcs.add((previous[0], -1))
            return trace_line

        return trace_line
