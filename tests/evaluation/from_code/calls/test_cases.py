"""The test of a task accepts what the original did and refuses what differs, judged by proxy in the sandbox."""

from __future__ import annotations

import json

import pytest

from evaluation.datasets import Task
from evaluation.from_code.calls import cases
from evaluation.from_code.calls.cases import Case
from evaluation.from_code.calls.observe import CallOutcome
from evaluation.from_code.recording import values
from evaluation.from_code.recording.values import OpaqueObject
from evaluation.sandbox import Limits

NAN = float("nan")


def case(*args, returned=None, raised=(), after=None, **kwargs):
    outcome = CallOutcome(
        None if raised else values.serialize(returned),
        tuple(raised),
        None if after is None else values.serialize(after),
    )
    return Case(values.serialize((args, kwargs)), "", outcome)


ACCEPTED = {
    "a float within its tolerance": (case(returned=0.3), "return 0.1 + 0.2"),
    "a float in a dict in a list": (case(returned=[{"a": 0.3}]), "return [{'a': 0.1 + 0.2}]"),
    "not a number": (case(returned=(NAN, float("inf"))), "return (float('nan'), float('inf'))"),
    "a set in any order": (case(returned={"a", "b", "c"}), "return {'c', 'b', 'a'}"),
    "a dict in any order": (case(returned={1: 2, 3: 4}), "return {3: 4, 1: 2}"),
    "an exception of the type": (case(raised=("KeyError", "LookupError", "Exception")), "raise KeyError('other')"),
    "a subclass of the exception": (case(raised=("LookupError", "Exception")), "raise KeyError"),
    "nothing": (case(returned=None), "return None"),
    "a changed argument": (case([1], returned=None, after=(([1, 2],), {})), "args[0].append(2)"),
    "true": (case(returned=True), "return True"),
    "ones in a list": (case(returned=[1, 0]), "return [1, 0]"),
    "an argument that stays as it is": (case([1, 2], returned=3), "return sum(args[0])"),
    "keywords": (case(1, b=2, returned=3), "return args[0] + kwargs['b']"),
    "texts that are hard to write": (case(returned="\ud800'\"\\\n\0"), "return '\\ud800\\'\"\\\\\\n\\0'"),
}
REFUSED = {
    "another float": (case(returned=0.3), "return 0.30001"),
    "a float that is not a number": (case(returned=1.0), "return float('nan')"),
    "a list for a tuple": (case(returned=(1, 2.0)), "return [1, 2.0]"),
    "another order of a list": (case(returned=[1, 2]), "return [2, 1]"),
    "another exception": (case(raised=("KeyError", "LookupError", "Exception")), "raise IndexError"),
    "no exception": (case(raised=("KeyError", "LookupError", "Exception")), "return None"),
    "an argument that was not changed": (case([1], returned=None, after=(([1, 2],), {})), "return None"),
    "one for true": (case(returned=True), "return 1"),
    "true for one": (case(returned=1), "return True"),
    "truth values for numbers in a list": (case(returned=[1, 0]), "return [True, False]"),
    "an argument that is changed as well": (case([1, 2], returned=3), "return sum(args[0]) + (args[0].clear() or 0)"),
    "a dict that is changed in a tuple": (case(({"a": 1},), returned=1), "return args[0][0].pop('a')"),
    "something for nothing": (case(returned=None), "return 0"),
}


def judged(sandbox, one, body):
    test = cases.build_test([one])
    task = Task("t", "def f(*args, **kwargs):\n", "f", test, "")
    return sandbox.judge(f"def f(*args, **kwargs):\n    {body}\n", task, Limits())


@pytest.mark.parametrize("name", ACCEPTED)
def test_equal_behaviour_passes(sandbox, name):
    result = judged(sandbox, *ACCEPTED[name])
    assert (result.status, result.trust) == ("passed", "proxy"), result.detail


@pytest.mark.parametrize("name", REFUSED)
def test_other_behaviour_fails(sandbox, name):
    result = judged(sandbox, *REFUSED[name])
    assert (result.status, result.trust) in (("wrong_answer", "proxy"), ("exception", "proxy")), result.detail


def test_values_that_stand_in_every_call_are_found():
    def thing(**attributes):
        return OpaqueObject({"object": ["m:Thing", None, [[name, part] for name, part in attributes.items()]]})

    calls = [
        case(thing(mark="-", size=3, kind=None), 1, "a", limit=True),
        case(thing(mark="-", size=4, kind=None), 1, "b", limit=True),
    ]
    fixed = {"n": 1, "limit": True, "self.mark": "-", "self.kind": None}
    assert cases.find_fixed_values(calls, ["self", "n", "text", "limit"]) == fixed
    assert cases.find_fixed_values([*calls, case(thing(), 1.0, "a")], ["self", "n", "text", "limit"]) == {}


@pytest.mark.parametrize(
    ("results", "both"),
    [((None, [1]), True), ((None, "a"), True), ((None, True), False), ((None, None), False), (([1], ""), False)],
)
def test_none_and_values_that_can_be_empty_are_both_results(results, both):
    assert cases.returns_none_too([case(returned=each) for each in results]) == both
    raising = [case(raised=("KeyError", "Exception")), case(returned=[1])]
    assert not cases.returns_none_too(raising)


@pytest.mark.parametrize(
    ("tree", "can_be_empty"),
    [
        ({"object": ["m:Thing", None, []]}, False),
        ({"member": ["m:Colour", "RED"]}, False),
        ({"number": [1, {"object": ["m:Node", None, [["next", {"ref": 1}]]]}]}, False),
        ({"number": [1, [{"ref": 1}]]}, True),
        ({"tuple": []}, True),
    ],
)
def test_objects_and_members_of_enumerations_are_no_values_that_can_be_empty(tree, can_be_empty):
    other = Case("", "", CallOutcome(json.dumps(tree)))
    assert cases.returns_none_too([case(returned=None), other]) == can_be_empty


def test_the_one_type_of_a_parameter_and_of_the_results_is_found_without_none():
    made = [case("a", 1, returned=[1], n=None), case("b", 2.5, returned=[], n=3), case("c", returned=None)]
    assert cases.find_types(made, ["text", "number"]) == {"text": "str", "return": "list", "n": "int"}
    assert cases.find_types([case(raised=("KeyError",))], ["text"]) == {}
