"""Programs of other toolchains in the sandbox: started, fed and read line by line, and ended.

A program gets lines on descriptor 3 and answers with lines on descriptor 4. What it prints goes elsewhere and is
counted. It is ended at a limit of wall clock, CPU, memory or output, and then it says nothing more.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import selectors
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from evaluation.sandbox.interpreter import NOBODY, Interpreter, get_dropped_identity
from evaluation.sandbox.jobs import describe_exit
from evaluation.sandbox.limits import NOTICEABLE_WAIT_S, Limits
from evaluation.sandbox.supervisor import open_pipe
from evaluation.sandbox.tiers import Grant, Tier
from evaluation.sandbox.zygotes import Zygote, ZygoteError
from evaluation.verdicts import Status

FOLDER = "{folder}"
"""In a command: the folder of the job."""
MAX_LINE = 2**20
"""Largest line of a program, bytes."""
_WATCH_S = 0.05
"""How often the limits of a running program are looked at."""
_START_S = 10.0
_KEPT_OUTPUT = 2**16
"""Bytes of the output that are kept; the rest is read and thrown away."""
_PIPE_BYTES = 2**20
_READ = 2**20
"""Bytes that one read asks for."""
_MEMORY_SHARE = 0.5
"""A program that crashed with this share of its memory in use ran out of it: a runtime's heap limit is lower."""


COMPILE_LIMITS = Limits(
    cpu_s=20, wall_s=30.0, memory_bytes=2 * 2**30, file_bytes=64 * 2**20, open_files=256, threads=64
)


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a toolchain; the first word is an absolute path. It runs in the folder of the job."""

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Tools:
    """How the programs of a language are compiled and run, and what they may read.

    `reserves_bytes` is the address space that a runtime reserves beyond what it uses: V8, the JVM and Go do. Their
    memory is limited by RLIMIT_DATA with this addition, and resident memory is watched; 0 asks for RLIMIT_AS.
    """

    run: Command
    trees: tuple[str, ...] = ()  # of the toolchain, bound read-only
    compile: Command | None = None
    compile_limits: Limits = COMPILE_LIMITS
    folder_bytes: int = 128 * 2**20  # what a compiler may leave in the folder of its job
    reserves_bytes: int = 0
    run_threads: int = 16


class ProgramEndedError(Exception):
    """The program has ended: `status` and `detail` say why."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


