"""Extraction on real answers of three models: no reading that a person might try passes where ours does not."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from textwrap import dedent, indent

import pytest

from evaluation.datasets import Task
from evaluation.extraction import extract
from evaluation.grading import Grader
from evaluation.sandbox import Limits
from tests.evaluation.judges import HUMANEVAL, answers
from tests.evaluation.sandboxes import sandbox_or_skip

_STYLES = {"chat": "chat", "completion": "completion", "free": "completion"}
_CODE_STARTS = re.compile(r"^\s*(?:def|class|import|from|async|@)\b", re.MULTILINE)


def parses(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError):
        return False
    return True


def longest_start(code: str) -> str | None:
    """The code without as many of its last lines as it takes to make Python of it."""
    lines = code.split("\n")
    return next((s for n in range(len(lines), 0, -1) if parses(s := "\n".join(lines[:n]))), None)


def readings(task: Task, raw: str, opened: bool) -> Iterator[str]:
    """Programs that a patient reader might try, by means that share nothing with extraction's."""
    text = f"```python\n{raw}" if opened else raw
    fenced = re.findall(r"```[^\n]*\n(.*?)(?:\n```|\Z)", text, re.DOTALL)
    blocks = {*fenced, "\n".join(fenced), raw, re.sub(r"^```.*$", "", text, flags=re.MULTILINE)}
    starts = {block[m.start() :] for block in blocks for m in [re.match("", block), *_CODE_STARTS.finditer(block)] if m}
    preamble = task.prompt[: task.prompt.rindex("def ")]
    for code in starts:
        for own in {code, dedent(code)}:
            yield preamble + own
            yield task.prompt + own
            yield task.prompt + indent(own, "    ")
            yield task.prompt + "    " + own.lstrip()


def restates_or_continues(program: str, task: Task) -> bool:
    tree = ast.parse(program)
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == task.entry_point]
    return any(not isinstance(s, ast.Expr) for f in functions[-1:] for s in f.body)


@pytest.mark.slow
@pytest.mark.parametrize(("every", "at_least"), [(24, 25), pytest.param(6, 100, marks=pytest.mark.thorough)])
def test_no_answer_that_a_reader_would_call_right_fails(every: int, at_least: int) -> None:
    grader = Grader(sandbox_or_skip(), Limits(cpu_s=2, wall_s=6.0))
    given = answers(every)
    tasks = [HUMANEVAL.get_task(answer["task_id"]) for answer in given]
    found = [
        extract(task, answer["raw"], _STYLES[answer["style"]])  # type: ignore[arg-type]
        for answer, task in zip(given, tasks, strict=True)
    ]
    verdicts = dict(grader.judge_many((f.program, task) for f, task in zip(found, tasks, strict=True)))
    others: dict[tuple[str, str], set[int]] = defaultdict(set)
    for i, verdict in verdicts.items():
        if not verdict.passed:
            for reading in readings(tasks[i], given[i]["raw"], opened=given[i]["style"] == "chat"):
                program = longest_start(reading)
                if program and program != found[i].program and restates_or_continues(program, tasks[i]):
                    others[tasks[i].task_id, program].add(i)
    cases = list(others)
    assert len(cases) > at_least
    right = dict(grader.judge_many((program, HUMANEVAL.get_task(task_id)) for task_id, program in cases))
    missed = {i for n, verdict in right.items() if verdict.passed for i in others[cases[n]]}
    assert [(given[i]["model"], given[i]["style"], given[i]["task_id"]) for i in sorted(missed)] == []
