"""Python tasks as tasks in another language: cases from what the solution does, types, doc comment, reasons."""

import pytest

from evaluation.datasets import Task
from evaluation.languages import registry
from evaluation.languages.cases import JsonCase, read_signature
from evaluation.languages.translation import oracles
from evaluation.languages.translation.translate import read_source, translate, translate_task
from evaluation.languages.translation.type_inference import UntranslatableError
from evaluation.languages.values import from_json
from evaluation.sandbox import Sandbox
from tests.evaluation.languages.conftest import toolchain_or_skip
from tests.thorough import quick_first


@pytest.fixture(scope="module")
def sandbox():
    found = Sandbox.detect()
    yield found
    found.close()


def python_task(prompt, body, test, name="f"):
    return Task("t/0", prompt, name, f"def check(candidate):\n{test}", body)


MEAN = python_task(
    "from typing import List, Optional\n\ndef f(numbers: List[float], in_: Optional[int] = None) -> float:\n"
    '    """The mean, or None: True.\n    >>> f([1.0, 2], None)\n    1.5\n    f([4], 1) ➞ 4.0\n    """\n',
    "    if not numbers:\n        raise ValueError\n    return sum(numbers) / len(numbers)\n",
    "    assert abs(candidate([1, 2], None) - 1.5) < 1e-6\n    assert candidate([1.0, 2.0], None) == 1.5\n"
    "    assert candidate([4], 1) == 4\n"
    "    try:\n        candidate([], None)\n    except ValueError:\n        pass\n",
)


def test_cases_and_types_come_from_what_the_solution_does(sandbox):
    task = translate_task(read_source(sandbox, MEAN), registry.load_language("typescript"))
    assert [str(each.type) for each in task.signature.parameters] == ["list[float]", "optional[int]"]
    assert str(task.signature.returns) == "float"
    # The first two calls are one: 1 and 1.0 are the same float.
    assert task.cases == (
        JsonCase(([1.0, 2.0], None), 1.5, tolerance=1e-6),
        JsonCase(([4.0], "1"), 4.0, tolerance=1e-6),
        JsonCase(([], None), raises="ValueError", tolerance=1e-6),
    )


def test_an_object_is_not_rebuilt_outside_of_the_sandbox(sandbox, tmp_path, monkeypatch):
    """What is recorded names classes: reading it may import nothing here."""
    (tmp_path / "named_in_a_recording.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    test = (
        "    import sys, types\n    module = sys.modules['named_in_a_recording'] = types.ModuleType('')\n"
        "    module.Named = type('Named', (), {'__module__': 'named_in_a_recording'})\n"
        "    candidate(module.Named())\n    candidate(2)\n"
    )
    given = python_task("def f(a: int) -> int:\n", "    return 1\n", test)
    assert [
        case.args for case in translate_task(read_source(sandbox, given), registry.load_language("javascript")).cases
    ] == [("2",)]


def test_one_list_in_two_places_is_recorded_as_two_values(sandbox):
    twice = python_task("def f(a, b):\n", "    return [a, b]\n", "    a = [1]\n    candidate(a, a)\n")
    (case,) = translate_task(read_source(sandbox, twice), registry.load_language("javascript")).cases
    assert case == JsonCase((["1"], ["1"]), [["1"], ["1"]])


def test_the_docstring_becomes_a_doc_comment_with_calls_of_the_language(sandbox):
    source = read_source(sandbox, MEAN)
    assert translate_task(source, registry.load_language("javascript")).prompt == (
        "/**\n * The mean, or null: true.\n * f([1.0, 2.0], null) // 1.5\n * f([4.0], 1) // 4.0\n"
        " * @param {number[]} numbers\n * @param {number | null} in_\n * @returns {number}\n */\n"
        "function f(numbers, in_) {\n"
    )
    assert translate_task(source, registry.load_language("typescript")).prompt.endswith(
        "\nfunction f(numbers: number[], in_: number | null): number {\n"
    )


LEFT_OUT = {
    "values of several types (Union, Any)": python_task(
        "def f(a):\n", "    return a\n", "    candidate(1), candidate('a')\n"
    ),
    "an empty tuple": python_task("def f(a):\n", "    return ()\n", "    candidate(1)\n"),
    "tuples of several lengths": python_task(
        "def f(a):\n", "    return tuple(range(a))\n", "    candidate(1), candidate(2)\n"
    ),
    "its prompt defines helpers": python_task(
        "def g():\n    return 1\n\ndef f(a):\n", "    return g()\n", "    candidate(1)\n"
    ),
    "its own test fails": python_task("def f(a):\n", "    return a\n", "    assert candidate(1) == 2\n"),
    "a set": python_task("def f(a):\n", "    return {a}\n", "    candidate(1)\n"),
    "its function returns nothing": python_task("def f(a):\n", "    a.sort()\n", "    candidate([2, 1])\n"),
    "its test makes no call with plain data": python_task("def f(a):\n", "    return a\n", "    candidate(len)\n"),
}  # fmt: skip


