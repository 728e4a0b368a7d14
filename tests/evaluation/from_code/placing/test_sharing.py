"""Who changes a list, dict or set that a call left changes no other one, unless the original has it so."""

from __future__ import annotations

import json

import pytest

from evaluation.from_code.calls.cases import Case, build_objects_test
from evaluation.from_code.calls.observe import PlacedFunction, observe
from evaluation.from_code.checks import MutationScore, judge_mutants
from evaluation.from_code.mutants import Mutant
from evaluation.from_code.placing.sharing import list_shared
from evaluation.from_code.placing.spec import VALUES, FunctionPlacement


class Shelf:
    """Attributes of any names."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def test_a_container_in_two_places_is_named_with_both():
    items = [1]
    assert list_shared([items, {"kept": items}]) == ["0 is 1['kept']"]
    assert list_shared([Shelf(own=items, _own=items), (items, list(items))]) == ["0.own is 1[0]"]


def test_what_only_looks_alike_or_cannot_change_is_not_shared():
    text, pair = "text", (1, 2)
    assert list_shared([[1], [1], text, text, pair, pair, len, len, Shelf(_own=[])]) == []


def test_an_object_that_is_returned_shares_what_it_holds():
    box = Shelf(items=[1])
    assert list_shared([box, box]) == ["0.items is 1.items"]


def test_nothing_may_be_returned_as_it_was_given():
    given: list[int] = []
    assert list_shared([given, given]) == []
    assert list_shared([Shelf(old=given, new=given)]) == ["0.new is 0.old"]


def test_circles_end():
    circle: list[object] = []
    circle.append(circle)
    assert list_shared([circle]) == ["0 is 0[0]"]


def test_a_container_of_an_earlier_call_is_kept():
    earlier: dict[int, object] = {}
    items: list[int] = []
    assert list_shared([items], earlier) == []
    assert list_shared([items, []], earlier) == ["kept 0"]
    assert list_shared([[]], earlier) == []


BEFORE = "DEFAULTS = {'a': 1}\n\nclass Box:\n"
COPIES = "def __init__(self, items):\n    self.items = list(items)\n    self.old, self.seen = [], []"
STORES = "def __init__(self, items):\n    self.items = items\n    self.old, self.seen = [], []"
TWICE = "def __init__(self, items):\n    self.items = list(items)\n    self.old = self.seen = []"
DEFAULT = "def __init__(self, items, old=[]):\n    self.items = list(items)\n    self.old, self.seen = old, []"


def place(definition):
    return PlacedFunction(FunctionPlacement("m", False, "Box.__init__", BEFORE, "", "    ", form=VALUES), definition)


def write_call(*items):
    box = {"object": ["m:Box", None, []]}
    return json.dumps({"tuple": [{"tuple": [box, list(items)]}, {"dict": []}]}, separators=(",", ":"))


def observe_cases(sandbox, original):
    calls = [write_call(1, 2), write_call(3)]
    outcomes = observe(sandbox, place(original), calls).outcomes
    return [Case(call, call, outcome) for call, outcome in zip(calls, outcomes, strict=True)]


@pytest.mark.parametrize(
    ("original", "answer", "passes"),
    [
        (COPIES, COPIES, True), (COPIES, STORES, False), (COPIES, TWICE, False), (COPIES, DEFAULT, False),
        (STORES, COPIES, True), (TWICE, TWICE, True), (TWICE, COPIES, True), (DEFAULT, DEFAULT, True),
    ],
)  # fmt: skip
def test_an_answer_shares_no_more_than_the_original(sandbox, original, answer, passes):
    namespace: dict[str, object] = {}
    cases = observe_cases(sandbox, original)
    exec(build_objects_test(cases, "Box.__init__"), namespace)
    given = observe(sandbox, place(answer), [case.call for case in cases]).outcomes
    rows = {case.call: json.dumps(one.as_row()) for case, one in zip(cases, given, strict=True)}
    if passes:
        namespace["check"](rows.__getitem__)
        return
    with pytest.raises(AssertionError):
        namespace["check"](rows.__getitem__)


def test_a_mutant_that_forgets_a_copy_is_noticed(sandbox):
    given = tuple(Mutant(source, "forgotten call", 1) for source in (STORES, COPIES))
    score = judge_mutants(sandbox, place(COPIES), observe_cases(sandbox, COPIES), MutationScore(given, given))
    assert [mutant.source for mutant in score.survivors] == [COPIES]
