"""Translates the tasks of a Python dataset into another language."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat

from evaluation.datasets import PYTHON, Task
from evaluation.languages.base import Language, UnsupportedError
from evaluation.languages.cases import JsonCase, Parameter, Signature
from evaluation.languages.translation import docstrings, oracles
from evaluation.languages.translation.recorded import PlainCall, record
from evaluation.languages.translation.type_inference import (
    UntranslatableError,
    find_common_type,
    infer_annotation_type,
    infer_value_type,
    merge_annotation,
    unify,
)
from evaluation.languages.types import Type
from evaluation.languages.values import Json, ValueFormError, from_json, to_json
from evaluation.sandbox import Sandbox
from evaluation.source import list_positional_arguments, parse_open

MAX_LOST = 1 / 3
"""The share of a task's calls that may be lost, to other types or values that do not fit."""


@dataclass(frozen=True, slots=True)
class TranslationSource:
    """A Python task as any language needs it: its function's types, its docstring, and the recorded calls."""

    task: Task
    signature: Signature
    text: str
    calls: tuple[PlainCall, ...]
    tolerance: float | None


@dataclass(slots=True)
class Translation:
    """The tasks in one language, and what was left out and why, by task id."""

    language: str
    tasks: list[Task] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    oracle_failed: dict[str, str] = field(default_factory=dict)


def read_source(sandbox: Sandbox, task: Task) -> TranslationSource:
    """What a Python task gives to any translation. Raises UntranslatableError."""
    if task.language != PYTHON or task.suffix is not None:
        raise UntranslatableError("it is not a Python task to be completed")
    tree = parse_open(task.prompt)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)] if tree is not None else []
    function = next((node for node in functions if node.name == task.entry_point), None)
    if tree is None or function is None:
        raise UntranslatableError("its prompt opens no function")
    if any(node is not function and not _is_harmless(node) for node in tree.body):
        raise UntranslatableError("its prompt defines helpers")
    spec = function.args
    if spec.vararg or spec.kwarg or spec.kwonlyargs:
        raise UntranslatableError("its parameters are starred or keyword-only")
    calls = _select_complete_calls(record(sandbox, task), function)
    signature, calls = _infer_signature(function, calls)
    text = ast.get_docstring(function) or ""
    return TranslationSource(task, signature, text, tuple(calls), _find_tolerance(task.test))


def _is_harmless(node: ast.stmt) -> bool:
    """Whether a prompt can lose a statement: an import, a text, or a constant."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return True
    return isinstance(node, ast.Expr | ast.Assign) and isinstance(node.value, ast.Constant)


def _select_complete_calls(calls: Sequence[PlainCall], function: ast.FunctionDef) -> list[PlainCall]:
    """The calls that give every argument: a default value is Python's."""
    n = len(list_positional_arguments(function.args))
    whole = [call for call in calls if len(call.args) == n]
    if not whole:
        raise UntranslatableError("its test leaves out arguments")
    return whole


def _infer_signature(function: ast.FunctionDef, calls: list[PlainCall]) -> tuple[Signature, list[PlainCall]]:
    """The signature, and the calls whose arguments fit it. Raises UntranslatableError."""
    nodes = list_positional_arguments(function.args)
    kept = _select_one_type(calls)
    returned = [infer_value_type(call.returned) for call in kept if not call.raised]
    returns = merge_annotation(find_common_type(returned), infer_annotation_type(function.returns))
    if returns == Type("none") and not any(call.raised for call in kept):
        raise UntranslatableError("its function returns nothing")
    columns = [find_common_type([infer_value_type(call.args[i]) for call in kept]) for i in range(len(nodes))]
    parameters = tuple(
        Parameter(node.arg, merge_annotation(column, infer_annotation_type(node.annotation)))
        for node, column in zip(nodes, columns, strict=True)
    )
    return Signature(function.name, parameters, returns), kept


def _select_one_type(calls: list[PlainCall]) -> list[PlainCall]:
    """The calls whose arguments agree on one type per parameter; a few may be left out."""
    kept: list[PlainCall] = []
    types: list[Type] | None = None
    reason = UntranslatableError("no call")
    for call in calls:
        try:
            own = list(map(infer_value_type, call.args))
            types = own if types is None else [unify(*pair) for pair in zip(types, own, strict=True)]
        except UntranslatableError as error:
            reason = error
            continue
        kept.append(call)
    if len(kept) < (1 - MAX_LOST) * len(calls):
        raise reason
    return kept


