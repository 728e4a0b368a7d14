"""The trusted end of zygotes: starts them, sends them jobs, ends jobs and zygotes."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import select
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from itertools import dropwhile
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import psutil

from evaluation.sandbox import filters
from evaluation.sandbox.interpreter import Interpreter, get_dropped_identity
from evaluation.sandbox.limits import Limits
from evaluation.sandbox.tiers import NO_GRANT, PRELOAD, SCRATCH, Grant, Tier

_START_S = 20.0
_START_WITH_PROJECT_S = 180.0
"""It compiles the project and imports the packages that its tests need, perhaps beside other work."""
_LOOK_S = 0.2
"""How often a start that may be stopped is looked at."""
_ANSWER_S = 10.0
_ROUND = 32
_SHARED_SLACK = 96
"""Threads that processes of the same uid may start after a zygote without lowering a candidate's limit (landlock)."""
MARK = "bassline-sandbox-of-"
_LOADER = """
import json, socket, sys, types
control = socket.socket(fileno=int(sys.argv[1]))
del sys.argv[1:], sys.orig_argv[1:]
boot = json.loads(control.recv(1 << 20))
for name, text in boot["sources"]:
    module = types.ModuleType(name)
    module.__path__ = []
    parent, _, child = name.rpartition(".")
    sys.modules[name] = module
    if parent:
        setattr(sys.modules[parent], child, module)
    exec(compile(text, "<" + name + ">", "exec"), module.__dict__)
sys.modules["evaluation.sandbox.inside.zygote"].main(control, boot["settings"])
"""


class ZygoteError(Exception):
    """A zygote that did not start or does not answer."""


