"""An engine that does what a comment in the prompt says: `# takes SECONDS`, or `# kills` for a task that kills the
process. The texts follow from prompt, seed and index alone, so that a sample in the wrong place is found out."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import time
from pathlib import Path

from decoding.request import Completion, Request
from tests.fakes import RIGHT, WRONG, FakeEngine

LOG = "CHAOS_LOG"
DEADLY_MODEL = "qwen2.5-coder-1.5b"  # a process that loads it dies


def expected_text(prompt: str, seed: int, index: int) -> str:
    mark = hashlib.sha256(f"{prompt}|{seed}|{index}".encode()).hexdigest()
    return f"{(WRONG if index % 2 else RIGHT).rstrip()}  # {mark}\n"


def note(what: str, **facts: object) -> None:
    with Path(os.environ[LOG]).open("a") as log:
        log.write(json.dumps({"what": what, "pid": os.getpid(), "at": time.time(), **facts}) + "\n")


class ScriptedEngine(FakeEngine):
    def generate(self, request: Request, on_update=None, should_cancel=None) -> Completion:
        until = self._begin(request)
        while time.monotonic() < until and not (should_cancel and should_cancel()):
            time.sleep(0.01)
        # Asked again: the time may have run out while the process was suspended.
        return self._end(request, on_update, bool(should_cancel and should_cancel()))

    def serve(self, requests, on_update=None, should_cancel=None):
        """All at the same time."""
        incoming, in_progress, n_taken = iter(requests), {}, 0
        while (request := next(incoming, self)) is not self or in_progress:
            if isinstance(request, Request):
                in_progress[n_taken] = (request, self._begin(request))
                n_taken += 1
            for position, (each, until) in list(in_progress.items()):
                cancelled = bool(should_cancel and should_cancel(position))
                if cancelled or time.monotonic() >= until:
                    del in_progress[position]
                    yield position, self._end(each, None, cancelled)
            time.sleep(0.01)

    def _begin(self, request: Request) -> float:
        note("generate", prompt=request.prompt, seed=request.seed)
        if "# kills" in request.prompt:
            os.kill(os.getpid(), signal.SIGKILL)
        seconds = re.search(r"# takes ([\d.]+)", request.prompt)
        left_s = (request.budget_s or 600.0) - request.waited_s
        return time.monotonic() + min(float(seconds[1]) if seconds else 0.0, left_s)

    def _end(self, request: Request, on_update, cancelled: bool) -> Completion:
        if cancelled:
            note("put down", prompt=request.prompt)
        done = super().generate(request, on_update)
        note("generated", prompt=request.prompt, put_down=cancelled)
        for sample in done.samples:
            sample.text = expected_text(request.prompt, request.seed, sample.index)
            sample.finish_reason = "cancelled" if cancelled else "stop"
        return done


def load(config, on_progress) -> ScriptedEngine:
    note("load", target=config.target, drafter=config.drafter)
    if config.target == DEADLY_MODEL:
        os.kill(os.getpid(), signal.SIGKILL)
    return ScriptedEngine()
