"""The test of a task accepts what the original did and refuses what differs, judged by proxy in the sandbox."""

from __future__ import annotations

import pytest

from evaluation.datasets import Task
from evaluation.from_code.calls import cases
from evaluation.from_code.calls.cases import Case
from evaluation.from_code.calls.observe import Outcome
from evaluation.from_code.recording import values
from evaluation.sandbox import Limits

NAN = float("nan")


def case(*args, returned=None, raised=(), after=None, iterates=False, **kwargs):
    outcome = Outcome(
        None if raised else values.write(returned), tuple(raised), None if after is None else values.write(after),
        iterates=iterates,
    )  # fmt: skip
    return Case(values.write((args, kwargs)), "", outcome, True)


ACCEPTED = {
    "a float within its tolerance": (case(returned=0.3), "return 0.1 + 0.2"),
    "a float in a dict in a list": (case(returned=[{"a": 0.3}]), "return [{'a': 0.1 + 0.2}]"),
    "not a number": (case(returned=(NAN, float("inf"))), "return (float('nan'), float('inf'))"),
    "a set in any order": (case(returned={"a", "b", "c"}), "return {'c', 'b', 'a'}"),
    "a dict in any order": (case(returned={1: 2, 3: 4}), "return {3: 4, 1: 2}"),
    "an exception of the type": (case(raised=("KeyError", "LookupError", "Exception")), "raise KeyError('other')"),
    "a subclass of the exception": (case(raised=("LookupError", "Exception")), "raise KeyError"),
    "an exception of its own with a builtin base": (case(raised=("OwnError", "ValueError")), "raise ValueError"),
    "the items of an iterator": (case(returned=[1, 2], iterates=True), "return iter((1, 2))"),
    "nothing": (case(returned=None), "return None"),
    "a changed argument": (case([1], returned=None, after=(([1, 2],), {})), "args[0].append(2)"),
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
    "more items": (case(returned=[1], iterates=True), "return iter((1, 2))"),
    "something for nothing": (case(returned=None), "return 0"),
}


def judged(sandbox, one, body):
    test = cases.test_of([one], frozenset())
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


REORDERED = {
    "a changed argument": (
        [case({1: 2, 3: 4}, after=(({3: 4, 1: 2},), {}))], "args[0][1] = args[0].pop(1)",
    ),
    "a result": ([case([{1: 2, 3: 4}], returned=[{3: 4, 1: 2}])], "return [dict(reversed(args[0][0].items()))]"),
    "some of the calls": (
        [case({1: 2}), case({1: 2, 3: 4}, after=(({3: 4, 1: 2},), {})), case(5, raised=("AttributeError",))],
        "args[0][1] = args[0].pop(1)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REORDERED)
def test_order_counts_where_nothing_else_changes(sandbox, name):
    every, body = REORDERED[name]
    test = cases.test_of(every, frozenset())
    task = Task("t", "def f(*args, **kwargs):\n", "f", test, "")
    nothing = "return args[0]" if name == "a result" else "pass"
    for each, status in ((body, "passed"), (nothing, "wrong_answer")):
        result = sandbox.judge(f"def f(*args, **kwargs):\n    {each}\n", task, Limits())
        assert result.status == status, result


def test_order_does_not_count_where_something_else_changes(sandbox):
    merged = case({1: 2}, {3: 4}, returned={3: 4, 1: 2})
    picked = case({1: 2, 3: 4}, [3, 1], returned={3: 4, 1: 2})
    assert not cases.order_is_effect([merged, picked])
    assert cases.order_is_effect([picked])
