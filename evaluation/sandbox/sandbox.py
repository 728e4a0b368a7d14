"""The sandbox: the best tier whose self-test passes on this machine, and a pool of warm processes in it."""

from __future__ import annotations

import atexit
import functools
import os
import threading
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from evaluation.sandbox import filters, interpreter, probes, supervisor
from evaluation.sandbox.inside.checker import OBSTACLE
from evaluation.sandbox.interpreter import Interpreter
from evaluation.sandbox.jobs import SandboxJob, SandboxResult, SandboxTask, build_guest_job, build_job
from evaluation.sandbox.limits import Limits
from evaluation.sandbox.packages import JUDGE_MODULES, JUDGE_PACKAGES, Packages, PackagesError, stage_judge_packages
from evaluation.sandbox.pool import Pool
from evaluation.sandbox.programs import ProgramSlot, Tools
from evaluation.sandbox.tiers import TIERS, Tier, list_tiers
from evaluation.sandbox.zygotes import JudgeSlot, ZygoteError
from evaluation.verdicts import Status


class SandboxUnavailableError(Exception):
    """No tier of isolation works here; the message names the failed step of each tier in one sentence."""


class Sandbox:
    """A tier that passed its self-test. Safe to use from many threads; each running job has its own slot."""

    _detected: dict[tuple[int, str | None, str], Sandbox] = {}  # noqa: RUF012
    _detecting = threading.Lock()

    def __init__(
        self, tier: Tier, python: Interpreter, refused: tuple[str, ...] = (), packages: Packages | None = None
    ) -> None:
        self.tier = tier
        self.packages = packages
        self.python = python
        self._refused = refused
        self._pool = Pool(self._start_slot)
        # Tests that import the judge's packages, in the checker and in the guest.
        self._package_pools = {
            in_guest: Pool(functools.partial(self._start_slot, in_guest)) for in_guest in (False, True)
        }
        self._program_pools: dict[Tools, Pool[ProgramSlot]] = {}
        self._lock = threading.Lock()
        self._with_hash_seed: dict[str, Sandbox] = {}
        self._landlock_abi = 0
        atexit.register(self.close)

    @classmethod
    def detect(cls, only: str | None = None, packages: Packages | None = None) -> Sandbox:
        """Return the best tier whose self-test passes now; the choice is made once per process.

        `only` restricts the choice to one of TIERS. Programs may import `packages` beside the standard library; the
        self-test runs with them in place. Raises SandboxUnavailableError, and ValueError for an unknown tier.
        """
        if only is not None and only not in TIERS:
            raise ValueError(f"unknown sandbox tier {only!r}: choose one of {', '.join(TIERS)}")
        key = (os.getpid(), only, "" if packages is None else packages.sha256)
        with cls._detecting:
            if key not in cls._detected:
                tiers = [t for t in list_tiers() if only in (None, t.name)]
                cls._detected[key] = cls._choose(tiers, packages)
            return cls._detected[key]

    @classmethod
    def _choose(cls, tiers: list[Tier], packages: Packages | None) -> Sandbox:
        try:
            python = interpreter.find_interpreter()
        except RuntimeError as error:
            raise SandboxUnavailableError(f"No sandbox: {error}.") from error
        if packages is not None:
            python = replace(python, packages=packages.folder)
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
    def tier_name(self) -> str:
        """Return "bwrap" or "landlock"."""
        return self.tier.name

    def with_hash_seed(self, seed: str) -> Sandbox:
        """Return the same tier where sets of texts have another order: to find what depends on it."""
        with self._lock:
            if seed not in self._with_hash_seed:
                tier = replace(self.tier, hash_seed=seed)
                self._with_hash_seed[seed] = Sandbox(tier, self.python, self._refused, self.packages)
            return self._with_hash_seed[seed]

    def describe(self) -> dict[str, Any]:
        """Return the mechanisms that the isolation relies on, for logs, the health endpoint and stored results."""
        return {
            "tier": self.tier_name,
            "namespaces": self.tier.namespaces,
            "userns_disabled": self.tier.disable_userns,
            "landlock_abi": self._landlock_abi,
            "seccomp_rules": filters.build_filter().n_rules,
            "interpreter": self.python.executable,
            "python": ".".join(map(str, self.python.version)),
            "packages": "" if self.packages is None else self.packages.label,
            "probes": len(probes.list_applicable()),
            "refused": list(self._refused),
        }

    def verify(self) -> list[str]:
        """Run the probes now; return the reasons to refuse this tier, empty if every probe was blocked."""
        result = self.probe(probes.list_applicable())
        reasons = probes.list_failures(result)
        if result.status == Status.SANDBOX_ERROR:
            return [result.detail]
        if not reasons:
            return []
        outcome = "failed" if result.got is None else "found open"
        return [f"the self-test {outcome}: {', '.join(reasons)}"]

    def probe(self, names: list[str]) -> SandboxResult:
        """Run the named built-in probes as one job; it passes if all of them were blocked."""
        return self.run(probes.build_probe_job(names, self.tier.list_root_names(self.python)), probes.LIMITS)

    def build_job(self, program: str, task: SandboxTask, reference: str = "") -> SandboxJob:
        """Return the job that judges a program by its task's test, without running it."""
        return build_job(program, task, self.python.names, reference)

    def judge(self, program: str, task: SandboxTask, limits: Limits, reference: str = "") -> SandboxResult:
        """Judge a program by its task's test: against a proxy where the test allows it, else in the guest.

        `reference` is the task's own program, for a test that calls it. A fault of the sandbox is not raised: it is a
        result with the status `sandbox_error`.
        """
        result = self.run(self.build_job(program, task, reference), limits)
        if result.status == OBSTACLE:
            # Only running the test showed that a value of it cannot be sent to the proxy.
            result = self.run(build_guest_job(program, task, self.python.names, result.detail), limits)
        return result

    def run(self, job: SandboxJob, limits: Limits) -> SandboxResult:
        """Run one job as it is; see `judge`. Its status may be "obstacle": the test needs the guest."""
        return replace(self._run(job, limits), trust=job.trust)

    def _run(self, job: SandboxJob, limits: Limits) -> SandboxResult:
        if fault := job.fault or self._find_missing(job):
            return SandboxResult(Status.SANDBOX_ERROR, fault, lasting=True)
        if job.has_many_inputs:
            limits = limits.extend_for_many_inputs()
            if job.in_guest:
                limits = replace(limits, call_cpu_s=None)  # its one call runs the whole test
        try:
            with (self._package_pools[job.in_guest] if job.needs_judge_packages else self._pool).borrow_slot() as slot:
                return supervisor.run_job(slot, job, limits)
        except (ZygoteError, OSError) as error:
            return SandboxResult(Status.SANDBOX_ERROR, str(error))

    def _find_missing(self, job: SandboxJob) -> str:
        """Why the packages that a test imports cannot be used in its process, in a sentence; "" where they can."""
        allowed = self.packages.names if self.packages is not None and job.in_guest else frozenset()
        missing = sorted(set(job.packages) - allowed - set(JUDGE_PACKAGES))
        if missing:
            return f"the test imports {', '.join(missing)}, which the judge does not have"
        if job.needs_judge_packages:
            try:
                stage_judge_packages(self.python.version[:2])
            except PackagesError as error:
                return f"the test imports numpy, which the judge cannot use: {error}"
        return ""

    def _start_slot(self, in_guest: bool | None = None) -> JudgeSlot:
        """Start the processes for tests that import only the standard library (None), or the judge's packages: in the
        guest or in the checker."""
        # The checker never imports the operator's packages.
        for_candidates, for_tests = self.python, replace(self.python, packages="")
        try:
            if in_guest is not None:
                folder = stage_judge_packages(self.python.version[:2])
                chosen = for_candidates if in_guest else for_tests
                equipped = replace(chosen, judge_packages=folder, judge_modules=JUDGE_MODULES)
                for_candidates, for_tests = (equipped, for_tests) if in_guest else (for_candidates, equipped)
            slot = JudgeSlot.start(self.tier, for_candidates, for_tests)
        except (PackagesError, ZygoteError) as error:
            raise ZygoteError(f"no process could be started: {error}") from error
        self._landlock_abi = slot.guest.landlock_abi
        return slot

    def open_program_slot(self, tools: Tools) -> AbstractContextManager[ProgramSlot]:
        """A slot that runs programs of another toolchain, for one job. Raises ZygoteError where none can be started."""
        with self._lock:
            pool = self._program_pools.get(tools)
            if pool is None:
                pool = Pool(lambda: ProgramSlot.start(self.tier, self.python, tools))
                self._program_pools[tools] = pool
        return pool.borrow_slot()

    def close(self) -> None:
        """End all idle processes; a later job starts new ones."""
        for judge_pool in (self._pool, *self._package_pools.values()):
            judge_pool.close()
        with self._lock:
            program_pools, others = list(self._program_pools.values()), list(self._with_hash_seed.values())
        for pool in program_pools:
            pool.close()
        for other in others:
            other.close()
