"""Operators and oversights: the faults that each kind of place gets."""

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


def list_bodies(body, operator, head="def f(a, b=0, *, c=None):"):
    """The changed lines of the mutants of one kind."""
    source = "\n".join([head, *(f"    {line}" for line in body.splitlines())])
    (node,) = ast.parse(source).body
    known = ast.unparse(node).splitlines()
    found = [mutant for mutant in build_mutants(node, 999) if mutant.operator == operator]
    return [[line.strip() for line in each.source.splitlines() if line not in known] for each in found]


@pytest.mark.parametrize(
    ("operator", "body", "faulty"),
    [
        ("and or", "return a and b and c", "return a and c"),
        ("and or", "return a or b", "return b"),
        ("truth", "return a or b", "return a if a is not None else b"),
        ("truth", "self.b = b", "self.b = b or 0"),
        ("truth", "return a is MISSING", "return a is MISSING or a is None"),
        ("truth", "return a is not MISSING", "return a is not MISSING and a is not None"),
        ("element", "return {'a': a, 'b': b}", "return {'a': a}"),
        ("branch", "if a:\n  b = 1\nreturn b", "if False:"),
        ("branch", "if a:\n  b = 1\nreturn b", "if True:"),
        ("branch", "return 1 if a else 2", "return 1 if a is not None else 2"),
        ("branch", "return 1 if a else 2", "return 2"),
        ("branch", "return a if is_set(a) else b", "return a if is_set(a) and a else b"),
        ("truth", "if _is_set(c := a):\n  return c\nreturn b", "if _is_set((c := a)) and c:"),
        ("truth", "if not has_value(self.a):\n  return b", "if not has_value(self.a) or not self.a:"),
        ("branch", "if a:\n  b = 1\nif c:\n  b = 2\nreturn b", "if not a and c:"),
        ("branch", "while a:\n  a = a[1:]\nreturn b", "if a:"),
        ("items", "return [x for x in a]", "return [x for x in __import__('itertools').islice(a, 1)]"),
        ("items", "return {x: 1 for x in a}", "return {x: 1 for x in __import__('itertools').islice(a, 1, None)}"),
        ("items", "for x in a:\n  return x", "for x in __import__('itertools').islice(a, 1, None):"),
        ("handler", "try:\n  return a[b]\nexcept LookupError:\n  return 1", "except KeyError:"),
        ("handler", "try:\n  return a[b]\nexcept Exception:\n  return 1", "except ValueError:"),
        ("handler", "try:\n  return a[b]\nexcept KeyError:\n  return 1", "if True:"),
        ("handler", "try:\n  a()\nexcept (KeyError, OSError, TypeError):\n  pass", "except (KeyError, TypeError):"),
        ("type check", "return isinstance(a, (str, bytes))", "return isinstance(a, bytes)"),
        ("type check", "return isinstance(a, Mapping)", "return isinstance(a, (dict,))"),
        ("type check", "return isinstance(a, Node)", "return type(a) is Node"),
        ("type check", "return isinstance(a, str)", "return True"),
        ("type check", "return isinstance(a, (str, bytes))", "return not isinstance(a, (list, tuple))"),
        ("boundary", "return a[b:]", "return a[b + 1:]"),
        ("boundary", "return list(range(b))", "return list(range(b - 1))"),
        ("forgotten call", "return a.strip('x')", "return a"),
        ("forgotten call", "return a.get(b)", "return a[b]"),
        ("forgotten call", "return sorted(a, key=b)", "return list(a)"),
        ("text order", "return sorted(a)", "return sorted(a, key=str)"),
        ("text order", "a.sort(reverse=b)", "a.sort(reverse=b, key=str)"),
        ("forgotten call", "return a.split()", "return a.split(' ')"),
        ("characters", "return re.sub('^x+', b, a)", "return re.sub('x+', b, a)"),
        ("forgotten call", "return re.sub('^x+', b, a)", "return a"),
        ("statement", "self.x = a", "pass"),
        ("statement", "a += 1", "pass"),
        ("exception", "raise errors.Wrong(a)", "raise ArithmeticError"),
        ("argument", "return a.split('x', 1)", "return a.rsplit('x', 1)"),
        ("forgotten call", "return a.splitlines()", "return a.split('\\n')"),
        ("forgotten call", "return a.strip()", "return a.strip(' ')"),
        ("characters", "return a.strip('.-_')", "return a.strip('._')"),
        ("characters", "return re.sub('[a-z_]', b, a)", "return re.sub('[a-z]', b, a)"),
        ("characters", "return re.sub('(one|two|six)x', b, a)", "return re.sub('(one|six)x', b, a)"),
        ("format", "return f'{a:02d}'", "return f'{a}'"),
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
        ("order", "if a:\n  return 1\nif b:\n  return 2\nreturn c", "elif a:"),
        ("order", "if a:\n  b = 1\nelif b:\n  b = 2\nelse:\n  b = 3\nreturn b", "if b:"),
    ],
)
def test_a_fault_changes_or_leaves_out_one_thing(operator, body, faulty):
    found = list_bodies(body, operator)
    assert any(faulty in lines for lines in found), found


@pytest.mark.parametrize(
    ("operator", "body"),
    [
        ("boundary", "return a[1:]"),  # another operator changes numbers
        ("branch", "if a:\n  return 1\nif c:\n  return 2"),  # `elif` does the same
        ("forgotten call", "return a.lower()"),  # another operator leaves it out
        ("characters", "return a.strip('x')"),
        ("order", "if a:\n  b = 1\nif c:\n  b = 2\nreturn b"),
        ("handler", "try:\n  a()\nfinally:\n  b()"),
        ("type check", "return type(a) is str"),
    ],
)
def test_what_would_do_the_same_is_no_oversight(operator, body):
    changed = [line for lines in list_bodies(body, operator) for line in lines]
    assert not any("not a and c" in line for line in changed)
    assert operator == "branch" or not changed


def test_a_default_that_is_an_attribute_stands_for_its_parameter():
    assert ["return None if modes.ANY is a else 1"] in list_bodies(
        "return None if b is a else 1", "default", "def f(a, b=modes.ANY):"
    )


def test_a_split_without_a_limit_has_no_other_end():
    assert not any("rsplit" in line for lines in list_bodies("return a.split('x')", "argument") for line in lines)
