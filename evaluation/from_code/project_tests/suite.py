"""The project's tests as a judge: their files, those that pass in the sandbox, and those for each function."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from evaluation.from_code.project_tests import checks, files
from evaluation.from_code.project_tests.covering import CallsByTest
from evaluation.from_code.project_tests.files import SuiteArchives
from evaluation.from_code.reasons import ExcludedError
from evaluation.from_code.sandbox_jobs import run_parallel, run_without_sandbox_faults
from evaluation.from_code.source.find import ProjectFunction
from evaluation.from_code.source.project import Module, Project
from evaluation.project_tests.archive import ArchiveError
from evaluation.project_tests.judge import ProjectJudge
from evaluation.project_tests.running import LIMITS, SuiteOutcomes
from evaluation.project_tests.spec import MAX_MEMORY_MIB, ProjectTests
from evaluation.sandbox import Sandbox, SandboxResult
from evaluation.verdicts import Status

_FILE_LIMITS = replace(LIMITS, cpu_s=60, wall_s=60.0)
_MAX_ENDING = 10
"""Tests of a file that may end its process; after these the rest is given up."""
_MEMORY_MIB = (256, 512)
"""Address spaces of answers to try, before MAX_MEMORY_MIB; mutants get half."""
_TRIED_FILES = 5
_SHOWN_CHARS = 12_000
_PRIVATE = re.compile(r"(?<!\bself)\._[a-z]\w*")


@dataclass
class ProjectSuite:
    """`passing` are the tests that pass in the sandbox; `refused` says why the tests cannot judge at all, "" if they
    can; `failures` are the last words of those that do not pass there, by test or file."""

    refused: str = ""
    files: SuiteArchives | None = None
    passing: frozenset[str] = frozenset()
    failures: dict[str, str] = field(default_factory=dict)
    judge: ProjectJudge | None = None
    template: ProjectTests | None = None  # of the specs of functions

    def close(self) -> None:
        """End the judge's processes."""
        if self.judge is not None:
            self.judge.close()


def prepare_suite(
    sandbox: Sandbox,
    project: Project,
    covering: CallsByTest,
    workers: int = 1,
    on_file: Callable[[int, int], None] = lambda _done, _total: None,
    environment: Mapping[str, str | None] = MappingProxyType({}),
    store_secrets: bool = False,
) -> ProjectSuite:
    """The suite of a project, after each of its files of tests ran once in the sandbox, with these variables."""
    tests = sorted({test for test in covering.tests if test})
    if not tests:
        return ProjectSuite(
            'no test was run by pytest, which says what each test calls: give --tests "python -m pytest -q", which '
            "runs unittest's classes too, and Django's with pytest-django"
        )
    try:
        found = files.pack_archives(project, covering, store_secrets)
    except ArchiveError as error:
        return ProjectSuite(str(error))
    ours, theirs = sandbox.python.version[:2], tuple(covering.python[:2])
    if found.has_compiled and ours != theirs:
        versions = ["{}.{}".format(*version) for version in (theirs, ours)]
        reason = f"the tests need compiled packages for Python {versions[0]}, and the sandbox has {versions[1]}"
        return ProjectSuite(reason)
    judge = ProjectJudge(sandbox, found.archives.get)
    module = min(project.modules.values(), key=lambda module: module.path)
    whole_file = ProjectTests(
        found.project, found.installed, module.path, "", 0, tuple(tests), found.paths, tuple(covering.options),
        environment,
    )  # fmt: skip

    def run(wanted: Sequence[str]) -> SuiteOutcomes:
        attempts: list[SuiteOutcomes] = []

        def attempt() -> SandboxResult:
            attempts.append(judge.run(module.source, whole_file, wanted, _FILE_LIMITS, stop_early=False))
            return attempts[-1].result

        run_without_sandbox_faults(attempt)
        return attempts[-1]

    by_file, not_run = _group_tests(tests, covering)
    try:
        passing, failures = _run_files(by_file, run, workers, on_file)
        memory_mib = _find_enough_memory(judge, module.source, whole_file, passing)
    except BaseException:
        judge.close()
        raise
    template = replace(whole_file, memory_mib=memory_mib)
    return ProjectSuite("", found, frozenset(passing), not_run | failures, judge, template)


