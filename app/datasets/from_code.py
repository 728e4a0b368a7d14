"""Datasets made from a project's code: their work, its state on disk, both stored forms, and the report."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from types import MappingProxyType
from typing import Any

from app.background.handlers import JobAttempt, OnProgress
from app.background.work import hold_command
from app.core.context import Context
from app.core.db.archives import store_project_archives
from app.core.errors import BadInputError
from app.core.ports import SandboxGrader
from app.core.states import PASSED
from app.datasets import service
from app.datasets.checking import check_solutions
from app.datasets.models import Dataset
from evaluation.datasets import Task
from evaluation.from_code import run
from evaluation.from_code.build import Options, TaskResult
from evaluation.from_code.mutants import list_trivial_completions
from evaluation.from_code.reasons import find_remedy
from evaluation.from_code.run import FinishedDataset
from evaluation.from_code.source.project import Project
from evaluation.from_code.state import BuildState
from evaluation.sandbox import Sandbox

INFILL = "-infill"
_JUDGED_BY_CASES = {"judge": "cases", "kind": "function", "trust": "proxy"}


def check_name(name: str) -> None:
    """Raises BadInputError for a name that the dataset or its infilling form could not have."""
    service.check_name(name)
    service.check_name(name + INFILL)


def build_dataset(
    ctx: Context,
    sandbox: Sandbox,
    project: Project,
    commands: Sequence[Sequence[str]],
    options: Options,
    environment: Mapping[str, str | None],
    on_start: Callable[[], object],
    on_progress: OnProgress,
) -> FinishedDataset:
    """The dataset of a project. Stopped or killed, the same call continues. `on_start` is called before the tests run.

    It is a job whose steps are files in the folder of its state: only this user's process can run the project's tests.
    Raises evaluation's ProjectError, and ConflictError where another process makes the same.
    """
    state = find_state(ctx.settings.data_dir / "from-code", sandbox, project, commands, options, environment)
    with hold_command(ctx, "build_from_code", project.name, state.folder.name, on_progress) as attempt:
        watcher = _JobWatcher(attempt, on_start)
        return run.build_dataset(
            sandbox, project, commands, state, options, watcher, ctx.settings.exec_workers, environment
        )


def find_state(
    folder: Path,
    sandbox: Sandbox,
    project: Project,
    commands: Sequence[Sequence[str]],
    options: Options,
    environment: Mapping[str, str | None] = MappingProxyType({}),
) -> BuildState:
    """Where in `folder` the unfinished work on this dataset is kept."""
    packages = sandbox.packages.sha256 if sandbox.packages else ""
    return run.open_state(folder, project, commands, options, packages, environment)


def find_interpreter(python: str | None) -> str:
    """The interpreter's absolute path; a virtual environment's symbolic link is not resolved.

    Raises BadInputError.
    """
    if python is None:
        return shutil.which("python") or sys.executable
    found = shutil.which(python)
    if found is None:
        raise BadInputError(
            f"python {python} is not a program that can be started: name the project's interpreter, such as "
            ".venv/bin/python",
            "python",
        )
    return str(Path(found).absolute())


def split_command(command: str) -> list[str]:
    """The words of a command of the tests. Raises BadInputError."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BadInputError(f"tests cannot be read as a command: {error}", "tests") from None
    if not words:
        raise BadInputError('tests is empty: give a command, such as "python -m pytest -q"', "tests")
    return words


@dataclass(frozen=True)
class _JobWatcher:
    """Reports progress to the job, and stops where that was cancelled."""

    attempt: JobAttempt
    on_start: Callable[[], object]

    def on_recording(self, _commands: Sequence[Sequence[str]], seconds: float) -> None:
        if seconds == 0.0:
            self.on_start()
        self._report(0, 0, f"running the project's tests: {seconds:.0f} s")

    def on_testing(self, done: int, total: int) -> None:
        self._report(done, total, "files of tests in the sandbox")

    def on_checking(self, done: int, total: int, _made: TaskResult | None) -> None:
        self._report(done, total, "functions")

    def _report(self, done: int, total: int, what: str) -> None:
        self.attempt.report(done, total, what)
        self.attempt.require_wanted()


def store_datasets(ctx: Context, finished: FinishedDataset, name: str) -> list[Dataset]:
    """The stored datasets: completion form, infilling form."""
    if finished.suite.files is not None and any(row.get("project_tests") for row in finished.result.completion):
        store_project_archives(ctx.database, finished.suite.files.archives)
    files = {name: finished.build_completion_file(), name + INFILL: finished.build_infilling_file()}
    left_out = list_left_out(finished)
    coverage = finished.compute_coverage().to_json()
    return [service.import_bytes(ctx, data, each, f"{each}.jsonl", left_out, coverage) for each, data in files.items()]


@dataclass(frozen=True)
class Recheck:
    """Tasks of either form that behaved wrongly when they were judged again."""

    originals_failed: tuple[str, ...] = ()
    trivial_passed: tuple[str, ...] = ()


