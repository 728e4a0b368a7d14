"""Extraction in a separate process, which can be killed.

Extraction runs Python's parser on untrusted text. The parser may run long while it holds the interpreter's lock, which
stops every other thread of the worker, and deep nesting has crashed interpreters. In a small process it harms nothing
else: it is killed at a CPU limit, and the next answer gets a new one.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from evaluation.datasets import PYTHON, Task
from evaluation.extraction import Extraction, build_unread_extraction, extract
from evaluation.prompting import Mode
from evaluation.sandbox.inside.cpu_clock import read_cpu_s

CPU_S = 0.75
"""CPU time for one answer. Real answers take milliseconds. Even on the most expensive text, extraction's bound of
characters (MAX_READ) is met before this limit, so that the speed of the machine does not decide how an answer is
read."""
WALL_S = 60.0
"""For a process that waits or was stopped and so uses no CPU time."""
MEMORY_BYTES = 2**30
_ROOT = Path(__file__).resolve().parents[1]
_READY = b"ready\n"
_SERVE = "from evaluation.extractor import serve; serve()"


class Extractor:
    """`evaluation.extraction.extract` for hostile text. Safe to use from many threads and after a fork.

    It keeps one process, started on first use; `close` ends it, as does the end of this process.
    """

    def __init__(self, cpu_s: float = CPU_S, wall_s: float = WALL_S) -> None:
        self._cpu_s = cpu_s
        self._wall_s = wall_s
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None

    def extract(self, task: Task, raw: str, mode: Mode) -> Extraction:
        """The program in a raw answer; the answer unread where reading it takes too long or crashes the process.

        The `version` of the result then says so. Raises OSError where no process can be started.
        """
        content = {"task": asdict(_strip_unread_fields(task)), "raw": raw, "mode": mode}
        with self._hold_process():
            found = self._ask(json.dumps(content).encode() + b"\n")
        return build_unread_extraction(task, raw, mode) if found is None else found

    def close(self) -> None:
        """End the process; a later answer starts a new one."""
        with self._hold_process():
            self._end()

    @contextlib.contextmanager
    def _hold_process(self) -> Iterator[None]:
        if self._owner != os.getpid():  # after a fork: the process, and perhaps the lock, belong to the parent
            self._lock, self._owner, self._process = threading.Lock(), os.getpid(), None
        with self._lock:
            yield

    def _ask(self, request: bytes) -> Extraction | None:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = self._start()
            if self._read_line(self._process, math.inf) != _READY:
                self._end()
                raise OSError("the process that reads answers does not start")
        process = self._process
        assert process.stdin is not None
        try:
            cpu_end_s = read_cpu_s(process.pid) + self._cpu_s
            process.stdin.write(request)
            process.stdin.flush()
            answer = self._read_line(process, cpu_end_s)
        except OSError:
            answer = b""
        if not answer.endswith(b"\n"):
            self._end()
            return None
        return Extraction(**json.loads(answer))

    def _start(self) -> subprocess.Popen[bytes]:
        # The service's variables hold secrets: pass none but the one that some interpreters need to start.
        needed = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        return subprocess.Popen(
            [sys.executable, "-s", "-P", "-B", "-c", _SERVE],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
            env={**needed, "PYTHONPATH": str(_ROOT)},
        )  # fmt: skip

    def _read_line(self, process: subprocess.Popen[bytes], cpu_end_s: float) -> bytes:
        """The output of the process up to a line end, its end, its CPU clock at `cpu_end_s`, or the deadline."""
        assert process.stdout is not None
        line, deadline = b"", time.monotonic() + self._wall_s
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                remaining_s = min(deadline - time.monotonic(), cpu_end_s - read_cpu_s(process.pid))
                if remaining_s <= 0:
                    break
                if selector.select(max(0.001, remaining_s)):
                    data = os.read(process.stdout.fileno(), 2**16)
                    if not data:
                        break
                    line += data
        return line

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            with contextlib.suppress(OSError), self._process:  # closing may fail on input that it had not read
                self._process = None


def _strip_unread_fields(task: Task) -> Task:
    """The task without large fields that extraction does not read; a test stays only as a part of the program."""
    test = "" if task.language == PYTHON else task.test
    return replace(task, test=test, canonical_solution="", source=None, signature=None, cases=())


def serve() -> None:
    """The process: reads one answer a line until its input ends."""
    import resource  # noqa: PLC0415  (Unix only; the parent does not need it)
    import signal  # noqa: PLC0415

    for limit, wanted in ((resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(limit)[1]
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(limit, (value, value))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout.buffer.write(_READY)
    sys.stdout.buffer.flush()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        found = extract(Task(**request["task"]), request["raw"], request["mode"])
        answer = json.dumps(asdict(found))
        sys.stdout.buffer.write(answer.encode() + b"\n")
        sys.stdout.buffer.flush()
