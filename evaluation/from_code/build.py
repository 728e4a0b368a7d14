"""From a function and its recorded calls to its checked task, and from all tasks to the dataset."""

from __future__ import annotations

import ast
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation.datasets import Task
from evaluation.from_code import checks, mutants
from evaluation.from_code.calls.cases import Case
from evaluation.from_code.calls.record import Recording
from evaluation.from_code.calls.recorded import Call
from evaluation.from_code.calls.variety import choose
from evaluation.from_code.reasons import ExcludedError
from evaluation.from_code.source.duplicates import duplicates
from evaluation.from_code.source.find import Function
from evaluation.from_code.source.project import Project
from evaluation.from_code.source.provenance import Origin
from evaluation.from_code.tasks import (
    LINES_AFTER,
    LINES_BEFORE,
    completion_row,
    infilling_row,
    program_of,
    with_body,
    with_imports,
)
from evaluation.sandbox import Sandbox

BUILDER = "from-code-2"
"""A change of the recording, the choice or the output gets a new version, so that stored datasets keep their
meaning."""


@dataclass
class TaskResult:
    """The task of one function: a row of the dataset, or the reason why there is none."""

    key: str
    row: dict[str, Any] | None = None
    program_prefix: str = ""  # of its infilling form
    reason: str = ""
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Options:
    """Lines of the file around the body in infilling form, the seconds that the tests may take, and the interpreter
    whose programs come first on their PATH; "" to leave PATH as it is."""

    before: int = LINES_BEFORE
    after: int = LINES_AFTER
    limit_s: float = 900.0
    python: str = ""
    judge: str = "auto"  # "cases" or "tests": one judge alone


def make(
    sandbox: Sandbox,
    project: Project,
    origin: Origin,
    function: Function,
    recording: Recording,
    extra: Sequence[Call],
) -> TaskResult:
    """The task of one function, checked, or the reason why there is none."""
    started = time.monotonic()
    try:
        row = _row(sandbox, project, origin, function, recording, extra)
        made = TaskResult(function.key, row, _program_prefix(sandbox, function, row))
    except ExcludedError as reason:
        made = TaskResult(function.key, reason=reason.reason, detail=reason.detail)
    made.seconds = round(time.monotonic() - started, 2)
    return made


def _program_prefix(sandbox: Sandbox, function: Function, row: dict[str, Any]) -> str:
    """The prompt with the file's imports, or without them where they do not run in the sandbox."""
    prefix = with_imports(row["prompt"], function.module)
    try:
        checks.passes(sandbox, _task({**row, "prompt": prefix}), prefix + row["canonical_solution"])
    except ExcludedError:
        return str(row["prompt"])
    return prefix


def _task(row: dict[str, Any]) -> Task:
    return Task(**{name: row[name] for name in ("task_id", "prompt", "entry_point", "test", "canonical_solution")})


def _row(
    sandbox: Sandbox,
    project: Project,
    origin: Origin,
    function: Function,
    recording: Recording,
    extra: Sequence[Call],
) -> dict[str, Any]:
    calls = recording.calls.get(function.key, [])
    if not calls:
        refused = recording.refused.get(function.key)
        if refused:
            raise ExcludedError("returns values that are not plain data", ", ".join(sorted(set(refused))))
        ended = f"before the tests {recording.failure}" if recording.failure else "while the tests ran"
        raise ExcludedError(f"was not called with plain data {ended}")
    allowed = sandbox.packages
    prompt, program = program_of(project, function, allowed.names if allowed else frozenset())
    cases = checks.repeated(sandbox, program, calls)
    cases += checks.generated(sandbox, program, extra, cases)
    if len(cases) < checks.MIN_CASES:
        raise ExcludedError(f"has fewer than {checks.MIN_CASES} calls with plain data as arguments and result")
    if not any(case.is_informative() for case in cases):
        raise ExcludedError("returns and changes nothing in every call")
    if len({(case.outcome.returned, case.outcome.raised[:1], case.outcome.after) for case in cases}) == 1:
        raise ExcludedError("does the same in every call, so that its test could not tell it from a constant")
    chosen = choose(cases)
    source = _source(project, origin, function, chosen)
    if allowed and (needed := allowed.needed_by(program.text)):
        source["packages"] = needed
    row = completion_row(project, function, prompt, chosen, source)
    task = _task(row)
    checks.passes(sandbox, task, program.text)
    definition = checks.definition_in(program)
    checks.refuses_stub(sandbox, task, with_body(prompt, function, ast.unparse(_stub(definition))))
    shift = function.node.lineno - definition.lineno
    faulty = mutants.mutants(definition, checks.MAX_MUTANTS)
    if len(faulty) < checks.MIN_MUTANTS:
        raise ExcludedError(f"has fewer than {checks.MIN_MUTANTS} mutants, too few to judge its test", str(len(faulty)))
    programs = [(mutant, with_body(prompt, function, mutant.source)) for mutant in faulty]
    score = checks.mutation_score(sandbox, task, programs)
    row["source"] |= {
        "mutants": score.judged,
        "killed": score.killed,
        "mutation_score": round(score.score, 4),
        "weak": score.score < checks.WEAK_BELOW,
        "survivors": [f"line {mutant.line + shift}: {mutant.operator}" for mutant in score.survivors],
    }
    return row


def _stub(definition: ast.FunctionDef) -> ast.FunctionDef:
    """The function with a body that does nothing."""
    return ast.FunctionDef(**{**dict(ast.iter_fields(definition)), "body": [ast.Pass()]}, lineno=1)


def _source(project: Project, origin: Origin, function: Function, cases: Sequence[Case]) -> dict[str, Any]:
    return {
        "project": project.name,
        "version": origin.version,
        "commit": origin.commit,
        "licence": origin.licence,
        "file": function.module.path,
        "line": function.node.lineno,
        "cases": len(cases),
        "recorded_cases": sum(case.recorded for case in cases),
        "builder": BUILDER,
    }


@dataclass
class Result:
    """The rows of both forms in the project's order, and the result of every function."""

    completion: list[dict[str, Any]] = field(default_factory=list)
    infilling: list[dict[str, Any]] = field(default_factory=list)
    made: list[TaskResult] = field(default_factory=list)


def finish(functions: Sequence[Function], made: Sequence[TaskResult], options: Options) -> Result:
    """The dataset: each problem once, in both forms."""
    by_key = {function.key: function for function in functions}
    kept = [each for each in made if each.row is not None]
    repeats = duplicates([by_key[each.key].node for each in kept])
    result = Result(made=list(made))
    for index, each in enumerate(kept):
        if index in repeats:
            earlier, same = repeats[index]
            how = "has the same body as another function" if same else "has nearly the same body as another function"
            place = result.made.index(each)
            result.made[place] = TaskResult(each.key, reason=how, detail=kept[earlier].key, seconds=each.seconds)
            continue
        assert each.row is not None
        function = by_key[each.key]
        result.completion.append(each.row)
        result.infilling.append(infilling_row(each.row, function, each.program_prefix, options.before, options.after))
    return result
