"""A prompt tells what its task's cases ask for: constants are found, shown in examples, or named as unstated."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from evaluation.from_code.calls.cases import Case
from evaluation.from_code.calls.observe import CallOutcome
from evaluation.from_code.fairness import (
    MAX_EXAMPLES,
    MAX_WITH_NEARBY,
    UNDESCRIBED,
    UNILLUSTRATED,
    UNSHOWN,
    PromptNeed,
    find_missing_description,
    find_needs,
    find_unnamed_exceptions,
    is_in_arguments,
    judge_fairness,
)
from evaluation.from_code.recording import values
from evaluation.from_code.recording.values import OpaqueObject
from evaluation.from_code.unstated import BodyConstant, find_attribute_names, find_constants

SHARED = [70]


def constants(source, names=frozenset()):
    (node,) = ast.parse(source).body
    return find_constants(node, names)


def values_of(source, names=frozenset()):
    return [each.value for each in constants(source, names)]


def case(*args, returned=None, **fields):
    return replace(
        Case(values.serialize((args, {})), repr(args), CallOutcome(values.serialize(returned)), "shape"), **fields
    )  # fmt: skip


def text(value, line=1):
    return BodyConstant("text", value, line, ())


def test_texts_numbers_and_parts_of_formats_are_constants():
    body = (
        'def f(x, y="default"):\n    """Doc 77."""\n    z = x * 37 + 1\n'
        '    return f"{z:.2f} units" + ", ".join("abc")\n'
    )
    assert values_of(body) == [37, " units", ", ", ".2f", "abc"]


def test_what_decides_nothing_or_is_known_is_no_constant():
    body = (
        'def f(x: "Hint"):\n    "Doc."\n    if x < 0:\n        raise ValueError("no " + "message")\n'
        '    return x.encode("utf-8")[:2]\n'
    )
    assert values_of(body) == []


def test_attributes_that_the_project_names_are_constants():
    names = find_attribute_names(
        iter([ast.parse("class A:\n    size = 1\n    def copy(self):\n        self.label = 1\n")])
    )
    assert names == {"size", "label"}
    (found,) = constants("def f(a):\n    return a.label + a.upper()\n", names)
    assert (found.value, found.variants) == ("label", ("def f(a):\n    return a.label_x + a.upper()",))


def test_a_number_has_a_variant_on_both_sides_and_all_its_places_change():
    (found,) = constants("def f(x):\n    return x if x < 37 else 37\n")
    assert [source.count("38") + source.count("36") for source in found.variants] == [2, 2]


@pytest.mark.parametrize(
    ("constant", "prompt", "is_told"),
    [
        (text("units"), "counts units", True),
        (text("units"), "subunits", False),
        (text("%d of %d items"), "of them, items", True),
        (text("a\nb"), "'a\\nb'", True),
        (text("{}-{}"), "x-y", True),
        (BodyConstant("number", 37, 1, ()), "at 37.", True),
        (BodyConstant("number", 37, 1, ()), "at 370", False),
        (BodyConstant("name", "label", 1, ()), "# attributes: label", True),
    ],
)
def test_a_prompt_tells_a_constant_as_a_word(constant, prompt, is_told):
    assert constant.is_in(prompt) == is_told


def test_examples_are_those_that_show_the_constants():
    cases = [case(n, returned=n) for n in range(10)] + [case(70, returned="large"), case(80, returned="very large")]
    needs = find_needs(cases, [(text("very large"), [11])])
    fair = judge_fairness(cases, "f", needs, "A long docstring. " * 20)
    assert "f(80) returns 'very large'" in fair.examples
    assert len(fair.examples) == 3
    assert len(judge_fairness(cases, "f", needs, "Says little.").examples) == MAX_EXAMPLES
    assert (fair.unstated, fair.unstated_cases) == ((), frozenset())


def test_a_docstring_with_examples_gets_those_alone_that_tell_more():
    cases = [case(1, returned="one", documented=True), case(2, returned="two"), case(3, returned="x")]
    needs = find_needs(cases, [(text("one"), [0]), (text("two"), [1])])
    assert judge_fairness(cases, "f", needs, ">>> f(1)").examples == ("f(2) returns 'two'",)


def test_a_constant_that_no_short_example_shows_is_unstated():
    cases = [case(1, returned=1), case(2, returned="secret " * 60), case("secret", returned="secret " * 60)]
    fair = judge_fairness(cases, "f", find_needs(cases, [(text("secret ", 7), [1, 2])]), "")
    assert (fair.unstated, fair.unstated_cases) == (("line 7: 'secret '",), frozenset({1}))


def test_a_separator_is_shown_but_never_unstated():
    cases = [case(1, returned=1), case(2, returned="; " * 200), case(3, returned="3; 4")]
    long = [cases[0], cases[1]]
    fair = judge_fairness(cases, "f", find_needs(cases, [(text("; "), [1, 2])]), ">>> f(9)")
    assert "f(3) returns '3; 4'" in fair.examples
    assert judge_fairness(long, "f", find_needs(long, [(text("; "), [1])]), "").unstated == ()


def taking(arcs, argument, **fields):
    made = case(argument, **fields)
    return replace(made, outcome=replace(made.outcome, arcs=frozenset(arcs)))


def test_examples_take_every_branch_that_a_call_takes():
    cases = [
        taking({(0, 1)}, 1, returned=1, documented=True),
        *(taking({(0, 1)}, n, returned=n) for n in range(2, 9)),
        taking({(0, 1), (1, 7)}, "rare", returned=0),
        taking({(0, 9)}, "x" * 400, returned=0),
    ]
    assert judge_fairness(cases, "f", [], ">>> f(1)").examples == ("f('rare') returns 0", f"f({'x' * 400!r}) returns 0")


def test_recorded_calls_on_all_branches_are_shown_before_calls_near_to_them():
    cases = [*(taking({(0, n)}, "long " * 8 + str(n), returned=n) for n in range(6)), *(case(n) for n in range(12))]
    near = frozenset(range(6, 18))

    fair = judge_fairness(cases, "f", [], "Says little.", near)

    assert all(any(f"long {n}'" in each for each in fair.examples) for n in range(6))
    assert len(fair.examples) == MAX_WITH_NEARBY
    assert len(fair.unstated_cases) == 6
    assert fair.unstated_cases < near
    assert fair.unstated == ()


def test_an_example_shows_that_an_argument_does_not_just_come_back_or_the_task_is_unstated():
    same, other = [case(n, returned=n) for n in range(20)], case("xn--" + "a" * 90, returned="ab")
    changed = frozenset({20})

    examples = judge_fairness([*same, other], "f", [], "", identities=[changed]).examples
    assert f"f({'xn--' + 'a' * 90!r}) returns 'ab'" in examples
    unprintable = case("xn--" + "a" * 2000, returned="ab")
    assert judge_fairness([*same, unprintable], "f", [], "", identities=[changed]).unstated == (UNSHOWN,)


@pytest.mark.parametrize(
    ("docstring", "examples", "missing"),
    [
        ("", [], UNDESCRIBED),
        ("", ["f(1)"] * 2, UNSHOWN),
        ("", ["f(1)"] * 3, ""),
        ("Counts.", [], UNILLUSTRATED),
        ("Counts.", ["f(1)"], ""),
        ("Counts.\n\n>>> f(1)\n2", [], ""),
        ("Counts all that there is. " * 9, [], ""),
    ],
)
def test_what_neither_a_docstring_nor_examples_describe_is_missing(docstring, examples, missing):
    assert find_missing_description(docstring, examples) == missing


def raising(argument, kind):
    return replace(case(argument), outcome=CallOutcome(None, (kind, "Exception"), None))


def test_an_exception_that_the_prompt_does_not_name_is_shown_by_an_example():
    cases = [case(n, returned=n) for n in range(4)] + [raising("x", "KeyError"), raising("y", "OddError")]
    fair = judge_fairness(cases, "f", find_unnamed_exceptions(cases, "Raises KeyError.", 3), ">>> f(1)")
    assert [each for each in fair.examples if "Error" in each] == ["f('y') raises OddError"]
    assert fair.unstated == ()


def test_an_exception_that_no_short_example_shows_is_unstated():
    cases = [case(1, returned=1), raising("x" * 400, "OddError")]
    fair = judge_fairness(cases, "f", find_unnamed_exceptions(cases, "", 3), "")
    assert (fair.unstated, fair.unstated_cases) == (("line 3: OddError",), frozenset({1}))


def test_a_constant_whose_change_no_case_notices_asks_for_nothing():
    assert find_needs([case(1, returned=1)], [(text("log"), [])]) == []


@pytest.mark.parametrize(
    ("constant", "argument", "is_held"),
    [
        (text("up"), {"a": 5}, False),
        (text("dict"), {"a": 5}, False),
        (text("up"), {"up": 5}, True),
        (text("Basket"), OpaqueObject({"object": ["shop:Basket", None, []]}), False),
        (text("Colour"), OpaqueObject({"member": ["shop:Colour", "RED"]}), False),
        (text("RED"), OpaqueObject({"member": ["shop:Colour", "RED"]}), True),
        (BodyConstant("number", 1, 1, ()), [SHARED, SHARED], False),
        (BodyConstant("number", 70, 1, ()), [SHARED, SHARED], True),
        (BodyConstant("number", 0.3, 1, ()), 0.3, True),
    ],
)
def test_arguments_hold_their_values_and_not_what_these_are_written_with(constant, argument, is_held):
    assert is_in_arguments(constant, case(argument)) == is_held


def test_names_of_standard_types_and_syntax_of_patterns_need_no_explanation():
    project = "class A:\n    def write(self):\n        parser.handler = self.own = 1\n"
    assert find_attribute_names(iter([ast.parse(project)])) == {"own"}
    assert values_of("def f(a):\n    return hasattr(a, 'read') or getattr(a, 'special')\n") == ["special"]
    assert not text("(?P<").must_be_told
    assert not text("(?i)\\d+").must_be_told
    assert text("(?i)abc").must_be_told


def test_examples_differ_in_how_a_text_changes_before_they_differ_in_the_text():
    upper = [case(f"%2{letter}", returned=f"%2{letter.upper()}") for letter in "abcdef"]
    decoded, same = case("%20aaaaaaaaaa", returned=" aaaaaaaaaa"), case("aaaaaaaaaaaaa", returned="aaaaaaaaaaaaa")
    examples = judge_fairness([*upper, decoded, same], "f", [], "Doc.").examples
    assert "f('%20aaaaaaaaaa') returns ' aaaaaaaaaa'" in examples
    assert "f('aaaaaaaaaaaaa') returns 'aaaaaaaaaaaaa'" in examples


def test_examples_tell_the_faults_that_the_cases_notice():
    cases = [case(n, returned=n) for n in range(8)] + [case(70, 80, returned=[70, 80])]
    faults = [frozenset(range(9)), frozenset({8}), frozenset()]
    examples = judge_fairness(cases, "f", [], ">>> f(9)", faults=faults).examples
    assert "f(70, 80) returns [70, 80]" in examples


def test_examples_hold_every_kind_of_value_that_short_calls_hold():
    plain = [case([n], returned=[n]) for n in range(1, 30)]
    others = [case([-70], returned=[]), case([{"a": (80,)}], returned=[80]), case([], returned=[None])]
    examples = judge_fairness([*plain, *others], "f", [], "Says something. " * 40 + ">>> f(9)").examples
    assert {"f([-70]) returns []", "f([{'a': (80,)}]) returns [80]", "f([]) returns [None]"} <= set(examples)
    assert len(examples) <= 4


def test_what_neither_docstring_nor_example_describes_is_unstated():
    cases = [case("x" * 1200, returned=n) for n in range(2)]
    assert judge_fairness(cases, "f", [], "Counts.").unstated == ()
    fair = judge_fairness(cases, "f", [], "")
    assert (fair.unstated, fair.unstated_cases, fair.examples) == ((UNDESCRIBED,), frozenset({0, 1}), ())


def test_long_calls_are_shown_where_there_is_no_shorter_one():
    long = case("x" * 900, returned=1)
    assert len(judge_fairness([long], "f", [], "Counts.").examples) == 1
    assert len(judge_fairness([long, case("x", returned=1)], "f", [], "Counts.").examples) == 1


def test_a_long_call_is_shown_where_it_tells_what_no_short_one_does():
    cases = [case("x", returned=1), *(case("x" * 700 + letter, returned=2) for letter in "abc")]
    faults = [frozenset({0}), frozenset({1, 2, 3})]
    assert judge_fairness(cases, "f", [], "Counts.", faults=[frozenset({0, 1, 2, 3})]).examples == ("f('x') returns 1",)
    examples = judge_fairness(cases, "f", [], "Counts.", faults=faults).examples
    assert [len(example) > 700 for example in examples] == [False, True]


@pytest.mark.parametrize(("docstring", "n_told", "unstated"), [("", 2, (UNSHOWN,)), ("", 3, ()), ("Counts.", 1, ())])
def test_without_a_docstring_the_examples_tell_most_faults_or_the_task_is_unstated(docstring, n_told, unstated):
    cases = [case("x", returned=1), case("x" * 1200, returned=2)]
    faults = [frozenset({0, 1})] * n_told + [frozenset({1})] * (4 - n_told)
    assert judge_fairness(cases, "f", [], docstring, faults=faults).unstated == unstated


def test_several_numbers_that_no_example_holds_are_unstated():
    weights = [BodyConstant("number", n, 1, ()) for n in (7, 9, 21)]
    cases = [case("ab", returned=True), case("cd", returned=False)]
    needs = [PromptNeed(each, frozenset({0}), frozenset({0})) for each in weights]
    assert judge_fairness(cases, "f", needs[:2], "Checks.").unstated == ()
    assert len(judge_fairness(cases, "f", needs, "Checks.").unstated) == 3
    assert judge_fairness(cases, "f", needs, "Checks by 7, 9 and 21.").unstated == ()


def test_options_of_calls_are_constants_for_the_projects_tests():
    (node,) = ast.parse("def f(x):\n    return dumps(x, indent=2, sort_keys=True, width=79)\n").body
    found = find_constants(node, frozenset(), for_tests=True)
    assert [(each.kind, each.value) for each in found] == [
        ("number", 79), ("option", "indent=2"), ("option", "sort_keys=True"),
    ]  # fmt: skip
    assert "indent=3" in found[1].variants[0]
    assert "sort_keys=False" in found[2].variants[0]
    assert find_constants(node, frozenset()) == found[:1]