@dataclass(slots=True)
class ProgramSlot:
    """A folder for the files of a job, a zygote that runs its program, and one that compiles it if that is needed."""

    tools: Tools
    folder: Path
    runner: Zygote
    compiler: Zygote | None = None

    @classmethod
    def start(cls, tier: Tier, interpreter: Interpreter, tools: Tools) -> ProgramSlot:
        """Make the folder and start the zygotes. Raises ZygoteError."""
        folder = Path(tempfile.mkdtemp(prefix="bassline-programs-"))
        if get_dropped_identity():
            os.chown(folder, NOBODY, NOBODY)
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            runner = Zygote("launcher", tier, interpreter, Grant(tools.trees, str(folder)))
            stack.callback(runner.close)
            compiler = None
            if tools.compile is not None:
                compiler = Zygote("launcher", tier, interpreter, Grant(tools.trees, str(folder), writable=True))
            stack.pop_all()
        return cls(tools, folder, runner, compiler)

    def write_files(self, files: Mapping[str, str]) -> None:
        """Make these texts the only files of the folder."""
        for entry in os.scandir(self.folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                Path(entry.path).unlink()
        for name, text in files.items():
            path = self.folder / name
            path.write_text(text, "utf-8", "surrogatepass")
            path.chmod(0o644)

    def measure_used_bytes(self) -> int:
        """The size of the folder's content."""
        total = 0
        for folder, _, names in os.walk(self.folder):  # a compiler removes its own temporary files meanwhile
            for name in names:
                with contextlib.suppress(OSError):
                    total += Path(folder, name).lstat().st_size
        return total

    def close(self) -> None:
        """End the zygotes and remove the folder."""
        for zygote in (self.runner, self.compiler):
            if zygote is not None:
                with contextlib.suppress(OSError, subprocess.SubprocessError):
                    zygote.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class RunningProgram:
    """One started program. Use it in a `with` statement: its end kills all of its processes."""

    def __init__(self, slot: ProgramSlot, limits: Limits, used_cpu_s: float = 0.0, compiling: bool = False) -> None:
        self._slot, self._limits, self._compiling = slot, limits, compiling
        self._cpu_limit_s = max(0.01, limits.cpu_s - used_cpu_s)
        self.output = bytearray()
        self.printed = 0
        self.cpu_s = 0.0
        self.wall_s = 0.0
        self.waited_s = 0.0
        self.exit_code = 0
        self._lines = bytearray()
        self._to_send = bytearray()
        self._open: dict[int, str] = {}

    def __enter__(self) -> Self:
        """Start it. Raises ZygoteError where that fails, which is never the program's doing."""
        command = self._slot.tools.compile if self._compiling else self._slot.tools.run
        zygote = self._slot.compiler if self._compiling else self._slot.runner
        assert command is not None
        assert zygote is not None
        self._zygote = zygote
        self._started = self._looked = time.monotonic()
        with contextlib.ExitStack() as kept, contextlib.ExitStack() as ours:
            with contextlib.ExitStack() as theirs:
                self._output_fd, their_output = open_pipe(kept, theirs)
                self._lines_fd, their_lines = open_pipe(kept, theirs)
                their_cases, self._cases_fd = open_pipe(theirs, kept)
                started, their_started = open_pipe(ours, theirs)
                descriptors = [their_output, their_cases, their_lines, their_started]
                zygote.start(self._limits, descriptors, self._build_job(command))
            self._check_started(started)
            kept.pop_all()  # `__exit__` closes them
        self._open = {self._output_fd: "output", self._lines_fd: "lines"}
        for descriptor in (*self._open, self._cases_fd):
            os.set_blocking(descriptor, False)
        with contextlib.suppress(OSError):
            # Usual output fits, so that no program waits for this thread.
            fcntl.fcntl(self._output_fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        for descriptor in {self._output_fd, self._lines_fd, self._cases_fd}:
            os.close(descriptor)
        self.wall_s = time.monotonic() - self._started
        report = self._zygote.end_job()
        self.cpu_s, self.exit_code = float(report["cpu_s"]), int(report["exit_code"])
        if isinstance(error, ProgramEndedError) and error.status is Status.CRASHED:
            used_memory = report["memory_kib"] * 1024 >= _MEMORY_SHARE * self._limits.memory_bytes
            if self.cpu_s >= self._cpu_limit_s:
                error.status = Status.TIMEOUT
                error.detail = f"the program used more than {self._limits.cpu_s} CPU seconds"
            elif used_memory:
                error.status = Status.MEMORY
                error.detail = f"the program ran out of memory ({describe_exit(self.exit_code)})"
            else:
                error.detail = f"the program ended without an answer ({describe_exit(self.exit_code)})"

    def _build_job(self, command: Command) -> dict[str, Any]:
        folder, tools, limits = str(self._slot.folder), self._slot.tools, self._limits
        rlimits: dict[str, int | None] = {"CPU": math.ceil(self._cpu_limit_s) + 1}
        if tools.reserves_bytes:
            rlimits |= {"AS": None, "DATA": limits.memory_bytes + tools.reserves_bytes}
        return {
            "argv": [word.replace(FOLDER, folder) for word in command.argv],
            "env": {name: value.replace(FOLDER, folder) for name, value in command.env},
            "folder": folder,
            "cpu_s": self._cpu_limit_s,
            "rlimits": rlimits,
        }

    def _check_started(self, descriptor: int) -> None:
        """Wait until the kernel has replaced the launcher. Raises ZygoteError with its reason."""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            reason = os.read(descriptor, 1000) if selector.select(_START_S) else b"it did not start in time"
        if reason:
            self._zygote.end_job()
            raise ZygoteError(reason.decode("utf-8", "replace"))

    def ask(self, line: bytes) -> bytes:
        """Send a line; return the line that comes back. Raises ProgramEndedError."""
        self._to_send += line
        return self.read()

    def read(self) -> bytes:
        """The next line. Raises ProgramEndedError."""
        while b"\n" not in self._lines:
            if len(self._lines) > MAX_LINE:
                raise ProgramEndedError(Status.FORGED, f"a reply is longer than {MAX_LINE} bytes")
            if self._lines_fd not in self._open:
                raise ProgramEndedError(Status.CRASHED, "the program ended without an answer")
            self._handle_next_event()
        line, _, rest = self._lines.partition(b"\n")
        self._lines = bytearray(rest)
        if len(line) > MAX_LINE:
            raise ProgramEndedError(Status.FORGED, f"a reply is longer than {MAX_LINE} bytes")
        return bytes(line)

    def has_unread(self) -> bool:
        """Whether it has sent something that nobody asked for."""
        if self._lines_fd in self._open:
            with contextlib.suppress(BlockingIOError):
                self._lines += os.read(self._lines_fd, 65536)
        return bool(self._lines)

    def wait(self, on_look: Callable[[], None] = lambda: None) -> None:
        """Wait until it has ended by itself, and call `on_look` meanwhile. Raises ProgramEndedError at a limit."""
        while self._open:
            self._handle_next_event()
            on_look()

    def _handle_next_event(self) -> None:
        """Handle what happens next: something arrives, something can be sent, or it is time to look at the limits."""
        # Before what has arrived is read: this thread may be late, and the program in time.
        now = time.monotonic()
        with selectors.DefaultSelector() as selector:
            for descriptor in self._open:
                selector.register(descriptor, selectors.EVENT_READ)
            if self._to_send:
                selector.register(self._cases_fd, selectors.EVENT_WRITE)
            events = selector.select(_WATCH_S)
        for key, _ in events:
            if key.fd == self._cases_fd:
                self._send()
            else:
                self._receive(key.fd)
        if self.printed > self._limits.output_bytes:
            raise ProgramEndedError(
                Status.OUTPUT_LIMIT, f"the program printed more than {self._limits.output_bytes} bytes"
            )
        if now - self._looked >= _WATCH_S:
            self._looked = now
            self._look_at_limits(now)

    def _send(self) -> None:
        try:
            sent = os.write(self._cases_fd, self._to_send)
        except BrokenPipeError:
            sent = len(self._to_send)
        del self._to_send[:sent]

    def _receive(self, descriptor: int) -> None:
        data = os.read(descriptor, _READ)
        if not data:
            del self._open[descriptor]
        elif descriptor == self._output_fd:
            self.printed += len(data)
            self.output += data[: _KEPT_OUTPUT - len(self.output)]
        else:
            self._lines += data

    def _look_at_limits(self, now: float) -> None:
        limits = self._limits
        if self._zygote.measure_memory_bytes() > limits.memory_bytes:
            raise ProgramEndedError(Status.MEMORY, f"the program used more than {limits.memory_bytes // 2**20} MiB")
        # A compiler's processes share one limit; the zygote's exact clock reads only the first.
        if self._compiling and self._zygote.measure_cpu_s() > limits.cpu_s:
            raise ProgramEndedError(Status.TIMEOUT, f"the program used more than {limits.cpu_s} CPU seconds")
        if self._compiling and self._slot.measure_used_bytes() > self._slot.tools.folder_bytes:
            raise ProgramEndedError(
                Status.OUTPUT_LIMIT, f"it wrote more than {self._slot.tools.folder_bytes // 2**20} MiB of files"
            )
        if now - self._started > limits.wall_s + self.waited_s:
            waited_s = self._zygote.measure_waited_s()
            if waited_s <= self.waited_s + NOTICEABLE_WAIT_S:
                raise ProgramEndedError(Status.TIMEOUT, f"no answer within {limits.wall_s:g} s")
            self.waited_s = waited_s