@dataclass
class Zygote:
    """A warm process in a tier. `role` is "guest", "checker", "tester" or "launcher"; it gets no source of another."""

    role: str
    tier: Tier
    interpreter: Interpreter
    grant: Grant = NO_GRANT
    is_stopped: Callable[[], bool] = lambda: False  # whether nobody waits for its start any more
    landlock_abi: int = 0
    other_threads: int = 0
    _process: subprocess.Popen[bytes] = field(init=False, repr=False)
    _control: socket.socket = field(init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            policy = filters.build_filter(self._filter_kind)
        except (OSError, ValueError, RuntimeError) as error:
            raise ZygoteError(str(error)) from error
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)
        with theirs:
            try:
                arguments = ["-c", _LOADER, str(theirs.fileno()), get_mark()]
                command = self.tier.build_command(self.interpreter, arguments, self.grant)
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                    pass_fds=[theirs.fileno()], env={"PYTHONHASHSEED": self.tier.hash_seed}, cwd="/",
                    start_new_session=True, **get_dropped_identity(),
                )  # fmt: skip
            except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                self._control.close()
                raise ZygoteError(f"cannot start: {error}") from error
        if not self.tier.namespaces:
            # Programs can read their limit; rounding hides how many other threads run here.
            self.other_threads = -(-_count_uid_threads() // _ROUND) * _ROUND + _SHARED_SLACK
        try:
            self._boot(policy)
        except (OSError, ValueError, RuntimeError) as error:
            reason = self._kill_and_read_stderr() or str(error) or type(error).__name__
            self.close()
            raise ZygoteError(reason) from error

    @property
    def _filter_kind(self) -> Literal["python", "program", "compiler", "writer"]:
        if self.grant.scratch_bytes:
            return "writer"
        if self.role != "launcher":
            return "python"
        return "compiler" if self.grant.writable else "program"

    def _boot(self, policy: filters.Filter) -> None:
        self._control.settimeout(_START_S)
        # A zygote without namespaces is not confined: it must not run packages that came with a dataset.
        preload = (*PRELOAD, *(self.interpreter.preload if self.tier.namespaces else ()))
        settings = {
            "role": self.role,
            "namespaces": self.tier.namespaces,
            "trees": (*self.interpreter.trees, *self.grant.trees),
            "hidden": self.interpreter.hidden,
            "folder": self.grant.folder,
            "writable": self.grant.writable,
            "scratch": SCRATCH if self.grant.scratch_bytes else "",
            "preload": () if self.role == "launcher" else preload,
            "judge_packages": self.interpreter.judge_packages,
            "judge_modules": self.interpreter.judge_modules,
            "packages": self.interpreter.packages,
            "project": self.interpreter.project,
            "filter": policy.bpf.hex(),
            "kill_calls": policy.kill_calls,
        }
        self._control.send(json.dumps({"sources": _load_sources(self.role), "settings": settings}).encode())
        self._await_hello(_START_WITH_PROJECT_S if self.interpreter.project else _START_S)
        hello = self._receive()
        self.landlock_abi = int(hello["landlock_abi"])
        if self.tier.landlock_required and not self.landlock_abi:
            raise RuntimeError("this kernel or container has no Landlock")
        self._control.settimeout(_ANSWER_S)

    def _await_hello(self, limit_s: float) -> None:
        until = time.monotonic() + limit_s
        while not select.select([self._control], [], [], _LOOK_S)[0]:
            if self.is_stopped():
                raise RuntimeError("its start was stopped")
            if time.monotonic() > until:
                raise TimeoutError("timed out")

    def start(self, limits: Limits, descriptors: list[int], more: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Fork a confined process; the first descriptor becomes its output, the others 3, 4, ...

        `more` is what the role needs beside `limits`; in its `rlimits` None removes a limit. Raises ZygoteError.
        """
        rlimits = limits.build_rlimits(self.other_threads) | more.get("rlimits", {})
        kept = {name: value for name, value in rlimits.items() if value is not None}
        job = json.dumps({"cpu_s": limits.cpu_s, "call_cpu_s": limits.call_cpu_s, **more, "rlimits": kept}).encode()
        try:
            socket.send_fds(self._control, [job], descriptors)
        except OSError as error:
            raise ZygoteError(f"the {self.role} zygote has ended: {error}") from error

    def end_job(self) -> dict[str, Any]:
        """Kill the rest of the job; return the zygote's report. Raises ZygoteError."""
        try:
            self._control.send(b"end")
            return self._receive()
        except (OSError, ValueError) as error:
            raise ZygoteError(f"the {self.role} zygote has ended: {error}") from error

    def measure_waited_s(self) -> float:
        """Return how many seconds the threads of the running job were ready to run and waited for a CPU.

        It is 0 where the kernel does not say, and where /proc hides other users' processes.
        """
        waited_ns = 0
        with contextlib.suppress(psutil.Error, OSError, ValueError):
            for process in self._list_job_processes():
                for thread in Path(f"/proc/{process.pid}/task").iterdir():
                    waited_ns += int((thread / "schedstat").read_text().split()[1])
        return waited_ns / 1e9

    def measure_memory_bytes(self) -> int:
        """Return the resident memory of the running job; 0 where /proc hides other users' processes."""
        with contextlib.suppress(psutil.Error, OSError):
            return sum(process.memory_info().rss for process in self._list_job_processes())
        return 0

    def measure_cpu_s(self) -> float:
        """Return the CPU seconds of all processes of the running job; 0 where /proc hides other users' processes."""
        used_s = 0.0
        with contextlib.suppress(psutil.Error, OSError):
            for process in self._list_job_processes():
                with contextlib.suppress(psutil.Error):  # it has ended since
                    used_s += sum(process.cpu_times()[:4])
        return used_s

    def _list_job_processes(self) -> list[psutil.Process]:
        """The processes of the running job."""
        # By position: a program can take the name of bubblewrap, whose processes are the zygote's parents.
        inside = list(dropwhile(lambda process: process.name() == "bwrap", _find_family(self._process.pid)))
        return inside[1:]  # the first is the zygote itself

    def _receive(self) -> dict[str, Any]:
        message = self._control.recv(65536)
        if not message:
            raise ConnectionError("it ended")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _kill_and_read_stderr(self) -> str:
        self._control.close()
        self._process.kill()
        try:
            output = self._process.communicate(timeout=_ANSWER_S)[1].decode("utf-8", "replace").strip()
        except subprocess.TimeoutExpired:  # a child of it still has the pipe
            return ""
        return output.splitlines()[-1] if output else ""

    def close(self) -> None:
        """Kill the zygote and its job, and wait for it."""
        self._control.close()
        self._process.kill()
        self._process.wait(timeout=_ANSWER_S)
        if self._process.stderr is not None:
            self._process.stderr.close()


@dataclass
class JudgeSlot:
    """Two zygotes with separate interpreters: one for candidates, one for tests."""

    guest: Zygote
    checker: Zygote

    @classmethod
    def start(cls, tier: Tier, for_candidates: Interpreter, for_tests: Interpreter) -> JudgeSlot:
        """Start both. Raises ZygoteError."""
        guest = Zygote("guest", tier, for_candidates)
        try:
            return cls(guest, Zygote("checker", tier, for_tests))
        except ZygoteError:
            guest.close()
            raise

    def measure_waited_s(self) -> float:
        """Return how many seconds the running job waited for a CPU, in both of its processes."""
        return self.guest.measure_waited_s() + self.checker.measure_waited_s()

    def close(self) -> None:
        """End both."""
        for zygote in (self.guest, self.checker):
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                zygote.close()


def get_mark() -> str:
    """Return the word that marks the command lines of this process's zygotes and of their forks, and no others.

    It is random and not the pid: a program under test can read its command line in memory.
    """
    return _create_mark(os.getpid())


@functools.cache
def _create_mark(_process: int) -> str:
    return f"{MARK}{secrets.token_hex(8)}."


def _find_family(pid: int) -> list[psutil.Process]:
    """A process and its descendants, parents first. Raises psutil.Error and OSError for one that has ended."""
    if not Path(f"/proc/{pid}/task/{pid}/children").exists():  # small kernels: read every process
        return [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    found, waiting = [], [pid]
    while waiting:
        current = waiting.pop(0)
        found.append(psutil.Process(current))
        for children in Path(f"/proc/{current}/task").glob("*/children"):
            waiting += map(int, children.read_text().split())
    return found


def _load_sources(role: str) -> list[tuple[str, str]]:
    package = "evaluation.sandbox.inside"
    folder = resources.files(package)
    value_modules = ("shared", "plain", "codec", "exceptions") if role != "launcher" else ()
    own = ("variants",) if role == "tester" else ()
    names = (*value_modules, "cpu_clock", "hardening", "scratch", "semaphores", *own, role, "zygote")
    parents = [("evaluation", ""), ("evaluation.sandbox", ""), (package, "")]
    return parents + [(f"{package}.{name}", (folder / f"{name}.py").read_text("utf-8")) for name in names]


def _count_uid_threads() -> int:
    """Return how many threads of the guests' uid run on this machine: without namespaces they share its limit."""
    uid = get_dropped_identity().get("user", os.getuid())
    count = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == uid:
                    count += sum(1 for _ in Path(f"/proc/{entry.name}/task").iterdir())
    return count
