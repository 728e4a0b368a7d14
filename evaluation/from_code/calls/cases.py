"""Cases, their choice for variety, and the test that is made of them, in HumanEval's form."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evaluation.from_code.calls.literals import (
    format_arguments,
    format_literal,
    has_mutable_argument,
    needs_same,
)
from evaluation.from_code.calls.observe import CallOutcome, share_kept
from evaluation.from_code.calls.volatile import is_volatile
from evaluation.from_code.placing.spec import read_comparison_source
from evaluation.from_code.reasons import ExcludedError
from evaluation.from_code.recording import values

_SAME = '''import math


def same(got, expected):
    """Equal, floats within a relative tolerance of 1e-9."""
    if isinstance(got, bool) != isinstance(expected, bool):
        return False
    if isinstance(expected, float) and isinstance(got, (int, float)):
        return math.isclose(got, expected, rel_tol=1e-9, abs_tol=1e-12) or (got != got and expected != expected)
    if isinstance(expected, (list, tuple)):
        alike = isinstance(got, list) if isinstance(expected, list) else isinstance(got, tuple)
        return alike and len(got) == len(expected) and all(same(a, b) for a, b in zip(got, expected))
    if isinstance(expected, dict):
        alike = isinstance(got, dict) and len(got) == len(expected)
        return alike and all(key in got and same(got[key], value) for key, value in expected.items())
    return got == expected


'''
SHOWN_CHARS = 160
MAX_CASES = 60
MAX_CASE_CHARS = 1500
MAX_OBJECT_CHARS = 6000
MAX_TEST_CHARS = 24_000
MAX_TEST_OF_OBJECTS_CHARS = 90_000
_TAGS_WITHOUT_EMPTY_VALUE = frozenset(("object", "member", "named", "constant", "module", "method"))
"""Of values that are no plain data (`recording.objects`)."""


@dataclass(frozen=True)
class Case:
    """A call that the project's tests made, an example in the function's docstring (`documented`) or a call near to
    those (`nearby`), and what the original did."""

    call: str
    digest: str
    outcome: CallOutcome
    shape: str = ""
    documented: bool = False
    nearby: bool = False
    promised: bool = False  # the docstring says what the exception says

    def is_informative(self) -> bool:
        """Whether a function that does nothing would fail it."""
        return bool(self.outcome.raised) or self.outcome.after is not None or self.outcome.returned != "null"

    def is_plain(self) -> bool:
        """Whether arguments and results are plain data alone."""
        texts = (self.call, self.outcome.returned, self.outcome.after)
        return all(text is None or values.is_plain(text) for text in texts)

    def build_expected(self) -> dict[str, Any]:
        """What an outcome has to agree with (`placing.tree_equality`)."""
        outcome = self.outcome
        if outcome.raised:
            row: dict[str, Any] = {"raised": outcome.raised[0]}
            return {**row, "message": outcome.message} if self.promised else row
        return outcome.as_row()


def keep_repeatable(cases: Sequence[Case]) -> list[Case]:
    """The cases whose arguments and results depend on no process and no day. Raises ExcludedError where
    none is left."""
    kept = drop_volatile(cases)
    if cases and not kept:
        raise ExcludedError("has the present date or an address in every call")
    return kept


def drop_volatile(cases: Sequence[Case]) -> list[Case]:
    """The cases without an address or the present date in them."""

    def list_texts(case: Case) -> tuple[str, str, str]:
        return case.call, case.outcome.returned or "", case.outcome.after or ""

    return [case for case in cases if not any(map(is_volatile, list_texts(case)))]


def returns_none_too(cases: Sequence[Case]) -> bool:
    """Whether None is one result, and a value of a kind that can be empty or 0 another one: no truth value, object of a
    class or member of an enumeration."""
    results = [json.loads(case.outcome.returned or "null") for case in cases if not case.outcome.raised]
    return None in results and any(map(_can_be_empty, results))


def _can_be_empty(tree: Any) -> bool:
    if isinstance(tree, dict):
        ((tag, body),) = tree.items()
        return _can_be_empty(body[1]) if tag == "number" else tag not in _TAGS_WITHOUT_EMPTY_VALUE
    return not isinstance(tree, bool | None)


def find_fixed_values(cases: Sequence[Case], names: Sequence[str]) -> dict[str, Any]:
    """The texts, numbers, truth values and None that stand in every call for one of the parameters `names`, or for an
    attribute of the first argument, by `self.NAME`."""
    calls: list[dict[str, Any]] = []
    for case in cases:
        calls.append(_read_arguments(case, names))
        args, _ = values.read_plain(case.call)
        if args and isinstance(args[0], values.OpaqueObject):
            tree = args[0].tree
            _, _, attributes = (tree["number"][1] if "number" in tree else tree).get("object", (None, None, ()))
            calls[-1] |= {f"self.{name}": part for name, part in attributes}
    first, *others = calls
    return {
        name: value
        for name, value in first.items()
        if isinstance(value, str | int | float | None)
        and all(name in call and repr(call[name]) == repr(value) for call in others)
    }


def find_none_parameters(cases: Sequence[Case], names: Sequence[str]) -> set[str]:
    """The parameters among `names` that are None in some calls."""
    return {name for case in cases for name, value in _read_arguments(case, names).items() if value is None}


def find_types(cases: Sequence[Case], names: Sequence[str]) -> dict[str, str]:
    """The type of each of the parameters `names` that has one in all calls, and of the results, as "return"; None does
    not count."""
    seen: dict[str, set[str]] = {}
    for case in cases:
        found = _read_arguments(case, names)
        if case.outcome.returned is not None:
            found["return"] = values.read_plain(case.outcome.returned)
        for name, value in found.items():
            if value is not None:
                seen.setdefault(name, set()).add(type(value).__name__)
    return {name: next(iter(types)) for name, types in seen.items() if len(types) == 1}


def _read_arguments(case: Case, names: Sequence[str]) -> dict[str, Any]:
    """The arguments of a call by the names of their parameters."""
    args, kwargs = values.read_plain(case.call)
    return {**dict(zip(names, args, strict=False)), **kwargs}


def build_test(cases: Sequence[Case]) -> str:
    """Source that defines check(candidate) for calls with plain data that raise builtin exceptions alone and return no
    iterators (`placing.spec.CALLS`): assertions for each case."""
    lines: list[str] = []
    uses_same = False
    for case in cases:
        args, kwargs = values.read_plain(case.call)
        if case.outcome.raised:
            lines += _format_raises(_format_call(args, kwargs), case.outcome.raised[0])
            continue
        result = values.read_plain(case.outcome.returned or "null")
        after = None if case.outcome.after is None else values.read_plain(case.outcome.after)
        if after is None and has_mutable_argument((args, kwargs)):
            after = args, kwargs
        uses_same = uses_same or needs_same((result, after))
        if after is None:
            lines.append(f"    assert {_format_equal(_format_call(args, kwargs), result)}")
            continue
        lines.append(f"    args, kwargs = {format_literal(list(args))}, {format_literal(kwargs)}")
        lines.append(f"    assert {_format_equal('candidate(*args, **kwargs)', result)}")
        lines.append(f"    assert {_format_equal('args', list(after[0]))}")
        if kwargs:
            lines.append(f"    assert {_format_equal('kwargs', after[1])}")
    return (_SAME if uses_same else "") + "def check(candidate):\n" + "\n".join(lines) + "\n"


def build_objects_test(cases: Sequence[Case], name: str) -> str:
    """The same for calls with objects, which cross as texts (`recording.values`)."""
    lines = ["CASES = ("]
    outcomes = share_kept([case.outcome for case in cases])
    for case in (replace(case, outcome=outcome) for case, outcome in zip(cases, outcomes, strict=True)):
        lines.append(f"    # {format_case(case, name)}")
        lines.append(f"    ({case.call!r},\n     {json.dumps(case.build_expected())!r}),")
    lines += [
        ")", "", "",
        "def check(candidate):",
        "    for call, expected in CASES:",
        "        assert agrees(json.loads(candidate(call)), json.loads(expected), json.loads(call))",
    ]  # fmt: skip
    return read_comparison_source() + "\n\n" + "\n".join(lines) + "\n"


def format_case(case: Case, name: str, limit: int = SHOWN_CHARS) -> str:
    """A case in one line for a reader, at most `limit` characters of it."""
    call = f"{name}({', '.join(format_arguments(case.call))})"
    if case.outcome.raised:
        text = f"{call} raises {case.outcome.raised[0]}"
    else:
        result = format_literal(values.read_plain(case.outcome.returned or "null"))
        text = f"{call} {'yields the items of' if case.outcome.iterates else 'returns'} {result}"
        if case.outcome.after is not None:
            text += f" and changes its arguments to ({', '.join(format_arguments(case.outcome.after))})"
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _format_raises(call: str, exception: str) -> list[str]:
    return [
        "    try:",
        f"        {call}",
        f"    except {exception}:",
        "        pass",
        "    else:",
        f"        raise AssertionError({f'{call} should raise {exception}'[:200]!r})",
    ]


def _format_equal(call: str, expected: object) -> str:
    if expected is None:
        return f"{call} is None"
    if needs_same(expected):
        return f"same({call}, {format_literal(expected)})"
    return f"{call} == {format_literal(expected)}"


def _format_call(args: Sequence[object], kwargs: dict[str, object]) -> str:
    given = [*map(format_literal, args), *(f"{name}={format_literal(value)}" for name, value in kwargs.items())]
    return f"candidate({', '.join(given)})"


def choose_varied_cases(cases: Sequence[Case], max_cases: int = MAX_CASES) -> list[Case]:
    """At most `max_cases`, each time the one that adds most: branches before paths, these before kinds of arguments and
    outcomes, these before other results. The docstring's examples come before all.

    The order of `cases` does not matter. The result is sorted: short calls before long ones.
    """
    plain = all(case.is_plain() for case in cases)
    usable = [case for case in cases if _count_chars(case) <= (MAX_CASE_CHARS if plain else MAX_OBJECT_CHARS)]
    limit = MAX_TEST_CHARS if plain else MAX_TEST_OF_OBJECTS_CHARS
    pending = sorted(usable, key=lambda case: case.digest)
    features = {case.digest: _list_features(case) for case in pending}
    covered: list[set[Hashable]] = [set() for _ in range(4)]
    chosen: list[Case] = []
    total = 0

    def compute_gain(case: Case) -> tuple[int, ...]:
        added = (len(new - old) for new, old in zip(features[case.digest], covered, strict=True))
        return (case.documented, *added)

    while pending and len(chosen) < max_cases:
        best = max(pending, key=compute_gain)
        pending.remove(best)
        if total + _count_chars(best) > limit:
            continue
        total += _count_chars(best)
        for known, new in zip(covered, features[best.digest], strict=True):
            known.update(new)
        chosen.append(best)
    return sorted(chosen, key=lambda case: (len(case.call), case.digest))


def _list_features(case: Case) -> tuple[frozenset[Hashable], ...]:
    """What a case shows, the most important first."""
    outcome = case.outcome
    kinds: set[Hashable] = {("shape", case.shape), ("raised", outcome.raised[:1]), ("changed", outcome.after is None)}
    if outcome.returned is not None:
        value = values.read_plain(outcome.returned)
        kinds.add(("kind", type(value).__name__, bool(value)))
    return outcome.arcs, frozenset({outcome.arcs}), frozenset(kinds), frozenset({outcome.returned})


def _count_chars(case: Case) -> int:
    texts = (case.outcome.returned, case.outcome.after, case.outcome.seen)
    return len(case.call) + sum(len(text or "") for text in texts)
