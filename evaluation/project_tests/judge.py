"""The judge: an answer in its module, the tests that cover it, a verdict. Safe to use from many threads."""

from __future__ import annotations

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from evaluation.project_tests import archive, running
from evaluation.project_tests.archive import ArchiveError
from evaluation.project_tests.running import LIMITS, ProjectTestJob, SuiteOutcomes, VariantOutcomes
from evaluation.project_tests.screen import find_forbidden_name
from evaluation.project_tests.spec import ProjectTests
from evaluation.project_tests.splice import splice
from evaluation.sandbox import Limits, PackagesError, Sandbox, SandboxResult
from evaluation.sandbox.packages import stage_files
from evaluation.sandbox.pool import Pool
from evaluation.sandbox.supervisor import is_stopped
from evaluation.sandbox.tiers import NO_GRANT, Grant
from evaluation.sandbox.zygotes import Zygote, ZygoteError
from evaluation.verdicts import Status, Trust

ArchiveLoader = Callable[[str], bytes | None]
"""Gives the content of an archive by the sha256 of its files, None where there is none."""
VARIABLE_PREFIX = "BASSLINE_TESTS_"
"""Of the variables whose values a dataset does not hold. Without it, a dataset could name any secret of a worker's
environment, and an answer could tell it in its traceback."""
_SCRATCH_BYTES = 64 * 2**20
_MAX_PROJECTS = 2
"""Projects whose zygotes are kept; each is a process of some tens of megabytes."""


class _StagedProject(Pool[Zygote]):
    """The files of a project and its packages as folders, and zygotes that have them."""

    def __init__(self, sandbox: Sandbox, folder: str, packages: str) -> None:
        names = sorted(path.name.removesuffix(".py") for path in Path(packages).iterdir())
        preload = tuple(name for name in names if name.isidentifier())
        preload = ("pytest", "_pytest.unittest", *preload)
        python = replace(sandbox.python, packages=packages, project=folder, preload=preload)
        grant = Grant(scratch_bytes=_SCRATCH_BYTES) if sandbox.tier.has_scratch else NO_GRANT
        super().__init__(lambda: Zygote("tester", sandbox.tier, python, grant, is_stopped))
        self.folder = folder


