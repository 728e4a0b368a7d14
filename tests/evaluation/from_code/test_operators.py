"""Operators: the faults that each kind of place gets."""

from __future__ import annotations

import ast

import pytest

from evaluation.from_code.mutants import FunctionUse, build_mutants


def parse(source):
    (node,) = ast.parse(source).body
    return node


def test_an_exception_is_left_out_and_becomes_one_that_its_caller_does_not_catch():
    source = 'def f(a):\n    if a:\n        raise ValueError(f"{a}")\n'
    found = [mutant.source for mutant in build_mutants(parse(source), 200) if mutant.operator == "exception"]
    assert len(found) == 2
    assert sum("raise ArithmeticError" in source for source in found) == 1
    assert not any("raise ValueError" in source for source in found)


def test_no_other_exception_escapes_who_catches_every_one():
    source = "def f(a):\n    if a:\n        raise BaseException(a)\n"
    found = [mutant.source for mutant in build_mutants(parse(source), 200) if mutant.operator == "exception"]
    assert "def f(a):\n    if a:\n        pass" in found
    assert not any("SystemExit" in source for source in found)


def test_a_result_is_forgotten_with_and_without_its_effects():
    sources = {mutant.source for mutant in build_mutants(parse("def f(x):\n    return sum(x)\n"), 20)}
    assert {"def f(x):\n    return None", "def f(x):\n    return (sum(x), None)[1]"} <= sources
    assert not any("[1]" in m.source for m in build_mutants(parse("def f(x):\n    return x + 2\n"), 20))


STREAM = """
class Stream:
    def __init__(self, number, weight=16, kind=list):
        self.number, self.weight, self.kind = number, weight, kind

    def take(self, key, limit=10):
        found = self.known.pop(key, None)
        last = self.items.pop()
        heapq.heappush(self.queue, last)
        return f"{found} of {limit}, weight {self.weight:>{limit}}", self.kind
"""


def bodies(operator):
    (owner,) = ast.parse(STREAM).body
    found = [
        mutant.source for mutant in build_mutants(owner.body[1], 200, FunctionUse(owner)) if mutant.operator == operator
    ]
    usual = ast.unparse(owner.body[1])
    return [line.strip() for source in found for line in source.splitlines() if line not in usual]


def test_what_a_call_changes_is_left_undone():
    assert bodies("effect") == [
        "found = self.known.get(key, None)", "last = self.items[-1]", "self.queue.append(last)",
    ]  # fmt: skip


def test_the_usual_value_stands_for_parameters_and_attributes():
    assert sorted(bodies("default")) == [
        "return (f'{found} of {10}, weight {self.weight:>{limit}}', self.kind)",
        "return (f'{found} of {limit}, weight {16:>{limit}}', self.kind)",
        "return (f'{found} of {limit}, weight {self.weight:>{limit}}', list)",
    ]


def test_nothing_and_empty_are_taken_for_each_other():
    source = (
        "def f(a, b):\n    if a is None:\n        return 1\n    if b:\n        return 2\n    return a is not None\n"
    )
    (node,) = ast.parse(source).body
    changed = [
        set(m.source.splitlines()) - set(source.splitlines()) for m in build_mutants(node, 99) if m.operator == "truth"
    ]
    assert changed == [{"    if not a:"}, {"    if b is not None:"}, {"    return not not a"}]


def list_changed_lines(source, operator, **options):
    found = build_mutants(parse(source), 99, FunctionUse(**options))
    known = [line.strip() for line in ast.unparse(parse(source)).splitlines()]
    changed = (line.strip() for m in found if m.operator == operator for line in m.source.splitlines())
    return [line for line in changed if line not in known]


