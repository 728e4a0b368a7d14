"""What the cases of a task ask for that its prompt does not tell, and the examples that tell it.

A reader may check an answer against the examples. So a constant is told where they notice each change of it that the
cases notice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from evaluation.from_code.calls.cases import Case, format_case
from evaluation.from_code.unstated import BodyConstant

T = TypeVar("T")
MAX_EXAMPLES = 8
MAX_WITH_NEARBY = 12
"""With calls that are near to recorded ones; they are shown after _MIN_RECORDED recorded ones that tell something."""
_MIN_RECORDED = 4
_USUAL_EXAMPLES = 3
_SHORT_DOCSTRING = 200
"""Characters up to which a docstring says little: then a prompt shows MAX_EXAMPLES."""
_EXAMPLE_CHARS = 100
MAX_EXAMPLE_CHARS = 320
"""Characters of an example, if any is that short."""
_LONG_EXAMPLE_CHARS = 1000
"""Characters of an example if all are longer than that, or if it tells what no shorter one does."""
_LONG_EXAMPLES = 2
_MIN_TOLD_SHARE = 0.75
"""Of the mutants and the bodies that return an argument, those that the examples tell from the original in a prompt
without a docstring."""
_KIND_DEPTH = 6
_ALL_CHARS = 10_000
_GUESSABLE_NUMBERS = 2
UNDESCRIBED = "what it does, since neither docstring nor example says it"
UNSHOWN = "most of what it does, since it has no docstring and its examples show little"
UNILLUSTRATED = "what it does beyond a short docstring, since no example shows it"
_MIN_ILLUSTRATING = 3
"""Examples that make up for a docstring, where it is not known what they show."""


@dataclass(frozen=True)
class PromptNeed:
    """A constant, and the cases that notice its change; `unguessable` are those whose arguments do not hold the
    constant either."""

    constant: BodyConstant
    noticed: frozenset[int]
    unguessable: frozenset[int]


@dataclass(frozen=True)
class Fairness:
    """The examples of a prompt, the cases that ask for what neither prompt nor examples tell, and what that is."""

    examples: tuple[str, ...]
    unstated_cases: frozenset[int]
    unstated: tuple[str, ...]


def find_needs(cases: Sequence[Case], changes: Sequence[tuple[BodyConstant, Sequence[int]]]) -> list[PromptNeed]:
    """The constants whose change a case notices, of those in `changes`: the prompt holds none of them."""
    needs = []
    for constant, noticed in changes:
        hard = frozenset(n for n in noticed if constant.must_be_told and not is_in_arguments(constant, cases[n]))
        if noticed:
            needs.append(PromptNeed(constant, frozenset(noticed), hard))
    return needs


def drop_cases(
    needs: Sequence[PromptNeed], faults: Sequence[frozenset[int]], dropped: frozenset[int], n_cases: int
) -> tuple[list[PromptNeed], list[frozenset[int]]]:
    """The needs and noticed faults of the cases without the `dropped` ones, which get new numbers."""
    numbers = {old: new for new, old in enumerate(n for n in range(n_cases) if n not in dropped)}

    def renumber(found: frozenset[int]) -> frozenset[int]:
        return frozenset(numbers[n] for n in found - dropped)

    kept = [PromptNeed(need.constant, renumber(need.noticed), renumber(need.unguessable)) for need in needs]
    return [need for need in kept if need.noticed], list(map(renumber, faults))


def find_unnamed_exceptions(cases: Sequence[Case], prompt: str, line: int) -> list[PromptNeed]:
    """The classes of exceptions that calls raise and the prompt does not name: nobody could guess the class."""
    numbers: dict[str, list[int]] = {}
    for number, case in enumerate(cases):
        if case.outcome.raised:
            numbers.setdefault(case.outcome.raised[0], []).append(number)
    raised = [(BodyConstant("name", kind, line, ()), frozenset(noticed)) for kind, noticed in numbers.items()]
    needs = [PromptNeed(constant, noticed, noticed) for constant, noticed in raised]
    return [need for need in needs if not need.constant.is_in(prompt)]


def list_showable(cases: Sequence[Case], name: str) -> tuple[list[int], list[int]]:
    """The numbers of the cases to show as examples, and of the long ones, sorted by `_get_sort_key`. If all are long,
    these are shown."""
    texts = {number: format_case(case, name, _ALL_CHARS) for number, case in enumerate(cases) if not case.documented}
    usable = [number for number in sorted(texts, key=lambda n: _get_sort_key(cases[n])) if texts[number].isprintable()]
    short = [number for number in usable if len(texts[number]) <= MAX_EXAMPLE_CHARS]
    long = [number for number in usable if MAX_EXAMPLE_CHARS < len(texts[number]) <= _LONG_EXAMPLE_CHARS]
    return short or long, long


def judge_fairness(
    cases: Sequence[Case],
    name: str,
    needs: Sequence[PromptNeed],
    docstring: str,
    shown: frozenset[int] = frozenset(),
    faults: Sequence[frozenset[int]] = (),
    identities: Sequence[frozenset[int]] = (),
) -> Fairness:
    """Chooses the examples of a prompt: those that tell constants, recorded ones that take other branches (long ones,
    too) or notice other faults, the `shown` cases, others that do so or have other kinds of values in them, and a few
    more where the docstring has none. Its own examples are cases, and count as shown. `shown` cases for which there is
    no room ask for what the prompt does not tell.

    `faults` are the numbers of the cases that notice each mutant, `identities` those that notice each body which
    returns an argument.
    """
    texts = [format_case(case, name, _ALL_CHARS) for case in cases]
    told_needs = [_find_told_needs(number, text, needs, texts) for number, text in enumerate(texts)]
    arcs = [set(case.outcome.arcs) for case in cases]
    every = [*identities, *faults]
    noticed_faults = [{fault for fault, noticing in enumerate(every) if n in noticing} for n in range(len(cases))]
    documented = [number for number, case in enumerate(cases) if case.documented]
    short, long = list_showable(cases, name)
    choice = _ExampleChoice(cases, texts, short, documented)
    choice.add_telling(told_needs, lambda new: (sum(bool(needs[place].unguessable) for place in new), len(new)))
    recorded = [number for number in short if number not in shown]
    choice.add_telling(arcs, len, candidates=recorded)
    choice.add_telling(arcs, len, candidates=[number for number in long if number not in shown], limit=_LONG_EXAMPLES)
    choice.add_telling(noticed_faults, len, candidates=recorded, limit=max(0, _MIN_RECORDED - len(choice.chosen)))
    choice.chosen += sorted(shown - set(choice.chosen))[: MAX_WITH_NEARBY - len(choice.chosen)]
    unshown = shown - set(choice.chosen)
    choice.add_telling(arcs, len)
    choice.add_telling(noticed_faults, len)
    choice.add_telling(noticed_faults, len, candidates=long, limit=_LONG_EXAMPLES)
    choice.add_telling([_find_kinds(case) for case in cases], len)
    choice.add_usual(docstring)
    examples = [texts[number] for number in sorted(choice.chosen, key=lambda number: _get_sort_key(cases[number]))]
    if not (examples or docstring or documented):
        return Fairness((), frozenset(range(len(cases))), (UNDESCRIBED,))
    told_faults = choice.collect_told(noticed_faults)
    tells_identities = told_faults.issuperset(range(len(identities)))
    if not docstring and not (tells_identities and len(told_faults) >= _MIN_TOLD_SHARE * len(every)):
        return Fairness(tuple(examples), frozenset(range(len(cases))), (UNSHOWN,))
    told = choice.collect_told(told_needs)
    untold = [need for place, need in enumerate(needs) if place not in told and need.unguessable]
    untold += _find_unseen_numbers(needs, examples, docstring)
    return Fairness(
        tuple(examples),
        unshown.union(*(need.unguessable for need in untold)),
        tuple(dict.fromkeys(str(need.constant) for need in untold)),
    )


def find_missing_description(docstring: str, examples: Sequence[str]) -> str:
    """What docstring and examples leave to guess, "" for nothing, where no case is known to tell it."""
    if not docstring:
        return "" if len(examples) >= _MIN_ILLUSTRATING else UNSHOWN if examples else UNDESCRIBED
    is_illustrated = bool(examples) or ">>>" in docstring or len(docstring) >= _SHORT_DOCSTRING
    return "" if is_illustrated else UNILLUSTRATED


@dataclass
class _ExampleChoice:
    """The numbers of the cases `chosen` so far for a prompt, from the `candidates`; its docstring has the `documented`
    ones. `texts` are the cases as examples."""

    cases: Sequence[Case]
    texts: Sequence[str]
    candidates: Sequence[int]
    documented: Sequence[int]
    chosen: list[int] = field(default_factory=list)

    def collect_told(self, tells: Sequence[set[T]]) -> set[T]:
        """What the prompt's cases tell; `tells` is by case."""
        return set().union(*(tells[number] for number in [*self.chosen, *self.documented]))

    def add_telling(
        self,
        tells: Sequence[set[T]],
        weigh: Callable[[set[T]], object],
        *,
        candidates: Sequence[int] | None = None,
        limit: int = MAX_EXAMPLES,
    ) -> None:
        """Add at most `limit` candidates, MAX_EXAMPLES in all, each time the one that tells most that is untold;
        `tells` is by case."""
        told = self.collect_told(tells)
        candidates = self.candidates if candidates is None else candidates
        limit = min(len(self.chosen) + limit, MAX_EXAMPLES)
        while len(self.chosen) < limit and candidates:
            best = max(candidates, key=lambda n: weigh(tells[n] - told))  # type: ignore[arg-type,return-value]
            if tells[best] <= told:  # the first of equals is the best
                return
            self.chosen.append(best)
            told |= tells[best]

    def add_varied(self, numbers: Sequence[int], wanted: int, describe: Callable[[Case], object]) -> None:
        """Add cases of these numbers, up to `wanted` in all, that differ in what `describe` says of them."""
        known = {describe(self.cases[number]) for number in self.chosen}
        for number in numbers:
            description = describe(self.cases[number])
            if len(self.chosen) < wanted and description not in known:
                known.add(description)
                self.chosen.append(number)

    def add_usual(self, docstring: str) -> None:
        """Add a few cases of other kinds where the docstring has none, more where it says little."""
        if ">>>" not in docstring:
            wanted = MAX_EXAMPLES if len(docstring) < _SHORT_DOCSTRING else _USUAL_EXAMPLES
            short = [number for number in self.candidates if len(self.texts[number]) <= _EXAMPLE_CHARS]
            self.add_varied(short, wanted, _describe_kind)
            self.add_varied(self.candidates, wanted, _describe_kind)
            self.add_varied(short, wanted, _describe_effect)
        if not (self.chosen or docstring):
            self.chosen += self.candidates[:_USUAL_EXAMPLES]


