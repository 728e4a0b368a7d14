"""Values that another process or day would give otherwise, and comments of tests without addresses."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from evaluation.from_code.calls.cases import Case, format_case, keep_repeatable
from evaluation.from_code.calls.observe import CallOutcome
from evaluation.from_code.calls.recorded import read_recorded_calls
from evaluation.from_code.calls.volatile import is_volatile
from evaluation.from_code.placing import spec
from evaluation.from_code.reasons import ExcludedError
from evaluation.from_code.recording import values

NOON = dt.datetime(2026, 5, 9, 12, 0)


@pytest.mark.parametrize(
    "value",
    [
        "<function f at 0x7f0a12bc90d0>",
        NOON.date(),
        [NOON.replace(microsecond=7)],
        NOON.date() - dt.timedelta(days=1),
        (2026, 5, 9, 12, 0, 0),
        "Sat, 09 May 2026 11:22:33 GMT",
        "2026-05-09T11:22:33",
        b"Date: Sat, 09 May 2026 11",
        [bytearray(b"Date: Sat, 09 May 2026 11")],
        "report-20260510.txt",
        "9.5.2026",
        "05/09/2026",
        "May 9",
        int(NOON.timestamp()),
        NOON.timestamp() + 0.25,
        int(NOON.timestamp() * 1000) + 5,
        {(140542951659056, 0): None},
        [94083415625936],
    ],
)
def test_addresses_and_the_present_date_are_volatile(value):
    assert is_volatile(values.serialize(value), NOON)


@pytest.mark.parametrize(
    "value",
    [
        "0x7f0a12bc", "look at 0x10", dt.date(2025, 5, 9), "2026-06-09", "20260509123", "Maybe 9", "May 90",
        b"Date: 09 May 2025", bytearray(b""), [2026, 15, 9], 1_000_000_000, 2026, 17_000.5, "12026-05-091",
        1_405_429_516_590, 1405429516590560, "x140542951659056",
    ],
)  # fmt: skip
def test_other_values_are_not(value):
    assert not is_volatile(values.serialize(value), NOON)


def case(*args, returned=None):
    return Case(values.serialize((args, {})), "", CallOutcome(values.serialize(returned), (), None), True)


def test_cases_with_them_are_dropped():
    kept = [case(1, returned="x"), case("2001-02-03")]
    dropped = [case(dt.date.today()), case(1, returned=f"{dt.datetime.now():%Y-%m-%d}"), case("<C at 0x7ffffffff0>")]
    assert keep_repeatable([*kept, *dropped]) == kept
    with pytest.raises(ExcludedError, match="present date"):
        keep_repeatable(dropped)


def test_recorded_calls_with_them_are_dropped_unless_a_function_has_no_others(tmp_path):
    rows = [("m.py:both:1", "x"), ("m.py:both:1", str(dt.date.today())), ("m.py:alone:2", str(dt.date.today()))]
    lines = [
        json.dumps(
            {
                "function": key,
                "call": values.serialize(((number,), {})),
                "shape": "",
                "returned": values.serialize(text),
            }
        )
        for number, (key, text) in enumerate(rows)
    ]
    (tmp_path / "calls.jsonl").write_text("\n".join(lines) + "\n")
    found = read_recorded_calls(tmp_path, {key for key, _text in rows}, ()).calls
    assert {key: [call.returned for call in calls] for key, calls in found.items()} == {
        "m.py:both:1": ['"x"'],
        "m.py:alone:2": [f'"{dt.date.today()}"'],
    }


def test_objects_in_sets_are_shown_by_their_names_in_one_order():
    one = case({spec.FunctionPlacement, spec.PlacementError, frozenset([spec.FunctionPlacement])}, returned=frozenset())
    text = format_case(one, "f")
    assert text == "f({FunctionPlacement, PlacementError, frozenset({FunctionPlacement})}) returns frozenset()"
