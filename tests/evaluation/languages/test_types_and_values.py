"""Types, the JSON form of values, and when two values are equal."""

import json
import math

import pytest

from evaluation.languages.cases import CaseError, read_cases, read_signature
from evaluation.languages.types import TypeTextError, parse_type
from evaluation.languages.values import ValueFormError, from_json, is_same_value, to_json

VALUES = [
    ("bool", True, True),
    ("int", 2**80, "1208925819614629174706176"),
    ("int", -3, "-3"),
    ("int", 10**4000 - 1, "9" * 4000),
    ("int", 1 - 10**4000, "-" + "9" * 4000),
    ("float", 0.1, 0.1),
    ("float", math.inf, "inf"),
    ("float", -0.0, "-0"),
    ("str", "\ud800é\n", "\ud800é\n"),
    ("none", None, None),
    ("list[tuple[int, str]]", [(1, "a")], [["1", "a"]]),
    ("dict[int, list[float]]", {1: [0.5]}, [["1", [0.5]]]),
    ("optional[list[int]]", None, None),
    ("optional[list[int]]", [7], ["7"]),
]


@pytest.mark.parametrize(("kind", "value", "form"), VALUES)
def test_a_value_keeps_everything_in_its_json_form(kind, value, form):
    kind = parse_type(kind)
    assert to_json(value, kind) == form
    back = from_json(json.loads(json.dumps(form)), kind)
    assert is_same_value(back, value, kind, 0)
    assert type(back) is type(value)


@pytest.mark.parametrize(
    "text", ["list", "list[", "set[int]", "dict[list[int], int]", "tuple[int, ...]", "int]", "any"]
)
def test_a_text_that_is_not_a_type_is_refused_with_the_types_there_are(text):
    with pytest.raises(TypeTextError):
        parse_type(text)


def test_a_type_is_written_as_it_is_read():
    text = "dict[str, optional[tuple[int, list[bool]]]]"
    assert str(parse_type(text)) == text


@pytest.mark.parametrize(
    ("form", "kind"),
    [(1, "int"), ("01", "int"), ("1e3", "int"), (True, "float"), ("NaN", "float"), (None, "str"), (0, "bool"),
     ([1], "tuple[int, int]"), ({"a": 1}, "dict[str, int]"), ([["a", "1"], ["a", "2"]], "dict[str, int]")],
)  # fmt: skip
def test_a_form_of_another_type_is_refused(form, kind):
    with pytest.raises(ValueFormError):
        from_json(form, parse_type(kind))


def test_floats_are_equal_within_the_tolerance_and_exactly_with_none():
    kind = parse_type("list[float]")
    assert is_same_value([1.0, math.nan], [1.0 + 1e-12, math.nan], kind)
    assert not is_same_value([1.0], [1.001], kind)
    assert is_same_value([1.0], [1.001], kind, 0.01)
    assert not is_same_value([0.0], [-0.0], kind, 0)
    assert not is_same_value([math.nan], [1.0], kind, 100)


def test_an_int_that_no_float_can_hold_does_not_fit_the_type():
    with pytest.raises(ValueFormError, match="beyond the range of float"):
        to_json(10**400, parse_type("float"))


SIGNATURE = {"name": "f", "parameters": [{"name": "a", "type": "int"}], "returns": "float"}


@pytest.mark.parametrize(
    ("change", "message"),
    [({"name": "f g"}, "signature.name"), ({"returns": "object"}, "signature.returns"),
     ({"parameters": [{"name": "a", "type": "set[int]"}]}, r"signature.parameters\[0\].type: 'set'"),
     ({"parameters": [{"name": "a", "type": "int"}] * 2}, "same name")],
)  # fmt: skip
def test_a_signature_with_a_fault_is_refused_by_its_field(change, message):
    with pytest.raises(CaseError, match=message):
        read_signature(SIGNATURE | change)


@pytest.mark.parametrize(
    ("case", "message"),
    [({"args": [], "result": 1}, r"cases\[0\].args: f takes 1"), ({"args": [1], "result": 1}, r"cases\[0\].args\[0\]"),
     ({"args": ["1"], "result": "1"}, r"cases\[0\].result"), ({"args": ["1"]}, "either result or raises"),
     ({"args": ["1"], "result": 1, "tolerance": -1}, "tolerance")],
)  # fmt: skip
def test_a_case_that_does_not_fit_the_signature_is_refused_by_its_field(case, message):
    with pytest.raises(CaseError, match=message):
        read_cases([case], read_signature(SIGNATURE))
