"""Makes the dataset of a project from start to end, or resumes an earlier run."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from evaluation.dataset_files import read_tasks
from evaluation.datasets import DatasetError
from evaluation.from_code import build
from evaluation.from_code.build import BUILDER, Options, TaskResult
from evaluation.from_code.calls import record
from evaluation.from_code.calls.confined import Confinement
from evaluation.from_code.calls.record import Recording
from evaluation.from_code.coverage import Coverage, compute_coverage
from evaluation.from_code.project_tests import make
from evaluation.from_code.project_tests.suite import ProjectSuite, prepare_suite
from evaluation.from_code.reasons import ExcludedError, ProjectError
from evaluation.from_code.sandbox_jobs import run_parallel
from evaluation.from_code.source.closure import ModuleSources
from evaluation.from_code.source.find import MAX_LINES, MIN_LINES, ProjectFunction, find_functions
from evaluation.from_code.source.project import Origin, Project, find_origin
from evaluation.from_code.state import BuildState
from evaluation.from_code.tasks import build_infilling_row
from evaluation.sandbox import Sandbox


class Watcher(Protocol):
    """Receives the progress of the work."""

    def on_recording(self, commands: Sequence[Sequence[str]], seconds: float) -> None:
        """The tests, which these commands run, have run for `seconds`."""

    def on_testing(self, done: int, total: int) -> None:
        """`done` of the files of tests have run in the sandbox."""

    def on_checking(self, done: int, total: int, made: TaskResult | None) -> None:
        """`done` functions are checked; `made` is the last one."""


@dataclass
class FinishedDataset:
    """The dataset in both forms, and what the report needs."""

    project: Project
    origin: Origin
    functions: list[ProjectFunction]
    recording: Recording
    result: build.BuiltDataset
    state: BuildState
    suite: ProjectSuite = field(default_factory=ProjectSuite)
    seconds: dict[str, float] = field(default_factory=dict)

    def build_completion_file(self) -> bytes:
        """The dataset file in completion form."""
        return _encode_lines(self.result.completion)

    def compute_coverage(self) -> Coverage:
        """What share of the project became tasks."""
        return compute_coverage(self.functions, self.recording.covering.list_called_functions(), self.result.made)

    def build_infilling_file(self) -> bytes:
        """The dataset file in infilling form."""
        return _encode_lines(self.result.infilling)


def open_state(
    folder: Path,
    project: Project,
    commands: Sequence[Sequence[str]],
    options: Options,
    packages: str = "",
    environment: Mapping[str, str | None] = MappingProxyType({}),
) -> BuildState:
    """The state of this dataset, in the folder that holds the states of all datasets.

    A changed source, command, option, variable or hash of the sandbox's packages gets a new state.
    """
    facts: list[Any] = [
        str(project.root),
        project.sha256,
        [list(command) for command in commands],
        vars(options),
        BUILDER,
    ]
    facts += [packages, *sorted(environment.items())]
    return BuildState(folder / hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24])


def build_dataset(  # noqa: PLR0913 (each says what the work is done with)
    sandbox: Sandbox,
    project: Project,
    commands: Sequence[Sequence[str]],
    state: BuildState,
    options: Options,
    watcher: Watcher,
    workers: int = 1,
    environment: Mapping[str, str | None] = MappingProxyType({}),
    confinement: Confinement | None = None,
) -> FinishedDataset:
    """Record, make and check; in the sandbox the tests have the variables of `environment`.

    With a `confinement` they are recorded in the sandbox, too. Raises ProjectError where nothing can be made of the
    project; the state stays.
    """
    origin = find_origin(project)
    functions = find_functions(project)
    if all(function.reason for function in functions):
        raise ProjectError(
            f"none of the {len(functions)} functions of {project.name} can become a task: it needs functions of "
            f"{MIN_LINES} to {MAX_LINES} lines with a body of their own"
        )
    seconds: dict[str, float] = {}
    state.folder.mkdir(parents=True, exist_ok=True)
    recording = state.load_recording()
    if recording is None:
        watcher.on_recording(commands, 0.0)
        recording = record.record_calls(
            project, functions, commands, state.folder / "record", options.limit_s,
            lambda seconds: watcher.on_recording(commands, seconds), options.python, confinement=confinement,
        )  # fmt: skip
        if not (recording.calls or recording.refused or recording.covering.list_called_functions()):
            raise ProjectError(_explain_empty_recording(project, recording, options))
        state.save_recording(recording)
    seconds["recording"] = round(recording.seconds, 1)
    started = time.monotonic()
    if options.judge == build.JUDGE:
        suite = ProjectSuite("recorded calls alone were asked for")
    else:
        suite = prepare_suite(
            sandbox, project, recording.covering, workers, watcher.on_testing, environment, options.store_secrets
        )
    seconds["testing"] = round(time.monotonic() - started, 1)
    started = time.monotonic()
    try:
        sources = ModuleSources(project, recording.covering.path)
        work = build.BuildContext(sandbox, project, origin, functions, recording, sources, options)
        made = _make_tasks(TaskMaker(work, suite), functions, state, watcher, workers)
    finally:
        suite.close()
    seconds["checking"] = round(time.monotonic() - started, 1)
    result = build.assemble_dataset(functions, made, options)
    return FinishedDataset(project, origin, functions, recording, result, state, suite, seconds)


def _explain_empty_recording(project: Project, recording: Recording, options: Options) -> str:
    said = f" (last lines: {' | '.join(recording.last_lines)})" if recording.last_lines else ""
    if recording.exit_code is None:
        return (
            f"the tests did not end within {options.limit_s:g} s and called no function of {project.name}{said}: "
            "give --timeout, or --tests with a smaller part of them"
        )
    if "No module named pytest" in recording.output:
        return (
            f"the tests of {project.name} need pytest, which is not installed there: install it with "
            f"`{options.python or 'python'} -m pip install pytest` (it runs unittest's classes too), or give --tests"
        )
    if missing := re.search(r"No module named '([\w.]+)'", recording.output):
        is_own = missing[1].partition(".")[0] in project.list_top_names()
        package = "the project with `{} -m pip install -e .`" if is_own else "its package with `{} -m pip install`"
        return (
            f"the tests of {project.name} import {missing[1]}, which is not installed there{said}: install "
            + package.format(options.python or "python")
        )
    if missing := re.search(r"KeyError: '([A-Z][A-Z0-9_]+)'", recording.output):
        said += f"; if {missing[1]} is an environment variable, give --env {missing[1]}=VALUE"
    if recording.failure:
        return (
            f"the tests {recording.failure} and called no function of {project.name}{said}: make them pass in the "
            "project's folder, and name its interpreter with --python"
        )
    return (
        f"the tests called no function of {project.name} that could be recorded{said}: they may import another copy "
        f"than the one in {project.root}: install that one with `pip install -e`"
    )


@dataclass(frozen=True)
class TaskMaker:
    """Makes the task of a function: recorded calls judge it, or the project's tests where they do so better or were
    asked for."""

    work: build.BuildContext
    suite: ProjectSuite

    def make(self, function: ProjectFunction) -> TaskResult:
        """The task, or why there is none by either judge."""
        made = self._make_by_better_judge(function)
        options = self.work.options
        if made.row is not None:
            rows = made.row, build_infilling_row(made.row, function, options.before, options.after)
            try:
                for row in rows:
                    read_tasks(json.dumps(row), function.key)
            except DatasetError as error:
                refused = ExcludedError("becomes a task that no dataset takes", str(error))
                return TaskResult(function.key, None, refused.reason, refused.detail, made.seconds)
        return made

    def _make_by_better_judge(self, function: ProjectFunction) -> TaskResult:
        by_calls: TaskResult | None = None
        judge = build.JUDGE if self.suite.refused else self.work.options.judge
        if judge != "tests":
            by_calls = build.make_task_from_calls(self.work, function)
            if judge == build.JUDGE or (by_calls.row is not None and not _are_tests_better(by_calls.row["source"])):
                return by_calls
            if function.key not in self.work.recording.covering.list_called_functions():
                return by_calls
        has_task_by_calls = by_calls is not None and by_calls.row is not None
        by_tests = make.make_task_from_tests(self.suite, self.work, function, must_be_strong=has_task_by_calls)
        if by_calls is None or (by_tests.row is not None and not by_tests.row["source"]["weak"]):
            return by_tests
        if by_calls.row is not None:
            return by_calls
        if by_tests.row is None:
            by_tests.detail = f"{by_tests.detail}; recorded calls: {by_calls.reason}".removeprefix("; ")
        return by_tests


def _are_tests_better(source: Mapping[str, Any]) -> bool:
    """Whether the project's tests should judge instead: recorded calls notice too few faults, and none of them had to
    be left out because it contradicts the type hints, as the tests would make it."""
    return bool(source["weak"]) and not source["against_hints"]


def _make_tasks(
    maker: TaskMaker,
    functions: Sequence[ProjectFunction],
    state: BuildState,
    watcher: Watcher,
    workers: int,
) -> list[TaskResult]:
    done = state.load_results()
    todo = [function for function in functions if not function.reason and function.key not in done]
    total = len(todo) + len(done)
    watcher.on_checking(len(done), total, None)

    with closing(run_parallel(maker.make, todo, workers)) as results:
        for made in results:
            state.add_result(made)
            done[made.key] = made
            watcher.on_checking(len(done), total, made)
    return [
        TaskResult(function.key, reason=function.reason) if function.reason else done[function.key]
        for function in functions
    ]


def _encode_lines(rows: Sequence[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows).encode()