def _find_tolerance(test: str) -> float | None:
    """The largest difference that the test allows, None where it names none."""
    allowed = [
        node.comparators[0].value
        for node in ast.walk(ast.parse(test))
        if isinstance(node, ast.Compare)
        and isinstance(node.ops[0], ast.Lt | ast.LtE)
        and isinstance(node.comparators[0], ast.Constant)
        and isinstance(node.comparators[0].value, float)
        and node.comparators[0].value < 1e-2
    ]
    return max(allowed, default=None)


def translate_task(source: TranslationSource, language: Language) -> Task:
    """The task in that language. Raises UntranslatableError."""
    signature = _rename_reserved_words(source.signature, language)
    try:
        prompt = language.write_prompt(
            signature, docstrings.translate_docstring(source.text, source.signature, language)
        )
        cases = _build_cases(source, signature, language)
    except UnsupportedError as error:
        raise UntranslatableError(f"{language.label} cannot express it: {error}") from None
    origin = {"translated_from": source.task.task_id, "cases": len(cases)}
    return Task(
        task_id=source.task.task_id,
        prompt=prompt,
        entry_point=signature.name,
        test="",
        canonical_solution="",
        source=origin,
        language=language.name,
        signature=signature,
        cases=tuple(cases),
    )


def _rename_reserved_words(signature: Signature, language: Language) -> Signature:
    """The signature with another name where the language has the word for itself."""

    def free(name: str) -> str:
        return f"{name}_" if name in language.RESERVED else name

    parameters = tuple(Parameter(free(each.name), each.type) for each in signature.parameters)
    return Signature(free(signature.name), parameters, signature.returns)


def _build_cases(source: TranslationSource, signature: Signature, language: Language) -> list[JsonCase]:
    """The calls as cases, without values the language cannot hold. Raises UntranslatableError if too many are lost."""
    found: dict[str, list[JsonCase]] = {}
    reason = "no case"
    tolerance = source.tolerance if "float" in str(signature.returns) else None
    for call in source.calls:
        try:
            args = tuple(
                _convert_value(value, each.type, language)
                for value, each in zip(call.args, signature.parameters, strict=True)
            )
            result = None if call.raised else _convert_value(call.returned, signature.returns, language)
        except (UnsupportedError, ValueFormError) as error:
            reason = str(error)
            continue
        case = JsonCase(args, result, call.raised, tolerance)
        found.setdefault(json.dumps(args), []).append(case)
    # 3 and 3.0 are one argument where the type is float: a function cannot answer them differently.
    cases = [same[0] for same in found.values() if all(case == same[0] for case in same)]
    if not cases or sum(map(len, found.values())) < (1 - MAX_LOST) * len(source.calls):
        raise UntranslatableError(f"{language.label} cannot hold its values: {reason}")
    return cases


def _convert_value(value: object, kind: Type, language: Language) -> Json:
    """The JSON form of a value that the language can hold. Raises UnsupportedError and ValueFormError."""
    form = to_json(value, kind)
    language.write_literal(from_json(form, kind), kind)
    return form


def translate(
    sandbox: Sandbox, tasks: Sequence[Task], languages: Sequence[Language], workers: int = 2
) -> list[Translation]:
    """The translation into each language: every task that it can express and whose oracles do as their tables say."""

    def read(task: Task) -> TranslationSource | UntranslatableError:
        try:
            return read_source(sandbox, task)
        except UntranslatableError as reason:
            return reason

    def translate_one(
        source: TranslationSource | UntranslatableError, language: Language
    ) -> Task | UntranslatableError | str:
        if isinstance(source, UntranslatableError):
            return source
        try:
            task = translate_task(source, language)
        except UntranslatableError as reason:
            return reason
        assert task.signature is not None
        return oracles.find_oracle_failure(sandbox, language, task.signature, task.cases) or task

    found = [Translation(language.name) for language in languages]
    with ThreadPoolExecutor(workers, "translate") as executor:
        sources = list(executor.map(read, tasks))
        for translation, language in zip(found, languages, strict=True):
            results = executor.map(translate_one, sources, repeat(language))
            for task, made in zip(tasks, results, strict=True):
                if isinstance(made, Task):
                    translation.tasks.append(made)
                elif isinstance(made, str):
                    translation.oracle_failed[task.task_id] = made
                else:
                    translation.left_out[task.task_id] = str(made)
    return found