def _find_enough_memory(judge: ProjectJudge, source: str, spec: ProjectTests, passing: Collection[str]) -> int:
    """The address space for answers, in MiB: twice that in which a test of each of some files passes.

    It is found once, since a program that lacks memory may also become slow.
    """
    tests = list({test.partition("::")[0]: test for test in sorted(passing)}.values())[:_TRIED_FILES]
    for memory_mib in _MEMORY_MIB:
        limits = replace(LIMITS, memory_bytes=memory_mib * 2**20 // 2)
        if checks.judge_original(judge, spec, source, tests, limits).status == Status.PASSED:
            return memory_mib
    return MAX_MEMORY_MIB


def _group_tests(tests: Sequence[str], covering: CallsByTest) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The tests to run, by file, and why the others are not run."""
    not_run = dict.fromkeys(
        covering.ended, "it was ended while it was recorded: it waits without end, or needs too long"
    )
    outside = [test for test in tests if test.startswith("../")]
    not_run |= dict.fromkeys(outside, "it lies outside the project's folder: give the folder above both")
    by_file: dict[str, list[str]] = {}
    for test in tests:
        if test not in not_run:
            by_file.setdefault(test.partition("::")[0], []).append(test)
    return by_file, not_run


def _run_files(
    by_file: Mapping[str, Sequence[str]],
    run: Callable[[Sequence[str]], SuiteOutcomes],
    workers: int,
    on_file: Callable[[int, int], None],
) -> tuple[set[str], dict[str, str]]:
    """The tests that pass, and why others do not; each of the `workers` runs one file at a time."""
    passing: set[str] = set()
    failures: dict[str, str] = {}
    on_file(0, len(by_file))
    with closing(run_parallel(lambda file: _run_each_once(file, by_file[file], run), by_file, workers)) as results:
        for done, (passed, failed) in enumerate(results, 1):
            passing |= passed
            failures |= failed
            on_file(done, len(by_file))
    return passing, dict(sorted(failures.items()))


def _run_each_once(
    file: str, tests: Sequence[str], run: Callable[[Sequence[str]], SuiteOutcomes]
) -> tuple[set[str], dict[str, str]]:
    """The tests of a file that pass, and why others do not; those behind a test that ends the process run in the next.

    A test is to blame only where it does not end although it comes first: a limit may be used up by those before it.
    """
    passed: set[str] = set()
    failed: dict[str, str] = {}
    left, ending = list(tests), 0
    while left and ending < _MAX_ENDING:
        outcome = run(left)
        passed.update(outcome.passed)
        failed |= {test: text[-300:] for test, text in outcome.failed.items()}
        left = outcome.unfinished
        if not outcome.passed and not outcome.failed:
            failed[left[0] if left else file] = outcome.result.detail
            left, ending = left[1:], ending + 1
    return passed, failed


def choose_function_tests(
    suite: ProjectSuite,
    project: Project,
    covering: CallsByTest,
    function: ProjectFunction,
    must_be_strong: bool = False,
) -> tuple[ProjectTests, dict[str, Any]]:
    """The spec of a function's task, and what its dataset says of the tests. Raises ExcludedError, with
    `must_be_strong` also for weak tests.

    Tests that read private attributes ask for one way of doing it, so they judge only where there are no others.
    """
    if suite.refused or suite.files is None or suite.judge is None or suite.template is None:
        raise ExcludedError("cannot be judged by the project's tests", suite.refused)
    every = covering.list_tests(function.key)
    if not every:
        raise ExcludedError("is not called by a test that pytest ran")
    tests = [test for test in every if test in suite.passing]
    if not tests:
        reason = suite.failures.get(every[0]) or suite.failures.get(every[0].partition("::")[0], "")
        last = reason.strip().rpartition("\n")[2]
        raise ExcludedError("is called by tests that do not pass in the sandbox", last[:200])
    tests = _drop_private(project, tests) or tests
    spec = replace(
        suite.template,
        file=function.module.path,
        qualified=function.qualified,
        line=function.node.lineno,
        tests=tuple(tests),
    )
    found = checks.choose_tests(suite.judge, spec, function, must_be_strong)
    return replace(spec, tests=found.tests, writes=found.writes, memory_mib=found.memory_mib), {
        "tests": len(found.tests),
        **found.score.to_json(found.are_weak),
        "installed": list(suite.files.distributions),
    }


def _drop_private(project: Project, tests: Sequence[str]) -> list[str]:
    """The tests that read no private attribute of what they test."""
    places = {test.partition("[")[0] for test in tests}
    private = {place for place in places if _PRIVATE.search(format_tests(project, [place]))}
    return [test for test in tests if test.partition("[")[0] not in private]


def format_tests(project: Project, tests: Sequence[str]) -> str:
    """The source of the tests of a task, for readers."""
    by_place: dict[str, list[str]] = {}
    for test in tests:
        by_place.setdefault(test.partition("[")[0], []).append(test)
    parts = []
    for place, cases in by_place.items():
        file, *names = place.split("::")
        head = "\n".join(f"# {case}" for case in cases)
        text = _read_test(project, file, names)
        parts.append(f"{head}\n{text}" if text else head)
    whole = "\n\n".join(parts)
    return whole if len(whole) <= _SHOWN_CHARS else whole[:_SHOWN_CHARS] + "\n# ..."


@lru_cache(maxsize=8)
def _parse(source: str) -> ast.Module:
    return ast.parse(source)


def _read_test(project: Project, file: str, names: Sequence[str]) -> str:
    try:
        source = (project.root / file).read_text("utf-8")
        tree = _parse(source)
    except (OSError, ValueError, SyntaxError):  # a text file with doctests, too
        return ""
    body: list[ast.stmt] = tree.body
    node: ast.stmt | None = None
    for name in names:
        node = next((each for each in body if getattr(each, "name", "") == name), None)
        body = getattr(node, "body", [])
    if node is None:
        return ""
    module = Module(file, "", False, source)
    start = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
    return "".join(module.lines[start - 1 : node.end_lineno]).rstrip()
