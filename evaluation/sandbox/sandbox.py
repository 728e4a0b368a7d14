"""The sandbox: the best tier whose self-test passes on this machine, and a pool of warm processes in it."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from evaluation.sandbox import filters, interpreter, probes, supervisor
from evaluation.sandbox.gvisor import inside_gvisor
from evaluation.sandbox.inside.checker import OBSTACLE
from evaluation.sandbox.interpreter import Interpreter
from evaluation.sandbox.jobs import Job, Result, Task, in_guest, prepare
from evaluation.sandbox.limits import Limits
from evaluation.sandbox.packages import Packages
from evaluation.sandbox.tiers import TIERS, Tier, candidates
from evaluation.sandbox.zygotes import Slot, ZygoteError
from evaluation.verdicts import Status


class SandboxUnavailableError(Exception):
    """No tier of isolation works here; the message names the failed step of each tier in one sentence."""


@dataclass
class _Pool:
    """Idle slots of one process; a fork must not share zygotes with its parent."""

    process: int = field(default_factory=os.getpid)
    idle: list[Slot] = field(default_factory=list)
    # bubblewrap dies with the thread that started it, so one thread that lives as long as the process starts them all.
    starter: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "sandbox-starter"))


class Sandbox:
    """A tier that passed its self-test. Safe to use from many threads; each running job has its own slot."""

    _detected: dict[tuple[int, str | None, str | None, str], Sandbox] = {}  # noqa: RUF012
    _detecting = threading.Lock()

    def __init__(
        self, tier: Tier, python: Interpreter, refused: tuple[str, ...] = (), packages: Packages | None = None
    ) -> None:
        self._tier = tier
        self._packages = packages
        self._python = python
        self._refused = refused
        self._lock = threading.Lock()
        self._pool = _Pool()
        self._landlock_abi = 0
        atexit.register(self.close)

    @classmethod
    def detect(cls, only: str | None = None, outer: str | None = None, packages: Packages | None = None) -> Sandbox:
        """Return the best tier whose self-test passes now; the choice is made once per process.

        `only` restricts the choice to one of TIERS. `outer="gvisor"` declares that the service runs under gVisor, which
        is checked. Programs may import `packages` beside the standard library; the self-test runs with them in place.
        Raises SandboxUnavailableError, and ValueError for an unknown tier.
        """
        if only is not None and only not in TIERS:
            raise ValueError(f"unknown sandbox tier {only!r}: choose one of {', '.join(TIERS)}")
        key = (os.getpid(), only, outer, "" if packages is None else packages.sha256)
        with cls._detecting:
            if key not in cls._detected:
                tiers = [t for t in candidates(outer) if only in (None, t.name)]
                cls._detected[key] = cls._choose(tiers, packages)
            return cls._detected[key]

    @classmethod
    def _choose(cls, tiers: list[Tier], packages: Packages | None) -> Sandbox:
        try:
            python = interpreter.find()
        except RuntimeError as error:
            raise SandboxUnavailableError(f"No sandbox: {error}.") from error
        if packages is not None:
            python = python.with_packages(packages.folder)
        refused: list[str] = []
        for tier in tiers:
            sandbox = cls(tier, python, tuple(refused), packages)
            reasons = sandbox.verify()
            if not reasons:
                return sandbox
            sandbox.close()
            refused.append(f"{tier.label}: {'; '.join(reasons).rstrip('.')}.")
        raise SandboxUnavailableError(" ".join(["No tier of isolation works here.", *refused]))

    @property
    def tier(self) -> str:
        """Return "bwrap", "landlock" or "seccomp"."""
        return self._tier.name

    @property
    def isolation(self) -> Tier:
        """Return the tier with its settings, for processes that are not of this pool."""
        return self._tier

    @property
    def python(self) -> Interpreter:
        """Return the interpreter that programs run on."""
        return self._python

    @property
    def packages(self) -> Packages | None:
        """Return the packages that programs may import beside the standard library."""
        return self._packages

    def describe(self) -> dict[str, Any]:
        """Return the mechanisms that the isolation relies on, for logs, the health endpoint and stored results."""
        return {
            "tier": self.tier,
            "namespaces": self._tier.namespaces,
            "userns_disabled": self._tier.disable_userns,
            "landlock_abi": self._landlock_abi,
            "seccomp_rules": filters.build(self._tier.open_files).names,
            "interpreter": self._python.executable,
            "python": ".".join(map(str, self._python.version)),
            "packages": "" if self._packages is None else self._packages.label,
            "probes": len(probes.applicable()),
            "refused": list(self._refused),
        }

    def verify(self) -> list[str]:
        """Run the probes now; return the reasons to refuse this tier, empty if every probe was blocked."""
        if self._tier.name == "seccomp" and not inside_gvisor():
            return ["gVisor was declared but this kernel is not gVisor"]
        result = self.probe(probes.applicable())
        reasons = probes.failures(result)
        if result.status == Status.SANDBOX_ERROR:
            return [result.detail]
        return [f"the self-test found open: {', '.join(reasons)}"] if reasons else []

    def probe(self, names: list[str]) -> Result:
        """Run the named built-in probes as one job; it passes if all of them were blocked."""
        return self.run(probes.job(names, self._tier.root_names(self._python)), probes.LIMITS)

    def prepare(self, program: str, task: Task) -> Job:
        """Return the job that judges a program by its task's test, without running it."""
        return prepare(program, task, self._python.names)

    def judge(self, program: str, task: Task, limits: Limits) -> Result:
        """Judge a program by its task's test: against a proxy where the test allows it, else in the guest.

        A fault of the sandbox is not raised: it is a result with the status `sandbox_error`.
        """
        result = self.run(self.prepare(program, task), limits)
        if result.status == OBSTACLE:
            # Only running the test showed that a value of it cannot be sent to the proxy.
            result = self.run(in_guest(program, task), limits)
        return result

    def run(self, job: Job, limits: Limits) -> Result:
        """Run one job as it is; see `judge`. Its status may be "obstacle": the test needs the guest."""
        return replace(self._run(job, limits), trust=job.trust)

    def _run(self, job: Job, limits: Limits) -> Result:
        try:
            slot = self._acquire()
        except ZygoteError as error:
            return Result(Status.SANDBOX_ERROR, f"no process could be started: {error}")
        try:
            result = supervisor.run(slot, job, limits)
        except (ZygoteError, OSError) as error:
            slot.close()
            return Result(Status.SANDBOX_ERROR, str(error))
        except BaseException:
            slot.close()
            raise
        self._release(slot)
        return result

    def _current(self) -> _Pool:
        with self._lock:
            if self._pool.process != os.getpid():
                self._pool = _Pool()
            return self._pool

    def _acquire(self) -> Slot:
        pool = self._current()
        with contextlib.suppress(IndexError):
            return pool.idle.pop()
        slot = pool.starter.submit(Slot.start, self._tier, self._python).result()
        self._landlock_abi = slot.guest.landlock_abi
        return slot

    def _release(self, slot: Slot) -> None:
        self._current().idle.append(slot)

    def close(self) -> None:
        """End all idle processes; a later job starts new ones."""
        pool = self._current()
        while pool.idle:
            pool.idle.pop().close()
