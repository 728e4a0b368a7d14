"""A load test that a button of the page Capacity starts: `bassline bench load` beside this service.

The command measures services of its own and stores what it found. This process only starts it, from its worker, which
decodes nothing meanwhile.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from app.completions.forms import EXAMPLE
from app.context import Context
from app.errors import BadInputError, ConflictError
from app.language_models.service import cached_references, list_models
from app.runs.service import require_allowed
from app.ui.units import seconds

RATES, N, BUDGET_S = (0.2, 0.5, 1.0, 2.0), 4, 5.0
ARMS = 2  # services, measured in turn
WINDOWS_S = (20.0, 60.0, 300.0)  # for which requests arrive at each rate
START_S = 30.0  # to start a service and load a small model
POLL_S = 0.25
STOP_S = 60.0  # to stop the services and to store what is done
WHAT = "A load test"
PROGRAM = (sys.executable, "-m", "app.cli")
_STORED = re.compile(r"^stored: /capacity/([0-9a-f-]{36})", re.MULTILINE)
_LEFT = re.compile(r"; about (\d+) s of windows left$")


def about_s(window_s: float) -> float:
    """Seconds that a load test takes: each service idle and at every rate, each window with the last answers."""
    return ARMS * ((len(RATES) + 1) * (window_s + BUDGET_S) + START_S)


def choices() -> list[tuple[str, str]]:
    """(value, text) of the models to choose from: those in the cache first, of these the one Completion begins with."""
    cached = cached_references()
    models = sorted(list_models(), key=lambda model: (model.ref not in cached, model.ref != EXAMPLE["target"]))
    return [(model.ref, model.ref if model.ref in cached else f"{model.ref} (is downloaded first)") for model in models]


def lengths() -> list[tuple[str, str]]:
    """(value, text) of the windows to choose from."""
    return [(f"{one:g}", f"{seconds(one)} per rate: about {about_s(one) / 60:.0f} minutes") for one in WINDOWS_S]


def command(target: str, window_s: float) -> list[str]:
    """The words after `bassline` that make the load test."""
    rates = ",".join(f"{rate:g}" for rate in RATES)
    return [
        "bench", "load", "--target", target, "--rates", rates, "--budget", f"{BUDGET_S:g}", "--n", str(N),
        "--duration", f"{window_s:g}",
    ]  # fmt: skip


@dataclass
class Measurement:
    """One load test. `stored` are the ids of its results once it has ended, `error` why it has none."""

    target: str
    window_s: float
    stored: list[uuid.UUID] = field(default_factory=list)
    error: str = ""
    cancelled: bool = False
    ended: bool = False
    log: str = ""
    started: float | None = None  # on the monotonic clock

    @property
    def step(self) -> str:
        """What it does now, in the words of the command."""
        if self.started is None:
            return "Waiting until the worker has finished the task under way"
        return _LEFT.sub("", self.log.rpartition("\n")[2]) or "Starting"

    @property
    def left_s(self) -> float:
        """Seconds until its end, about: by the command once it measures rates, before that by the clock."""
        whole = about_s(self.window_s)
        found = _LEFT.search(self.log)
        by_clock = whole if self.started is None else max(self.started + whole - time.monotonic(), 0.0)
        return float(found[1]) if found and "idle" not in self.step else by_clock

    @property
    def done(self) -> float:
        """The share that is done, about."""
        return 1 - min(self.left_s / about_s(self.window_s), 1.0)


class LoadTests:
    """The load test that this service makes, or made last: None before the first."""

    def __init__(self) -> None:
        self.last: Measurement | None = None

    def start(self, ctx: Context, target: str, window: str) -> None:
        """Has the worker make a load test. Raises BadInputError, and ConflictError where it cannot be made now."""
        if (why := refusal(ctx)) is not None:
            raise ConflictError(why)
        if target not in {ref for ref, _ in choices()}:
            raise BadInputError(f"target is {target[:60]!r}: choose one of the models", "target")
        if window not in {value for value, _ in lengths()}:
            raise BadInputError(f"duration is {window[:60]!r}: choose one of the lengths", "duration")
        require_allowed(ctx, target, "none")
        found = Measurement(target, float(window))
        ctx.exclusive.submit(WHAT, lambda: _measure(ctx, found))
        self.last = found

    def cancel(self, ctx: Context) -> None:
        """Ends the load test; the rates that are done are stored. Does nothing without one."""
        if self.last is None:
            return
        self.last.cancelled = True
        if ctx.exclusive.withdraw():
            self.last.ended = True


def refusal(ctx: Context) -> str | None:
    """Why no load test can be started from the page; None where one can."""
    if not ctx.settings.embedded:
        return (
            "here pages and workers are separate processes, so that this one cannot give a load test its machine: run "
            "the command on the machine of a worker that has nothing else to do"
        )
    return None


def _measure(ctx: Context, measurement: Measurement) -> None:
    """Runs the command until it ends, is cancelled or this process stops. No program is judged here meanwhile."""
    measurement.started = time.monotonic()
    ctx.engines.drop()  # their memory is for the services
    try:
        with ctx.cpu, tempfile.TemporaryDirectory(prefix="bassline-load-test-") as folder:
            _run(ctx, measurement, Path(folder) / "log")
    finally:
        measurement.ended = True


def _run(ctx: Context, measurement: Measurement, log: Path) -> None:
    environment = {**os.environ, "BASSLINE_DATABASE_URL": ctx.settings.database}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*PROGRAM, *command(measurement.target, measurement.window_s)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=output, env=environment,
            start_new_session=True,  # Ctrl-C is for this process, which ends the command in order
        )  # fmt: skip
    asked_to_stop = False
    while process.poll() is None:
        measurement.log = log.read_text(errors="replace").strip()
        if (measurement.cancelled or ctx.stopping.is_set()) and not asked_to_stop:
            asked_to_stop = True
            process.terminate()
            threading.Timer(STOP_S, process.kill).start()
        time.sleep(POLL_S)
    measurement.log = log.read_text(errors="replace").strip()
    measurement.stored = [uuid.UUID(text) for text in _STORED.findall(measurement.log)]
    if process.returncode and not measurement.cancelled:
        lines = [line for line in measurement.log.splitlines() if not line.startswith("Error: benchmark ")]
        measurement.error = lines[-1].removeprefix("Error: ") if lines else "it says nothing"
