"""Faults of hasty readers: each leaves out one thing that a shorter solution would not have."""

from __future__ import annotations

import ast

import pytest

from evaluation.from_code.mutants import build_mutants


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
        ("order", "if a:\n  return 1\nif b:\n  return 2\nreturn c", "elif a:"),
        ("order", "if a:\n  b = 1\nelif b:\n  b = 2\nelse:\n  b = 3\nreturn b", "if b:"),
    ],
)
def test_an_oversight_leaves_one_thing_out(operator, body, faulty):
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
