"""`bassline sandbox run --language`: one program, judged by the cases of one task."""

from __future__ import annotations

import json
from dataclasses import asdict

from app.cli import common
from app.core.errors import BadInputError
from app.core.ports import detect_sandbox, require_toolchain
from app.core.settings import load_settings
from app.core.terminal import echo
from evaluation.datasets import Task
from evaluation.formats import registry
from evaluation.formats.base import LeftOutError, RecordError


def judge_by_cases(language: str, task_text: str, program: str, json_file: str | None) -> None:
    """Prints the verdict, or writes it as JSON; exit 1 unless the program passes. Raises BadInputError for a task that
    cannot be used, UnavailableError without toolchain or sandbox."""
    from evaluation.grading import Grader  # noqa: PLC0415

    task = _task(language, task_text)
    toolchain = require_toolchain(language)
    verdict = Grader(detect_sandbox(load_settings().packages, "so nothing can be run")).judge(program, task)
    facts = {"language": language, "toolchain": toolchain, "passed": verdict.passed, "cases": len(task.cases)}
    common.write_json(json_file, {**facts, **asdict(verdict)})
    if json_file is None:
        echo(
            f"{verdict.status} in {verdict.wall_s:.2f} s ({verdict.cpu_s:.2f} s CPU), {toolchain}, {verdict.isolation}"
        )
    if not verdict.passed:
        case = f" at {verdict.failing_assert}" if verdict.failing_assert else ""
        raise common.failed(f"the program ended as {verdict.status}{case}: {verdict.detail}")


def _task(language: str, text: str) -> Task:
    try:
        record = json.loads(text)
        if not isinstance(record, dict):
            raise BadInputError("--task is not a JSON object: give one task as in a dataset file", "task")
        if record.get("language") not in (None, language):
            raise BadInputError(f"--task is a task in {str(record['language'])[:60]}, not in {language}", "task")
        return registry.to_task({"task_id": "task", "prompt": "(none)", **record, "language": language})
    except (RecordError, LeftOutError) as error:
        raise BadInputError(f"--task, {error}", "task") from None
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"--task is not JSON: {error}", "task") from None
