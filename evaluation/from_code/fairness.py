"""What the cases of a task ask for that its prompt does not tell, and the examples that tell it.

A reader may check an answer against the examples. So they tell a constant where they notice each change of it that the
cases notice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.from_code.calls.cases import Case, shown_case
from evaluation.from_code.unstated import Constant

MAX_EXAMPLES = 6
_USUAL_EXAMPLES = 3
_SHORT_DOCSTRING = 200
"""Characters up to which a docstring says little: then a prompt shows MAX_EXAMPLES."""
_EXAMPLE_CHARS = 100
MAX_EXAMPLE_CHARS = 320
"""Of an example that alone tells a constant or takes a branch."""
_ALL_CHARS = 10_000


@dataclass(frozen=True)
class Need:
    """A change of a constant, and the cases that notice it; `unguessable` are those whose arguments do not hold the
    constant either."""

    constant: Constant
    noticed: frozenset[int]
    unguessable: frozenset[int]


@dataclass(frozen=True)
class Fairness:
    """The examples of a prompt, the cases that ask for what neither prompt nor examples tell, and what that is."""

    examples: tuple[str, ...]
    unstated_cases: frozenset[int]
    unstated: tuple[str, ...]


def find_needs(cases: Sequence[Case], changes: Sequence[tuple[Constant, Sequence[int]]]) -> list[Need]:
    """The changes of constants that cases notice; `changes` are those that the prompt does not hold."""
    needs = []
    for constant, noticed in changes:
        hard = frozenset(n for n in noticed if constant.has_words and not is_given(constant, cases[n]))
        if noticed:
            needs.append(Need(constant, frozenset(noticed), hard))
    return needs


def drop_cases(needs: Sequence[Need], dropped: frozenset[int], n_cases: int) -> list[Need]:
    """The needs of the cases without the `dropped` ones, which get new numbers."""
    numbers = {old: new for new, old in enumerate(n for n in range(n_cases) if n not in dropped)}

    def renumber(found: frozenset[int]) -> frozenset[int]:
        return frozenset(numbers[n] for n in found - dropped)

    kept = [Need(need.constant, renumber(need.noticed), renumber(need.unguessable)) for need in needs]
    return [need for need in kept if need.noticed]


def find_exceptions(cases: Sequence[Case], prompt: str, line: int) -> list[Need]:
    """The classes of exceptions that calls raise and the prompt does not name: which one it is can be chance."""
    numbers: dict[str, list[int]] = {}
    for number, case in enumerate(cases):
        if case.outcome.raised:
            numbers.setdefault(case.outcome.raised[0], []).append(number)
    needs = [Need(Constant("name", kind, line, ()), frozenset(n), frozenset(n)) for kind, n in numbers.items()]
    return [need for need in needs if not need.constant.is_in(prompt)]


def judge_fairness(
    cases: Sequence[Case], name: str, needs: Sequence[Need], docstring: str, shown: frozenset[int] = frozenset()
) -> Fairness:
    """Chooses the examples of a prompt: those that tell constants, the `shown` cases, then those that take other
    branches, and a few others where the docstring has none. The docstring's own, which are cases, do the same."""
    whole = [shown_case(case, name, _ALL_CHARS) for case in cases]
    shows = [_list_shown(number, text, needs, whole) for number, text in enumerate(whole)]
    told = {need for number, case in enumerate(cases) if case.documented for need in shows[number]}
    candidates = [
        number for number in sorted(range(len(cases)), key=lambda number: _rank(cases[number]))
        if len(whole[number]) <= MAX_EXAMPLE_CHARS and whole[number].isprintable() and not cases[number].documented
    ]  # fmt: skip
    chosen: list[int] = []

    def gain(number: int) -> tuple[int, int]:
        new = shows[number] - told
        return sum(bool(needs[n].unguessable) for n in new), len(new)

    while len(chosen) < MAX_EXAMPLES:
        best = max(candidates, key=gain, default=None)  # the first of equals
        if best is None or gain(best) == (0, 0):
            break
        chosen.append(best)
        told |= shows[best]
    chosen += sorted(shown - set(chosen))
    covered = set().union(*(cases[n].outcome.arcs for n in chosen), *(c.outcome.arcs for c in cases if c.documented))
    while len(chosen) < MAX_EXAMPLES and candidates:
        best = max(candidates, key=lambda n: len(cases[n].outcome.arcs - covered))
        if cases[best].outcome.arcs <= covered:
            break
        chosen.append(best)
        covered |= cases[best].outcome.arcs
    if ">>>" not in docstring:
        wanted = MAX_EXAMPLES if len(docstring) < _SHORT_DOCSTRING else _USUAL_EXAMPLES
        chosen += _find_varied(cases, [n for n in candidates if len(whole[n]) <= _EXAMPLE_CHARS], chosen, wanted)
    untold = [need for number, need in enumerate(needs) if number not in told and need.unguessable]
    return Fairness(
        tuple(whole[number] for number in sorted(chosen, key=lambda number: _rank(cases[number]))),
        frozenset().union(*(need.unguessable for need in untold)),
        tuple(dict.fromkeys(str(need.constant) for need in untold)),
    )


