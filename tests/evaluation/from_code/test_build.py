"""Builds the task of a function: which cases are run against its mutants before a prompt is written."""

from __future__ import annotations

from types import SimpleNamespace

from evaluation.from_code import build
from evaluation.from_code.calls.cases import Case
from evaluation.from_code.calls.observe import CallOutcome
from evaluation.from_code.recording import values


def make_case(text: str) -> Case:
    return Case(values.serialize(((text,), {})), text, CallOutcome(values.serialize(None)))


def test_a_case_that_the_prompt_shows_is_run_against_all_mutants_even_where_many_are_shorter() -> None:
    recorded = [make_case(f"{number:02}") for number in range(40)]
    shown = make_case("x" * 150)
    function: object = SimpleNamespace(qualified="f")
    numbers = build._list_showable_numbers(function, [*recorded, shown], (shown,))  # type: ignore[arg-type]
    assert len(numbers) == 1 + build._MAX_SHOWABLE
    assert len(recorded) in numbers