@pytest.mark.parametrize(
    ("operator", "body", "faulty"),
    [
        ("loop", "for x in a:\n  print(x)", "break"),
        ("lookup", "return self.d[a]", "return self.d.get(a)"),
        ("lookup", "return getattr(self.d, a)", "return getattr(self.d, a, None)"),
        ("statement", "del self.d[a]", "pass"),
        ("argument", "return print(*a)", "return print()"),
        ("slice", "return a[:]", "return a"),
        ("argument", "return a.strip('x')", "return a.rstrip('x')"),
        ("argument", "return re.match(a, a)", "return re.search(a, a)"),
        ("argument", "return any(a)", "return all(a)"),
        ("argument", "return _floor(a)", "return int(a)"),
        ("argument", "return math.floor(a)", "return math.ceil(a)"),
        ("arithmetic", "self.n += a", "self.n = a"),
        ("comparison", "return a in '+-*'", "return a in '+*'"),
        ("element", "return [1, 2, 3]", "return [1, 3]"),
        ("element", "return {1, 2, 3}", "return {1, 3}"),
    ],
)
def test_plausible_faults_of_callers_input_are_made(operator, body, faulty):
    assert faulty in list_changed_lines(f"def f(self, a):\n {body}\n", operator)


def test_a_loop_that_ends_after_its_first_item_and_the_lookup_of_a_variable_stay():
    assert not list_changed_lines("def f(a):\n for x in a:\n  return x\n", "loop")
    assert not list_changed_lines("def f(a):\n b = a + 1\n return self.d[b]\n", "lookup")


def test_empty_and_none_are_taken_for_each_other_where_both_are_results():
    source = "def f(a):\n return a\n"
    assert list_changed_lines(source, "truth", has_none=True) == ["return a or None"]
    assert not list_changed_lines(source, "truth")


def test_a_value_that_stands_in_every_case_takes_the_place_of_its_parameter_or_attribute():
    source = "def f(self, a=1):\n return (self.sep, a)\n"
    assert list_changed_lines(source, "default", fixed={"a": 5, "self.sep": ","}) == [
        "return (',', a)", "return (self.sep, 5)",
    ]  # fmt: skip


def test_what_is_empty_is_taken_for_nothing_where_an_argument_that_can_be_none_is_handed_on():
    source = "def f(a, b=None, c=1):\n return g(a, b, c)\n"
    assert list_changed_lines(source, "truth") == ["return g(a, b or None, c)"]
    assert list_changed_lines(source, "truth", optional={"a"}) == [
        "return g(a or None, b, c)", "return g(a, b or None, c)",
    ]  # fmt: skip


def test_the_class_of_an_object_is_taken_for_the_one_that_has_the_method():
    (owner,) = ast.parse("class Box:\n def f(self):\n  return type(self)(self.__class__.__name__)\n").body
    found = [
        mutant.source
        for mutant in build_mutants(owner.body[0], 99, FunctionUse(owner))
        if mutant.operator == "subclass"
    ]
    assert [source.partition("return ")[2] for source in found] == [
        "Box(self.__class__.__name__)", "type(self)(Box.__name__)",
    ]  # fmt: skip
    assert "subclass" not in {mutant.operator for mutant in build_mutants(owner.body[0], 99)}


def test_one_attribute_is_taken_for_another():
    source = "def f(self, x):\n self.add(x)\n return len(self.kept), self.seen\n"
    found = list_changed_lines(source, "variable")
    assert {"return (len(self.seen), self.seen)", "return (len(self.kept), self.kept)"} <= set(found)
    assert not any("self.add" in line and "self.kept" in line for line in found)


def test_an_attribute_whose_constructor_replaces_none_takes_the_usual_value():
    source = """
class Algorithm:
    def __init__(self, method=None, name=None, other=None):
        if method is None:
            method = self.usual_method
        if name is None:
            name = other
        self.method, self.name = method, name

    def sign(self):
        return self.method(self.name)
"""
    (owner,) = ast.parse(source).body
    found = [m.source for m in build_mutants(owner.body[1], 99, FunctionUse(owner)) if m.operator == "default"]
    assert [each.partition("return ")[2] for each in found] == ["self.usual_method(self.name)"]


@pytest.mark.parametrize(("operator", "usual"), [("in", "True"), ("not in", "False")])
def test_a_membership_that_leaves_nothing_out_is_a_fault(operator, usual):
    assert f"return {usual}" in list_changed_lines(f"def f(x):\n    return x {operator} (1, 2)\n", "comparison")
