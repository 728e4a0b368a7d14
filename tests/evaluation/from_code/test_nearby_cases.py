"""Calls that no test made judge answers where a prompt shows them, or where recorded calls do the same."""

from __future__ import annotations

import ast

from evaluation.from_code import checks
from evaluation.from_code.calls.cases import Case, format_case
from evaluation.from_code.calls.nearby import CallSources
from evaluation.from_code.calls.observe import PlacedFunction, observe
from evaluation.from_code.calls.recorded import compute_digest
from evaluation.from_code.mutants import build_mutants
from evaluation.from_code.nearby_cases import MAX_ODD, find_nearby_cases
from evaluation.from_code.placing.spec import VALUES, FunctionPlacement
from evaluation.from_code.recording import values

SIZE = """
def name_size(count, short=False):
    if count > 9:
        return "many" if short else "a great many"
    return "few"
"""


def find(sandbox, source, *arguments, chosen=None):
    node = ast.parse(source).body[0]
    program = PlacedFunction(FunctionPlacement("m", False, node.name, "", "", form=VALUES), ast.unparse(node))
    calls = [values.serialize(each if isinstance(each[0], tuple) else (each, {})) for each in arguments]
    outcomes = observe(sandbox, program, calls).outcomes
    cases = [Case(call, compute_digest(call), outcome) for call, outcome in zip(calls, outcomes, strict=True)]
    chosen = cases if chosen is None else cases[:chosen]
    faulty = tuple(build_mutants(node, checks.MAX_MUTANTS))
    score = checks.judge_mutants(sandbox, program, chosen, checks.MutationScore(faulty, faulty))
    return program, cases, find_nearby_cases(sandbox, program, node, chosen, cases, score.survivors, CallSources())


def test_a_boundary_that_no_test_tried_is_shown(sandbox):
    _, _, near = find(sandbox, SIZE, (3,), (5,), (20,), ((20,), {"short": True}))
    shown = [format_case(case, "name_size") for case in near.shown]
    assert "name_size(9) returns 'few'" in shown
    assert "name_size(10) returns 'a great many'" in shown


def test_an_answer_that_repeats_the_recorded_calls_alone_is_refused(sandbox):
    program, cases, near = find(sandbox, SIZE, (3,), (5,), (20,), ((20,), {"short": True}))
    wrong = ast.unparse(ast.parse(SIZE.replace("> 9", "> 8")))
    assert checks.find_noticing_cases(sandbox, program, cases, [wrong]) == [[]]
    (noticed,) = checks.find_noticing_cases(sandbox, program, [*cases, *near.shown, *near.judging], [wrong])
    assert noticed


def test_what_only_judges_takes_known_branches_with_arguments_of_known_kinds(sandbox):
    source = "def f(x):\n    if x == '':\n        return 'nothing'\n    return x.upper() + '!'\n"
    _, cases, near = find(sandbox, source, ("red car",), ("blue bus",), ("old car",))
    calls = [values.read_plain(case.call)[0][0] for case in near.judging]
    assert "red bus" in calls
    assert "" not in calls
    branches = frozenset().union(*(case.outcome.arcs for case in cases))
    assert all(case.outcome.arcs <= branches and not case.outcome.raised for case in near.judging)


def test_calls_that_callers_seldom_make_judge_too_where_they_do_what_recorded_ones_do(sandbox):
    source = "def f(text):\n    return text + '!'\n"
    program, cases, near = find(sandbox, source, ("red car",), ("blue bus",), ("old car",))
    for wrong in ("text.strip() + '!'", "text.lower() + '!'", "text.encode('ascii', 'ignore').decode() + '!'"):
        program_of_wrong = source.replace("text + '!'", wrong)
        assert checks.find_noticing_cases(sandbox, program, cases, [program_of_wrong]) == [[]]
        assert checks.find_noticing_cases(sandbox, program, near.judging, [program_of_wrong]) != [[]]


def test_no_call_judges_near_to_those_of_a_function_that_depends_on_the_order_of_a_set(sandbox):
    joined = "def f(xs):\n    found = {repr(x) for x in xs}\n    return ', '.join(found)\n"
    calls = [(["a"],), (["b"],), (["c", "d", "e"],), (["red", "blue", "car"],)]

    _, _, near = find(sandbox, joined, *calls)
    assert (near.shown, near.judging) == ((), ())
    _, _, near = find(sandbox, joined.replace("join(found)", "join(sorted(found))"), *calls)
    assert near.judging


def test_a_value_none_in_a_dict_judges_though_no_recorded_one_is_none(sandbox):
    source = "def f(table, key):\n    return table[key]\n"
    program, cases, near = find(sandbox, source, ({"a": 1}, "a"), ({"b": 2}, "b"), ({"c": 3, "a": 4}, "a"))
    wrong = "def f(table, key):\n    if table.get(key) is None:\n        raise KeyError(key)\n    return table[key]\n"
    assert checks.find_noticing_cases(sandbox, program, cases, [wrong]) == [[]]
    assert checks.find_noticing_cases(sandbox, program, [*near.shown, *near.judging], [wrong]) != [[]]


def test_a_prompt_shows_calls_that_callers_seldom_make_though_they_tell_no_mutant_apart(sandbox):
    body = "def f(x):\n    return [word for word in __import__('re').split('[-_. ]+', x) if word]\n"
    _, cases, near = find(sandbox, body, ("red-car",), ("blue_bus",), ("old.car",), ("a b",))
    assert len(near.shown) >= MAX_ODD
    assert not {case.call for case in cases} & {case.call for case in near.shown}


def test_a_predicate_is_shown_with_changes_that_change_its_result(sandbox):
    source = "def f(x):\n    return x.isdigit()\n"
    _, _, near = find(sandbox, source, ("12",), ("345",), ("a",), ("6",))
    shown = {values.read_plain(case.call)[0][0] for case in near.shown if case.outcome.returned == "false"}
    assert any(any(map(str.isdigit, text)) for text in shown)


def test_a_lookup_may_raise_where_the_method_is_meant_to(sandbox):
    table = "{{'a': 1, 'b': 2}}"
    shown = []
    for name in ("__getitem__", "get_it"):
        source = f"def {name}(key):\n    return {table.format()}[key.strip()]\n"
        _, _, near = find(sandbox, source, ("a",), (" b",), ("b ",))
        shown.append({each for case in near.shown for each in case.outcome.raised[:1]})
    assert shown == [{"KeyError"}, set()]


def test_an_accident_of_the_original_is_no_case(sandbox):
    source = "def f(x, sep=' '):\n    if not sep:\n        return x.no_such_method()\n    return x.split(sep)\n"
    _, _, near = find(sandbox, source, ("a b", " "), ("a-b", "-"), ("c d", " "))
    assert not any(case.outcome.raised for case in [*near.shown, *near.judging])


def test_recorded_calls_that_were_not_chosen_come_back_where_they_notice_a_fault(sandbox):
    _, cases, near = find(sandbox, SIZE, (3,), (20,), (10,), (9,), chosen=2)
    assert {case.digest for case in cases[2:]} <= {case.digest for case in near.judging}
    assert not any(case.nearby for case in near.judging if case in cases)