class ProjectJudge:
    """Judges answers by the tests of their projects, whose files it gets from `archives`."""

    def __init__(self, sandbox: Sandbox, archives: ArchiveLoader) -> None:
        self.sandbox = sandbox
        self.archives = archives
        self._lock = threading.Lock()
        self._projects: OrderedDict[tuple[str, str], _StagedProject] = OrderedDict()

    def judge(self, program: str, spec: ProjectTests, limits: Limits = LIMITS) -> SandboxResult:
        """The result of a program: `passed` only where every test of the spec was collected, ran and passed."""
        try:
            project = self._load_project(spec)
            source = (Path(project.folder) / spec.file).read_text("utf-8")
            spliced = splice(source, spec.qualified, spec.line, program)
        except (ArchiveError, PackagesError, OSError, ValueError) as error:
            return _build_fault(str(error)[:500], lasting=True)
        if spliced is None:
            return SandboxResult(*_explain_missing_function(program, spec.qualified), trust=Trust.IN_GUEST)
        if name := find_forbidden_name(spliced.answer, source):
            reason = f"the answer uses {name}, with which a program reaches the process of its tests"
            return SandboxResult(Status.FORGED, reason, trust=Trust.IN_GUEST)
        limits = replace(limits, memory_bytes=min(limits.memory_bytes, spec.memory_mib * 2**20))
        return self.run(spliced.source, spec, spec.tests, limits).result

    def run(
        self, source: str, spec: ProjectTests, tests: Sequence[str], limits: Limits = LIMITS, stop_early: bool = True
    ) -> SuiteOutcomes:
        """The outcomes of tests with the source of the spec's file replaced. Raises ArchiveError, PackagesError."""
        project = self._load_project(spec)
        variables = self._read_variables(spec)
        if isinstance(variables, str):
            return SuiteOutcomes(_build_fault(variables, lasting=True))
        job = ProjectTestJob(spec, project.folder, source, tests, stop_early, variables)
        try:
            with project.borrow_slot() as zygote:
                return running.run_tests(zygote, job, limits)
        except (ZygoteError, OSError) as error:
            return SuiteOutcomes(_build_fault(f"no process for the tests: {error}"))

    def find_killed_variants(
        self,
        source: str,
        spec: ProjectTests,
        tests: Sequence[str],
        variants: Sequence[str],
        limits: Limits,
        max_unkilled: int | None = None,
    ) -> VariantOutcomes:
        """Whether the original passes the tests, and which variants of the function surely fail one. Stops as soon as
        more than `max_unkilled` are not known to fail.

        Each text is the function alone, within its classes. Many share a process, so never give it a model's answer.
        Raises ArchiveError, PackagesError.
        """
        project = self._load_project(spec)
        variables = self._read_variables(spec)
        allowed = len(variants) if max_unkilled is None else max_unkilled
        found = VariantOutcomes()
        while found.tried < len(variants) and found.count_unkilled() <= allowed and not isinstance(variables, str):
            job = ProjectTestJob(spec, project.folder, source, tests, False, variables)
            left = allowed - found.count_unkilled()
            try:
                with project.borrow_slot() as zygote:
                    later = running.run_variants(zygote, job, limits, variants[found.tried :], left)
            except (ZygoteError, OSError):
                break
            found.add(later)
            if not later.tried:
                break
        return found

    def _read_variables(self, spec: ProjectTests) -> dict[str, str] | str:
        """The variables of the tests, or why they cannot run here."""
        tier = self.sandbox.tier
        if spec.writes and not tier.has_scratch:
            return (
                f"the task's tests write files, and the sandbox's tier {tier.name} has no folder for them: judge where "
                "bubblewrap 0.7 or later works (`bassline doctor`)"
            )
        environment = {
            name: os.environ.get(VARIABLE_PREFIX + name) if value is None else value
            for name, value in spec.environment.items()
        }
        if missing := [name for name, value in environment.items() if value is None]:
            return (
                f"the task's tests need the variable {missing[0]}, whose value is not stored: set "
                f"{VARIABLE_PREFIX}{missing[0]} where Bassline judges (for its workers, too)"
            )
        return {name: value for name, value in environment.items() if value is not None}

    def _load_project(self, spec: ProjectTests) -> _StagedProject:
        key = spec.project, spec.installed
        with self._lock:
            if key not in self._projects:
                folders = [
                    self._stage_archive(kind, sha256)
                    for kind, sha256 in zip(("project", "installed"), key, strict=True)
                ]
                self._projects[key] = _StagedProject(self.sandbox, *folders)
            self._projects.move_to_end(key)
            while len(self._projects) > _MAX_PROJECTS:
                self._projects.popitem(last=False)[1].close(for_good=True)
            return self._projects[key]

    def _stage_archive(self, kind: str, sha256: str) -> str:
        content = self.archives(sha256)
        if content is None:
            raise ArchiveError(
                f"the task is judged by its project's tests, and the archive {sha256[:16]} with their files is not in "
                "this database: make the dataset here with `bassline datasets from-code`"
            )
        return stage_files(kind, archive.unpack(content, sha256))

    def close(self) -> None:
        """End all idle processes."""
        with self._lock:
            while self._projects:
                self._projects.popitem()[1].close(for_good=True)


_shared: dict[int, ProjectJudge] = {}
_sharing = threading.Lock()


def get_shared_judge(sandbox: Sandbox, archives: ArchiveLoader | None) -> ProjectJudge:
    """The judge of this process, whose processes stay warm from one job to the next; `archives` is used from now on."""
    with _sharing:
        judge = _shared.get(os.getpid())
        if judge is None or judge.sandbox is not sandbox:
            judge = _shared[os.getpid()] = ProjectJudge(sandbox, lambda _sha256: None)
            atexit.register(judge.close)
        judge.archives = archives or judge.archives
        return judge


def _build_fault(reason: str, lasting: bool = False) -> SandboxResult:
    return SandboxResult(Status.SANDBOX_ERROR, reason, lasting=lasting, trust=Trust.IN_GUEST)


def _explain_missing_function(program: str, qualified: str) -> tuple[str, str]:
    try:
        compile(program, "<candidate>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return Status.SYNTAX_ERROR, f"{type(error).__name__}: {error}"[:300]
    return Status.EMPTY, f"the program does not define {qualified}"