@pytest.mark.parametrize(("reason", "task"), LEFT_OUT.items(), ids=LEFT_OUT)
def test_what_cases_cannot_express_is_left_out_with_the_reason(sandbox, reason, task):
    with pytest.raises(UntranslatableError, match=reason.split("(")[0].strip()):
        read_source(sandbox, task)


def test_an_int_that_the_language_cannot_hold_costs_the_case(sandbox):
    task = python_task(
        "def f(a: int) -> int:\n", "    return a * 10**9\n", "    [candidate(n) for n in (1, 2, 3, 10**7)]\n"
    )
    assert len(translate_task(read_source(sandbox, task), registry.load_language("javascript")).cases) == 3


def test_calls_that_a_type_makes_equal_but_that_differ_are_left_out(sandbox):
    body = "    return isinstance(a, int)\n"
    task = python_task("def f(a: float) -> bool:\n", body, "    [candidate(a) for a in (3, 3.0, 2, 1.5)]\n")
    cases = translate_task(read_source(sandbox, task), registry.load_language("javascript")).cases
    assert [(case.args, case.result) for case in cases] == [((2.0,), True), ((1.5,), False)]


def test_a_name_that_the_language_has_for_itself_gets_an_underscore(sandbox):
    task = python_task("def f(new: int) -> int:\n", "    return new\n", "    candidate(1)\n")
    assert translate_task(read_source(sandbox, task), registry.load_language("javascript")).prompt.endswith(
        "function f(new_) {\n"
    )


@pytest.mark.parametrize("language", quick_first(registry.LANGUAGES, ("javascript", "go")))
def test_oracles_pass_where_they_are_right_and_fail_where_they_are_wrong(sandbox, language):
    toolchain_or_skip(language)
    (made,) = translate(sandbox, [MEAN], [registry.load_language(language)])
    assert [task.task_id for task in made.tasks] == ["t/0"]
    assert not made.oracle_failed


@pytest.mark.parametrize("compiles", [False, True])
def test_every_case_is_answered_wrongly_by_an_oracle_and_alone_where_no_compiler_is_needed(compiles):
    for n in (1, 2, 5):
        wrong = oracles._list_wrong_positions(n, compiles)
        assert sorted(position for each in wrong for position in each) == list(range(n))
        assert len(wrong) == (min(n, 2) if compiles else n)


def test_a_table_that_no_program_can_meet_is_noticed(sandbox):
    toolchain_or_skip("javascript")
    language = registry.load_language("javascript")
    signature = translate_task(read_source(sandbox, MEAN), language).signature
    twice = [JsonCase(([1.0], None), 1.0), JsonCase(([1.0], None), 2.0)]
    assert "case 1 fails" in oracles.find_oracle_failure(sandbox, language, signature, twice)


def test_float_keys_are_written_as_javascript_names_them(sandbox):
    toolchain_or_skip("javascript")
    language = registry.load_language("javascript")
    parameters = [{"name": "a", "type": "dict[float, int]"}]
    signature = read_signature({"name": "f", "parameters": parameters, "returns": "int"})
    keys = [1e-7, -2.5e-10, 1e-6, 12345e-9, 0.5, 3.0, "-0", 1e16, 1.2345678901234568e20, 1e21, 1.5e300]
    keys += ["nan", "inf", "-inf"]
    cases = [JsonCase(([[key, "1"]],), str(number)) for number, key in enumerate(keys)]
    assert oracles.find_oracle_failure(sandbox, language, signature, cases) is None


@pytest.mark.parametrize(
    "kind", ["bool", "int", "float", "str", "list[int]", "tuple[int, str]", "dict[str, int]", "optional[int]"]
)
def test_a_wrong_result_is_another_value_of_the_type(kind):
    from evaluation.languages.types import parse_type

    kind = parse_type(kind)
    forms = {
        "bool": True,
        "int": "0",
        "float": "nan",
        "str": "",
        "list": [],
        "tuple": ["1", ""],
        "dict": [],
        "optional": None,
    }
    case = JsonCase((), forms[kind.name])
    wrong = oracles._build_wrong_case(case, kind)
    assert wrong.result != case.result
    from_json(wrong.result, kind)


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        ("none", None),
        ("tuple[none, int]", [None, "3"]),
        ("tuple[none, none]", [None, None]),
        ("list[none]", [None, None]),
        ("dict[str, none]", [["a", None]]),
    ],
)
def test_a_result_with_parts_that_have_one_value_is_answered_wrongly_as_well(kind, result):
    from evaluation.languages.types import parse_type

    case = JsonCase((), result)
    wrong = oracles._build_wrong_case(case, parse_type(kind))
    assert (wrong.result, wrong.raises) != (case.result, case.raises)