def _find_unseen_numbers(needs: Sequence[PromptNeed], examples: Sequence[str], docstring: str) -> list[PromptNeed]:
    """The needs of numbers that stand neither in an example nor in the docstring, if there are more than
    _GUESSABLE_NUMBERS of them: nobody finds the weights of a checksum from results."""
    text = "\n".join([*examples, docstring])
    unseen = [need for need in needs if need.constant.kind == "number" and not need.constant.is_in(text)]
    return unseen if len({need.constant.value for need in unseen}) > _GUESSABLE_NUMBERS else []


def _describe_effect(case: Case) -> tuple[object, ...]:
    return case.outcome.returned, case.outcome.raised[:1], case.outcome.after is None


def _describe_kind(case: Case) -> tuple[object, ...]:
    """What an example shows at a glance: how a text that comes out differs from the longest one that goes in."""
    outcome = case.outcome
    texts = [leaf for leaf in _list_leaves(json.loads(case.call)) if isinstance(leaf, str)]
    before = max(texts, key=len, default="")
    result = json.loads(outcome.returned or "null")
    if isinstance(result, dict) and "bytes" in result:
        result = bytes.fromhex(result["bytes"]).decode("latin-1")
    if not isinstance(result, str):
        kind = result["object"][0] if isinstance(result, dict) and "object" in result else type(result).__name__
        return outcome.raised[:1], outcome.after is None, kind, result in (None, True, [], 0)
    longer = (len(result) > len(before)) - (len(result) < len(before))
    return longer, result == before, result.lower() == before.lower(), result in before, before in result