def _find_varied(cases: Sequence[Case], candidates: Sequence[int], chosen: Sequence[int], wanted: int) -> list[int]:
    """Further examples up to the wanted number: first those that differ in kind, then in what they do."""
    found: list[int] = []
    for describe in (_describe_kind, _effect):
        known = {describe(cases[number]) for number in [*chosen, *found]}
        for number in candidates:
            if len(chosen) + len(found) < wanted and describe(cases[number]) not in known:
                known.add(describe(cases[number]))
                found.append(number)
    return found


def _effect(case: Case) -> tuple[object, ...]:
    return case.outcome.returned, case.outcome.raised[:1], case.outcome.after is None


def _describe_kind(case: Case) -> tuple[object, ...]:
    """What an example shows at a glance: how a text that comes out differs from the longest one that goes in."""
    outcome = case.outcome
    before = max(_list_texts(json.loads(case.call)), key=len, default="")
    result = json.loads(outcome.returned or "null")
    if isinstance(result, dict) and "bytes" in result:
        result = bytes.fromhex(result["bytes"]).decode("latin-1")
    if not isinstance(result, str):
        return outcome.raised[:1], outcome.after is None, type(result).__name__, result in (None, True, [], 0)
    longer = (len(result) > len(before)) - (len(result) < len(before))
    return longer, result == before, result.lower() == before.lower(), result in before, before in result


def _rank(case: Case) -> tuple[bool, int, str]:
    returned = case.outcome.returned
    return returned is not None and returned in case.call, len(case.call) + len(returned or ""), case.digest


def _list_shown(number: int, text: str, needs: Sequence[Need], every: Sequence[str]) -> set[int]:
    """The needs that an example tells. A text that comes out of the function has to be in it."""
    found = set()
    for place, need in enumerate(needs):
        comes_out = any(need.constant.is_in(each) for each in every)
        if number in need.noticed and (need.constant.is_in(text) or not comes_out):
            found.add(place)
    return found


def is_given(constant: Constant, case: Case) -> bool:
    """Whether the arguments of a call hold the constant; an answer meets it there."""
    leaves = _leaves(json.loads(case.call))
    if constant.kind == "name":
        return False
    if constant.kind == "number":
        return any(leaf == constant.value and not isinstance(leaf, bool) for leaf in leaves)
    return any(constant.is_in(leaf) or str(constant.value) in leaf for leaf in leaves if isinstance(leaf, str))


def _list_texts(tree: Any) -> list[str]:
    """The texts in a written value, without the names of its types."""
    if isinstance(tree, str):
        return [tree]
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return [text for part in parts for text in _list_texts(part)]


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [leaf for key, part in tree.items() for leaf in [key, *_leaves(part)]]
    if isinstance(tree, list):
        return [leaf for part in tree for leaf in _leaves(part)]
    return [tree]
