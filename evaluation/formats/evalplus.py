"""EvalPlus' own form (Liu et al., arXiv 2305.01210) of HumanEval+ and MBPP+: base_input, plus_input and atol.

The inputs decide: the test calls the task's own solution for the expected results. A `test` beside them is HumanEval's,
with the base inputs alone. In the other form of these datasets, on the Hugging Face Hub, `test` holds all inputs; it is
read as HumanEval's and MBPP's.
"""

from __future__ import annotations

import re
from collections.abc import Set
from importlib import resources
from typing import Any

from evaluation.datasets import PYTHON, Task
from evaluation.formats.base import LeftOutError, Record, RecordError, get_stops, get_text

_ORACLE = resources.files("evaluation.formats").joinpath("evalplus_oracle.py").read_text("utf-8")
_TEST = """{oracle}

inputs = {inputs!r}


def check(candidate):
    for number, arguments in enumerate(inputs, 1):
        expected = canonical_solution(*copy_arguments(arguments))
        result = candidate(*copy_arguments(arguments))
        assert {compare}(result, expected, arguments, {atol!r}), (
            f"input {{number}} of {{len(inputs)}}: {{show(expected)}} is expected"
        )
"""
_AS_SET = (
    "Diff", "common_in_nested_lists", "extract_singly", "find_char_long", "find_dissimilar", "intersection_array",
    "larg_nnum", "similar_elements",
)  # fmt: skip
_MBPP_ORACLES = {
    **dict.fromkeys(_AS_SET, "agrees_as_set"),
    "digit_distance_nums": "agrees_on_digits",
    "sum_div": "agrees_or_is_zero",
    "surface_Area": "agrees_on_surface",
}
"""Functions of MBPP that have more right results than the task's own solution gives."""
_MATCHES = "EvalPlus asks whether the result is None; it is a match object, which cannot leave the program's process"
_NOT_JUDGED = {
    "are_equivalent": "EvalPlus accepts every answer",
    **dict.fromkeys(("check_str", "text_match_three", "text_starta_endb"), _MATCHES),
}
_EVERY_LEVEL = frozenset(range(1, 20))
_TUPLES: tuple[tuple[int | None, Set[int], tuple[int, ...]], ...] = (
    (None, {1}, (
        *(2, 116, 132, 143, 222, 261, 273, 394, 399, 421, 424, 429, 470, 560, 579, 596, 616, 630, 726, 740, 744, 809),
    )),
    (None, {2}, (63, 64, 70, 94, 120, 237, 272, 299, 400, 409, 417, 438, 473, 614, 780)),
    (None, {1, 2}, (259, 278, 401, 445)),
    (None, _EVERY_LEVEL, (580, 615, 791)),
    (0, {1}, (250, 307, 405, 446, 617, 720, 763, 808)),
    (0, {2}, (75, 413, 444, 722, 753)),
    (1, {1}, (106, 750)),
)  # fmt: skip
"""JSON has no tuples: (argument or None for all, levels of it, numbers of MBPP's tasks where lists are tuples)."""
_TASK_WITH_SETS = 115
_COMPLEX = {124: 1, 252: 0}
"""Tasks of MBPP with a complex number, and the number of its argument."""


def to_task(record: Record) -> Task:
    """The task in a record. Raises RecordError, and LeftOutError for a task that cannot be judged."""
    task_id, entry_point = get_text(record, "task_id"), get_text(record, "entry_point")
    number = re.fullmatch(r"Mbpp/(\d+)", task_id)
    solution = get_text(record, "canonical_solution")
    inputs = [*_read_inputs(record, "base_input"), *_read_inputs(record, "plus_input")]
    if not inputs:
        raise RecordError("field base_input: base_input and plus_input are empty, give the arguments of a call")
    compare = "agrees"
    if number:
        if reason := _NOT_JUDGED.get(entry_point):
            raise LeftOutError(task_id, reason)
        inputs = [_restore_types(int(number[1]), arguments) for arguments in inputs]
        compare = _MBPP_ORACLES.get(entry_point, compare)
    elif entry_point == "find_zero" and task_id.startswith("HumanEval/"):
        compare = "is_root"
    prompt = get_text(record, "prompt")
    return Task(
        task_id=task_id,
        prompt=prompt if prompt.endswith("\n") else f"{prompt}\n",
        entry_point=entry_point,
        test=_TEST.format(oracle=_ORACLE, inputs=inputs, compare=compare, atol=_read_tolerance(record)),
        canonical_solution=solution,
        stop=get_stops(record),
        source={
            "format": "EvalPlus",
            "judged_by": [
                name for name in ("base_input", "plus_input", "atol", "canonical_solution") if name in record
            ],
        },
    )


def _read_inputs(record: Record, field: str) -> list[list[Any]]:
    value = record.get(field) or []
    if not isinstance(value, list) or not all(isinstance(arguments, list) for arguments in value):
        raise RecordError(f"field {field}: give a list of calls, each a list of arguments")
    return value


def _read_tolerance(record: Record) -> int | float:
    value = record.get("atol") or 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise RecordError("field atol: give a number that is 0 or more")
    return value


def _restore_types(number: int, arguments: list[Any]) -> list[Any]:
    """The arguments of a task of MBPP with the types that JSON does not have. Raises RecordError."""
    try:
        if number == _TASK_WITH_SETS:
            return [[set(item) if isinstance(item, list) and item else {} for item in arguments[0]]]
        if number in _COMPLEX:
            place = _COMPLEX[number]
            return [*map(float, arguments[:place]), complex(arguments[place])]
    except (IndexError, TypeError, ValueError, OverflowError):
        reason = f"a call has other arguments than Mbpp/{number}, give EvalPlus' inputs"
        raise RecordError(f"field base_input or plus_input: {reason}") from None
    for only, levels, numbers in _TUPLES:
        if number in numbers:
            return [
                _to_tuples(value, levels, 1) if only in (None, place) else value
                for place, value in enumerate(arguments)
            ]
    return arguments


def _to_tuples(value: Any, levels: Set[int], level: int) -> Any:
    if isinstance(value, dict):
        return {key: _to_tuples(part, levels, level + 1) for key, part in value.items()}
    if not isinstance(value, list):
        return value
    parts = [_to_tuples(part, levels, level + 1) for part in value]
    return tuple(parts) if level in levels else parts


def matches(record: Record) -> bool:
    """Whether a record is of this format."""
    return record.get("language") in (None, PYTHON) and ("base_input" in record or "plus_input" in record)