def _find_kinds(case: Case) -> set[str]:
    """The kinds of values in arguments and result, each with what it is in: a list in a dict, a negative number."""
    found: set[str] = set()

    def note(tree: Any, place: str, depth: int) -> None:
        if isinstance(tree, dict):
            ((tag, body),) = tree.items()
            if tag in ("number", "float"):
                note(body[1] if tag == "number" else float(body), place, depth)
            elif tag == "object":
                note(body[1:], f"{place}/{body[0]}", depth + 1)
            else:
                note(body, f"{place}/{tag}", depth + 1)
        elif isinstance(tree, list) and tree and depth < _KIND_DEPTH:
            for part in tree:
                note(part, place + "/list", depth + 1)
        else:
            found.add(f"{place}/{_name_kind(tree)}")

    args, kwargs = json.loads(case.call)["tuple"]
    for name, tree in [*enumerate(args["tuple"]), *kwargs["dict"]]:
        note(tree, str(name), 0)
    note(json.loads(case.outcome.returned or "null"), "result", 0)
    return found


def _name_kind(tree: Any) -> str:
    if isinstance(tree, bool) or tree is None:
        return repr(tree)
    if isinstance(tree, int | float):
        return "0" if tree == 0 else "below 0" if tree < 0 else "above 0"
    return type(tree).__name__ if tree else f"empty {type(tree).__name__}"


