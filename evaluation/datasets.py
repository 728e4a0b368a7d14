"""Datasets: named lists of tasks, known by the sha256 of their file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from evaluation.from_code.placing import spec
from evaluation.languages.cases import JsonCase, Signature

PYTHON = "python"


class DatasetError(ValueError):
    """A dataset that cannot be used; the message names file, line, field and remedy."""


@dataclass(frozen=True, slots=True)
class Task:
    """One problem: prompt + completion + (suffix or "") runs, then test, then check(entry_point)."""

    task_id: str
    prompt: str
    entry_point: str
    test: str
    canonical_solution: str  # a completion known to be right, "" where the file has none
    suffix: str | None = None
    stop: tuple[str, ...] = ()  # strings that end a sample of this task, beside the mode's own; unused in chat mode
    # each with role and content; sent by a client instead of a prompt
    messages: tuple[dict[str, str], ...] | None = None
    prompt_token_ids: tuple[int, ...] | None = None  # sent by a client instead of a prompt
    # for a prompt and suffix that do not run, such as a window of a file: the program is this + completion
    program_prefix: str | None = None
    # where a task made from code or by translation comes from (docs/from-code.md); plays no part in a run
    source: Mapping[str, Any] | None = None
    # where the project's own tests judge the answer: which ones, on which files (project_tests.spec)
    project_tests: Mapping[str, Any] | None = None
    # the module that the answer's function is put into before it is judged (from_code.placing.spec)
    module: Mapping[str, Any] | None = None
    # a task in another language than Python has cases, which its function is called with, or a `test` that is part of
    # the program, whose exit code decides
    language: str = PYTHON
    signature: Signature | None = None
    cases: tuple[JsonCase, ...] = ()

    def build_program(self, completion: str) -> str:
        """The program that is judged, with this completion."""
        if self.program_prefix is not None:
            return self.program_prefix + completion
        return self.prompt + completion + (self.suffix or "")

    def build_judged_program(self, program: str) -> str:
        """What the sandbox runs of a program: the program, or its function in its module."""
        return program if self.module is None else spec.unpack_placement(self.module).build_program(program)

    def build_judged_task(self) -> Task:
        """The task whose prompt begins the program that is judged."""
        if self.module is not None:
            return replace(self, prompt="", suffix=None, program_prefix=None, entry_point=spec.ENTRY, module=None)
        if self.program_prefix is None:
            return self
        return replace(self, prompt=self.program_prefix, suffix=None, program_prefix=None)


@dataclass(frozen=True, slots=True)
class LeftOutTask:
    """A task of a file that cannot be judged, and why."""

    task_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """Tasks in file order. `sha256` is the hash of the file on disk, so `sha256sum` confirms it."""

    name: str
    tasks: tuple[Task, ...]
    sha256: str
    left_out: tuple[LeftOutTask, ...] = ()

    def get_task(self, task_id: str) -> Task:
        """The task of that id; DatasetError names the ids that look alike where there is none."""
        for task in self.tasks:
            if task.task_id == task_id:
                return task
        alike = [t.task_id for t in self.tasks if t.task_id.rsplit("/", 1)[-1] == task_id.rsplit("/", 1)[-1]]
        hint = f"did you mean {', '.join(alike[:3])}?" if alike else f"ids look like {self.tasks[0].task_id}"
        raise DatasetError(f"task {task_id!r} is not in dataset {self.name!r}: {hint}")

    def select(self, task_ids: Collection[str]) -> tuple[Task, ...]:
        """The tasks of these ids in file order; DatasetError on an unknown id."""
        wanted = {self.get_task(task_id).task_id for task_id in task_ids}
        return tuple(task for task in self.tasks if task.task_id in wanted)
