"""Cases are chosen for what they add, not for when they came."""

from __future__ import annotations

import random

from evaluation.from_code.calls.cases import MAX_CASES, Case, choose_varied_cases
from evaluation.from_code.calls.observe import CallOutcome
from evaluation.from_code.recording import values


def case(number, arcs=((0, 1),), returned=1, raised=()):
    outcome = CallOutcome(None if raised else values.serialize(returned), raised, arcs=frozenset(arcs))
    return Case(values.serialize(((number,), {})), f"{number:08}", outcome, "int")


COMMON = [case(i) for i in range(200)]


def test_the_one_call_on_a_branch_and_the_one_exception_are_chosen_among_hundreds():
    branch, failing = case(900, arcs=[(0, 1), (1, 7)]), case(901, raised=("KeyError",))
    chosen = choose_varied_cases([*COMMON, branch, failing])
    assert len(chosen) == MAX_CASES
    assert branch in chosen
    assert failing in chosen


def test_the_order_of_the_cases_does_not_matter():
    mixed = [*COMMON, case(900, returned="x")]
    random.Random(1).shuffle(mixed)
    assert choose_varied_cases(mixed) == choose_varied_cases(sorted(mixed, key=lambda each: each.digest))


def test_a_case_that_is_too_long_to_read_is_not_chosen():
    assert choose_varied_cases([case(1), case(2, returned="x" * 3000)]) == [case(1)]