def _get_sort_key(case: Case) -> tuple[bool, int, str]:
    returned = case.outcome.returned
    return returned is not None and returned in case.call, len(case.call) + len(returned or ""), case.digest


def _find_told_needs(number: int, text: str, needs: Sequence[PromptNeed], every: Sequence[str]) -> set[int]:
    """The needs that an example tells: it notices the change, and its text holds the constant if that is a name or if
    any case's text holds it. A call that notices a renamed method shows what the method does, not its name."""
    found = set()
    for place, need in enumerate(needs):
        comes_out = need.constant.kind == "name" or any(need.constant.is_in(each) for each in every)
        if number in need.noticed and (need.constant.is_in(text) or not comes_out):
            found.add(place)
    return found


def is_in_arguments(constant: BodyConstant, case: Case) -> bool:
    """Whether the arguments of a call hold the constant; an answer meets it there."""
    leaves = _list_leaves(json.loads(case.call))
    if constant.kind in ("name", "option"):
        return False
    if constant.kind == "number":
        return any(leaf == constant.value and not isinstance(leaf, bool) for leaf in leaves)
    return any(constant.is_in(leaf) or str(constant.value) in leaf for leaf in leaves if isinstance(leaf, str))


def _list_leaves(tree: Any) -> list[Any]:
    """The texts, numbers, truth values and None in a written value, without the names of its types and the numbers that
    tell its objects apart."""
    if isinstance(tree, dict):
        ((tag, part),) = tree.items()
        if tag in ("ref", "float"):
            return [float(part)] if tag == "float" else []
        return _list_leaves(part[1:] if tag in ("number", "object", "member") else part)
    if isinstance(tree, list):
        return [leaf for part in tree for leaf in _list_leaves(part)]
    return [tree]
