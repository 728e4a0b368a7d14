"""Mutants: small faults, all different, chosen by the source alone."""

from __future__ import annotations

import ast

from evaluation.from_code import mutants
from evaluation.from_code.mutants import FunctionUse, build_mutants

SOURCE = '''
def grade(points, limit=10, *, strict=False):
    """Return a letter.

    >>> grade(1)
    """
    if points < 0 or points > limit:
        raise ValueError(f"{points} is not within 0 and {limit}")
    share = points / limit
    letters = [c for c in "ABC" if c != "B"]
    letters.append("F")
    for index, bound in enumerate((0.9, 0.5)):
        if share >= bound and not strict:
            break
        continue
    return letters[index:][0].lower()
'''


def function(source=SOURCE):
    (node,) = ast.parse(source).body
    return node


def test_mutants_differ_from_the_original_and_from_each_other_and_compile():
    found = build_mutants(function(), 200)
    sources = [mutant.source for mutant in found]
    assert len(set(sources)) == len(sources) >= 40
    assert ast.unparse(function()) not in sources
    for source in sources:
        compile(source, "<mutant>", "exec")


def test_few_mutants_are_taken_from_every_operator():
    every, some = build_mutants(function(), 200), build_mutants(function(), 20)
    assert len(some) == 20
    assert {mutant.operator for mutant in some} == {mutant.operator for mutant in every}


def test_docstrings_messages_and_annotations_stay_because_no_test_compares_them():
    for mutant in build_mutants(function(), 200):
        if mutant.operator != "exception":
            assert 'raise ValueError(f"{points} is not within 0 and {limit}")'.replace('"', "'") in mutant.source
        assert ">>> grade(1)" in mutant.source
    hinted = "def f(a: 'int' = 1) -> 'str':\n    x: 'list' = a\n    return x\n"
    assert all("x: 'list'" in mutant.source for mutant in build_mutants(function(hinted), 50))


def test_the_choice_depends_on_the_source_alone():
    assert build_mutants(function(), 12) == build_mutants(function(), 12)


def test_a_default_with_a_line_break_has_no_mutant_inside_an_f_string_before_python_3_12():
    source = 'def f(a, end="\\n"):\n    return f"{a + 1}{end}"\n'
    assert any("a - 1" in mutant.source for mutant in build_mutants(ast.parse(source).body[0], 200))


def test_a_mutant_names_its_line():
    (mutant, *_) = [m for m in build_mutants(function(), 200) if m.operator == "arithmetic"]
    assert SOURCE.splitlines()[mutant.line - 1].strip() == "share = points / limit"


def test_an_exception_that_arrives_from_a_called_function_is_swallowed_in_a_mutant():
    node = function('def f(x):\n    """Doc."""\n    return get(x)\n')
    sources = [m.source for m in build_mutants(node, 99, FunctionUse(arriving=["KeyError"])) if m.operator == "handler"]
    assert sources == [
        'def f(x):\n    """Doc."""\n    try:\n        return get(x)\n    except KeyError:\n        return'
    ]


def test_the_tree_of_a_function_never_changes_since_other_threads_read_it(monkeypatch):
    node = function()
    usual = ast.unparse(node)
    seen = []
    monkeypatch.setattr(mutants, "unparse", lambda faulty: seen.append(ast.unparse(node)) or ast.unparse(faulty))
    assert len(build_mutants(node, 99)) > 5
    assert set(seen) == {usual}
