"""`bassline sandbox`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from app.cli import common
from app.core.errors import BadInputError, BasslineError
from app.core.ports import detect_sandbox, require_toolchain
from app.core.settings import load_settings
from app.core.terminal import echo, open_stderr
from evaluation.datasets import PYTHON, Task
from evaluation.formats import registry
from evaluation.formats.base import LeftOutError, RecordError

ENTRY_POINT = "bassline_loaded"


def _build_task(language: str, text: str) -> Task:
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


@click.group()
def sandbox() -> None:
    """Prove the sandbox on this machine, or run one program in it.

    Example:
        bassline sandbox selftest
    """


@sandbox.command()
@click.option("--corpus", type=click.Path(path_type=Path), metavar="DIR", help="also run the programs of DIR/INDEX.tsv")
@common.json_option
def selftest(corpus: Path | None, json_file: str | None) -> None:
    """Try to break out of the sandbox in every known way; exit 1 if anything is not as expected.

    Example:
        bassline sandbox selftest --json -
    """
    from evaluation.sandbox.selftest import run_selftest  # noqa: PLC0415

    progress = open_stderr()
    found = detect_sandbox(load_settings().packages, "so nothing can be tested")
    try:
        report = run_selftest(corpus, lambda row: progress.print(row.name, style="dim"), found)
    except (OSError, ValueError) as error:
        raise BadInputError(f"corpus {corpus} cannot be used: {error}", "corpus") from None
    common.write_json(json_file, report.to_json())
    rows = [
        ("ok" if r.ok else "BAD", r.kind, r.name, r.expected, r.observed, f"{r.wall_s:.2f}", r.note)
        for r in report.rows
    ]
    common.print_list(json_file, ("", "kind", "name", "expected", "observed", "seconds", "note"), rows)
    differ = sum(not row.ok for row in report.rows)
    common.choose_console(json_file).print(f"tier {report.tier}: {len(report.rows)} rows, {differ} not as expected")
    if not report.ok:
        raise BasslineError(f"{differ} of {len(report.rows)} rows are not as expected: do not grade on this machine")


@sandbox.command()
@click.argument("file", metavar="FILE", required=False)
@click.option("--language", help="judge a program in another language by a task's cases")
@click.option("--task", "task_file", metavar="FILE", help="the task, one JSON object as in a dataset file")
@click.option("--program", "program_file", metavar="FILE", help="the program")
@common.json_option
def run(
    file: str | None, language: str | None, task_file: str | None, program_file: str | None, json_file: str | None
) -> None:
    """Run one Python program in the sandbox; exit 1 unless it ends by itself without an exception.

    With --language, judge the program by the cases of --task; exit 1 unless it passes.

    Example:
        bassline sandbox run candidate.py --json -
        bassline sandbox run --language javascript --task task.json --program answer.js --json -
    """
    facts: dict[str, Any]
    if language is not None:
        if file is not None or task_file is None or program_file is None:
            raise BadInputError("--language judges a program by cases: give --task FILE and --program FILE", "language")
        task, program = _build_task(language, common.read_text(task_file)), common.read_text(program_file)
        facts = {"language": language, "toolchain": require_toolchain(language), "cases": len(task.cases)}
    elif file is None or task_file or program_file:
        raise BadInputError("give the FILE of a Python program, or --language, --task and --program", "file")
    else:
        # The grader judges functions, so an empty function is appended: loading the file is the test.
        task = Task("file", "", ENTRY_POINT, "def check(candidate):\n    candidate()\n", "")
        program = f"{common.read_text(file)}\n\ndef {ENTRY_POINT}():\n    return None\n"
        facts = {"language": PYTHON}
    from evaluation.grading import Grader  # noqa: PLC0415

    verdict = Grader(detect_sandbox(load_settings().packages, "so nothing can be run")).judge(program, task)
    common.write_json(json_file, facts | asdict(verdict) | {"passed": verdict.passed})
    if json_file != "-":
        status = "done" if verdict.passed and language is None else verdict.status
        echo(f"{status} in {verdict.wall_s:.2f} s ({verdict.cpu_s:.2f} s CPU), tier {verdict.isolation}")
    if not verdict.passed:
        if json_file != "-" and verdict.traceback:
            echo(verdict.traceback, err=True)
        case = f" at {verdict.failing_assert}" if verdict.failing_assert else ""
        raise BasslineError(f"the program ended as {verdict.status}{case}: {verdict.detail}")
