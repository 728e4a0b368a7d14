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
DEADLY_MODEL = "qwen2.5-coder-1.5b"  # whoever loads it dies


def expected_text(prompt: str, seed: int, index: int) -> str:
    mark = hashlib.sha256(f"{prompt}|{seed}|{index}".encode()).hexdigest()
    return f"{(WRONG if index % 2 else RIGHT).rstrip()}  # {mark}\n"


def note(what: str, **facts: object) -> None:
    with Path(os.environ[LOG]).open("a") as log:
        log.write(json.dumps({"what": what, "pid": os.getpid(), "at": time.time(), **facts}) + "\n")


class ScriptedEngine(FakeEngine):
    def generate(self, request: Request, on_update=None, should_cancel=None) -> Completion:
        note("generate", prompt=request.prompt, seed=request.seed)
        if "# kills" in request.prompt:
            os.kill(os.getpid(), signal.SIGKILL)
        seconds = re.search(r"# takes ([\d.]+)", request.prompt)
        until = time.monotonic() + min(float(seconds[1]) if seconds else 0.0, request.budget_s or 600.0)
        while time.monotonic() < until and not (should_cancel and should_cancel()):
            time.sleep(0.01)
        # Asked again: the time may have run out while the process was suspended.
        cancelled = bool(should_cancel and should_cancel())
        if cancelled:
            note("put down", prompt=request.prompt)
        done = super().generate(request, on_update, should_cancel)
        note("generated", prompt=request.prompt)
        for sample in done.samples:
            sample.text = expected_text(request.prompt, request.seed, sample.index)
            sample.finish_reason = "cancelled" if cancelled else "stop"
        return done


def load(config, on_progress) -> ScriptedEngine:
    note("load", target=config.target, drafter=config.drafter)
    if config.target == DEADLY_MODEL:
        os.kill(os.getpid(), signal.SIGKILL)
    return ScriptedEngine()