def recheck_stored_tasks(ctx: Context, stored: Sequence[Dataset], on_progress: OnProgress = lambda *_: None) -> Recheck:
    """Judge the originals of the stored datasets, and bodies without content in completion form, as answers are."""
    grader = ctx.make_grader()
    failed = [task_id for dataset in stored for task_id in check_solutions(ctx, dataset.id, on_progress)]
    passed = _find_trivially_passed(ctx, stored[0], grader, on_progress) if stored else []
    return Recheck(tuple(dict.fromkeys(failed)), tuple(passed))


def _find_trivially_passed(ctx: Context, dataset: Dataset, grader: SandboxGrader, on_progress: OnProgress) -> list[str]:
    found = service.find_dataset(ctx, dataset.id)
    tasks = [service.to_evaluation_task(task) for task in found.tasks] if found else []
    tasks = [_limit_memory(task) for task in tasks]
    programs = [(task.build_program(text), task) for task in tasks for text in list_trivial_completions(task)]
    passed = set()
    for done, (position, verdict) in enumerate(grader.judge_many(programs, ctx.settings.exec_workers), 1):
        if verdict.status == PASSED:
            passed.add(programs[position][1].task_id)
        on_progress(done, len(programs), "bodies without content")
    return sorted(passed)


def _limit_memory(task: Task) -> Task:
    """The task with as much memory for answers as its original is known to pass in: a body that never ends takes all
    that it gets."""
    spec = task.project_tests or {}
    if "memory_mib" not in spec:  # the original may need as much as an answer can get
        return task
    return replace(task, project_tests={**spec, "memory_mib": spec["memory_mib"] // 2})


def build_report(finished: FinishedDataset, stored: Sequence[Dataset], checked: Recheck) -> dict[str, Any]:
    """The report as JSON: figures, every task, and every function that was left out with its reason."""
    rows, left_out = finished.result.completion, list_left_out(finished)
    coverage, recording, suite = finished.compute_coverage(), finished.recording, finished.suite
    return {
        "dataset": stored[0].name if stored else None,
        "functions_seen": len(finished.functions),
        "functions_called": coverage.functions_called,
        "tasks": len(rows),
        "covered_share": coverage.covered_share,
        "trivial_passed": len(checked.trivial_passed),
        "originals_failed": list(checked.originals_failed),
        **_summarize_sources([row["source"] for row in rows]),
        "coverage": coverage.to_json(),
        "dropped": dict(Counter(row["reason"] for row in left_out).most_common()),
        "seconds": finished.seconds,
        "datasets": [{"name": d.name, "sha256": d.sha256, "tasks": d.n_tasks} for d in stored],
        "project": finished.project.name,
        "version": finished.origin.version,
        "commit": finished.origin.commit,
        "licence": finished.origin.licence,
        "tests": {
            "exit_code": recording.exit_code,
            "last_lines": recording.last_lines,
            "output": recording.output if recording.failure else "",
            "not_read": recording.unread,
            "waited_without_end": recording.covering.ended,
            "judge_refused": suite.refused,
            "not_passed_in_sandbox": suite.failures,
        },
        "kept": [{"task_id": row["task_id"], **_JUDGED_BY_CASES, **row["source"]} for row in rows],
        "left_out": left_out,
        "not_read": finished.project.unread,
        "skipped": finished.project.skipped,
        "stored_files": _describe_stored_files(finished),
    }


def _summarize_sources(sources: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How tasks with these `source` fields are judged, and how well."""
    scores = [source["mutation_score"] for source in sources]
    cases = [source["cases"] for source in sources if "cases" in source]
    return {
        "tasks_by_judge": dict(Counter(source.get("judge", "cases") for source in sources)),
        "weak": sum(bool(source["weak"]) for source in sources),
        "unstated": sum(bool(source["unstated"]) for source in sources),
        "unstated_cases": sum(source.get("unstated_cases", 0) for source in sources),
        "stated_share": round(mean(source["stated_share"] for source in sources), 4) if sources else None,
        "cases_per_task": mean(cases) if cases else None,
        "mutants": sum(source["mutants"] for source in sources),
        "mutation_score": mean(scores) if scores else None,
    }


def _describe_stored_files(finished: FinishedDataset) -> dict[str, Any] | None:
    """Which files of the project's folder the database stores; None if the project's tests judge no task."""
    by_tests = any(row.get("project_tests") for row in finished.result.completion)
    if finished.suite.files is None or not by_tests:
        return None
    own = finished.suite.files.own
    return {
        "files": len(own.stored),
        "bytes": own.total_bytes,
        "look_like_secrets": list(own.secret_looking),
        "ignored_but_imported": own.imported,
        "left_out": own.left_out,
    }


def list_left_out(finished: FinishedDataset) -> list[dict[str, Any]]:
    """The functions that did not become tasks, in the project's order."""
    rows = []
    for made in finished.result.made:
        if made.row is None:
            file, name, line = made.key.rsplit(":", 2)
            row = service.build_left_out_row(made.reason, name, file=file, line=int(line), detail=made.detail)
            rows.append({**row, "unlock": find_remedy(made.reason)})
    return rows
