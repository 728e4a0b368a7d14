"""Calls near to the recorded ones: their arguments combined in new ways, and changed a little.

What the project's tests call is what its callers do, so parts of recorded values take each other's places: words and
numbers of texts, items, options. A text that no test resembles would show how the original copes with it by chance.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

from evaluation.from_code.callees import get_called_name
from evaluation.from_code.calls.cases import Case
from evaluation.from_code.calls.nearby_texts import change_text
from evaluation.from_code.calls.recorded import compute_digest
from evaluation.from_code.mutants import list_parameters
from evaluation.from_code.oversights import pair_defaults
from evaluation.from_code.recording import values
from evaluation.from_code.recording.values import OpaqueObject
from evaluation.source import list_positional_arguments

_MAX_REPLACEMENTS = 6
"""Replacements of one part by others of its kind."""
_MAX_CHANGED = 40
"""Recorded calls that are changed; all of them give parts."""
_MAX_ATTEMPTS = 60
"""Changes of one kind in one place that are written: writing them takes longest."""
_MAX_RECEIVERS = 20
_MAX_TEXT_CHARS = 40
_LONG_TEXT_CHARS = 128
"""Longer than what is usually done in one piece: a block of a hash has 64 bytes."""
UNLIKELY = (
    "slice", "none item", "joined text", "doubled mark", "compared text", "compared number", "compared length", "type",
    "option", "attribute", "other sign", "empty", "part mark", "shorter text", "character", "case", "long text",
)  # fmt: skip
"""Last words of the kinds of change that callers seldom make, or whose result no reader could know; those first that a
hurried writer forgets."""
ArgumentPlace = int | str
"""The number of a positional argument, or the name of another."""
_CONTENT = ""
"""The items of an object of a class derived from list or dict, among its attributes."""
_Call = tuple[tuple[Any, ...], dict[str, Any]]
_Change = tuple[ArgumentPlace, str, _Call]
"""The argument that differs from a recorded call's, the kind of the change, and the changed call."""


@dataclass(frozen=True)
class _Hints:
    """What the source of a function says about interesting arguments."""

    numbers: Sequence[int | float]
    types: Sequence[type]
    texts: Sequence[str]


@dataclass(frozen=True)
class NearbyCall:
    """The recorded case that a call was made of, and the kind of the change."""

    origin: Case
    kind: str

    @property
    def is_likely(self) -> bool:
        """Whether a caller might make it; False where the change is one that callers seldom make."""
        return not self.kind.endswith(UNLIKELY)


@dataclass(frozen=True)
class CallSources:
    """Parts of nearby calls that stand neither in the recorded ones nor in the function: other objects of a method's
    class, which take the receiver's place, and texts that called functions compare their parameters with."""

    receivers: Sequence[Any] = ()
    texts: Sequence[str] = ()


_NO_SOURCES = CallSources()


def list_nearby(
    cases: Sequence[Case],
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    limit: int,
    sources: CallSources = _NO_SOURCES,
) -> dict[str, NearbyCall]:
    """At most `limit` calls by their texts, none of them recorded, from each place and kind of change in turn.

    Numbers that the function compares with are tried with their neighbours, types that it checks with, and options that
    are switches are turned.
    """
    cases = sorted(cases, key=lambda case: case.digest)
    calls = [values.read_plain(case.call) for case in cases]
    if node.name == "__init__" and any(_has_content(args[0]) for args, _ in calls if args):
        return {}  # an exception already holds the arguments that it was made with: changed ones would contradict them
    classes = {_name_class(args[0]) for args, _ in calls if args}
    others = [each for each in _list_distinct(sources.receivers) if _name_class(each) in classes][:_MAX_RECEIVERS]
    texts = sorted({*_find_texts(node), *(text for text in sources.texts if len(text) <= _MAX_TEXT_CHARS)})
    hints = _Hints(_find_compared_numbers(node), _find_checked_types(node), texts)
    pools = _collect_pools(calls)
    known = {case.call for case in cases}
    tried: set[tuple[ArgumentPlace, str]] = set()
    attempts: Counter[tuple[ArgumentPlace, str]] = Counter()
    queues: dict[Hashable, list[str]] = {}
    found: dict[str, NearbyCall] = {}
    for case, (args, kwargs) in zip(cases[:_MAX_CHANGED], calls, strict=False):
        changes = _change_call(args, kwargs, pools, hints, node)
        for place, kind, changed in chain(changes, _replace_receiver(args, kwargs, others)):
            attempts[place, kind] += 1
            if attempts[place, kind] > _MAX_ATTEMPTS:
                continue
            text, value = _write(changed), _write(_get_argument(changed, place))
            if text is None or value is None or text in known:
                continue
            known.add(text)
            was_tried = (place, value) in tried
            tried.add((place, value))
            found[text] = NearbyCall(case, kind)
            queues.setdefault((was_tried, place, kind), []).append(text)
    return {text: found[text] for text in _take_in_turns(queues)[:limit]}


def _collect_pools(calls: Sequence[_Call]) -> dict[ArgumentPlace, list[Any]]:
    """The distinct values of each argument."""
    pools: dict[ArgumentPlace, list[Any]] = {}
    for args, kwargs in calls:
        arguments: list[tuple[ArgumentPlace, Any]] = [*enumerate(args), *kwargs.items()]
        for place, value in arguments:
            pools.setdefault(place, []).append(value)
    return {place: _list_distinct(pool) for place, pool in pools.items()}


def _replace_receiver(args: tuple[Any, ...], kwargs: dict[str, Any], others: Sequence[Any]) -> Iterator[_Change]:
    """A method's call with each of the other objects of its class as the receiver."""
    if args and _name_class(args[0]):
        for other in others:
            yield 0, "receiver", ((other, *args[1:]), kwargs)


def _take_in_turns(queues: dict[Hashable, list[str]]) -> list[str]:
    """One text of each queue in turn, in an order that depends on the texts alone."""
    turns = [sorted(queues[key], key=compute_digest) for key in sorted(queues, key=str)]
    return [text for one_of_each in zip_longest(*turns) for text in one_of_each if text is not None]


def _name_class(value: object) -> str:
    """The class of an object, "" for another value."""
    return str(value.tree["object"][0]) if isinstance(value, OpaqueObject) and "object" in value.tree else ""


def _has_content(value: object) -> bool:
    """Whether it is an object with a content beside its attributes."""
    return isinstance(value, OpaqueObject) and bool(value.tree.get("object", (None, None))[1])


def _get_argument(call: _Call, place: ArgumentPlace) -> Any:
    """The argument in this place, None where there is none."""
    args, kwargs = call
    if isinstance(place, str):
        return kwargs.get(place)
    return args[place] if place < len(args) else None


def _write(value: Any) -> str | None:
    try:
        return values.serialize(value)
    except values.UnwritableError:
        return None


def _change_call(
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    pools: dict[ArgumentPlace, list[Any]],
    hints: _Hints,
    node: ast.FunctionDef | ast.AsyncFunctionDef,
) -> Iterator[_Change]:
    """Each change of one argument."""
    for number, value in enumerate(args):
        for kind, other in _change_value(value, pools[number], hints):
            yield number, kind, ((*args[:number], other, *args[number + 1 :]), kwargs)
        for other in args[:number]:
            if type(other) is type(value) and other is not value:
                yield number, "the same", ((*args[:number], other, *args[number + 1 :]), kwargs)
    for name, value in kwargs.items():
        yield name, "left out", (args, {key: part for key, part in kwargs.items() if key != name})
        for kind, other in _change_value(value, pools[name], hints):
            yield name, kind, (args, {**kwargs, name: other})
    n_positional = len(list_positional_arguments(node.args))
    if len(args) > n_positional - len(node.args.defaults):
        yield len(args) - 1, "left out", (args[:-1], kwargs)
    constants = {name: each.value for name, each in pair_defaults(node.args) if isinstance(each, ast.Constant)}
    for number, name in enumerate(list_parameters(node)):
        if name not in constants or name in kwargs:
            continue
        if number < min(len(args), n_positional):
            yield number, "left to its default", ((*args[:number], constants[name], *args[number + 1 :]), kwargs)
        else:
            yield from (
                (name, kind, (args, {**kwargs, name: other})) for kind, other in _change_default(constants[name])
            )


def _change_default(default: object) -> Iterator[tuple[str, Any]]:
    """Another value than the default of an option that a call leaves out."""
    match default:
        case bool():
            yield "turned", not default
        case int() | float():
            yield "option", default + 1
        case str():
            yield "option", "-" if default != "-" else "+"


def _find_compared_numbers(node: ast.AST) -> list[int | float]:
    """The numbers that a function compares something with; 10, which comes before 9 as a text, where it sorts."""
    compares = (each for each in ast.walk(node) if isinstance(each, ast.Compare))
    numbers = (n.value for each in compares for n in ast.walk(each) if isinstance(n, ast.Constant))
    found = {n for n in numbers if isinstance(n, int | float) and not isinstance(n, bool)}
    sorts = any(get_called_name(each) in ("sorted", "sort") for each in ast.walk(node) if isinstance(each, ast.Call))
    return sorted({*found, 10} if sorts else found)


def _find_texts(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The short texts of a body, without its docstring and what exceptions say."""
    todo: list[ast.AST] = [*node.body]
    if ast.get_docstring(node, clean=False) is not None:
        del todo[0]
    found: set[str] = set()
    while todo:
        each = todo.pop()
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and len(each.value) <= _MAX_TEXT_CHARS:
            found.add(each.value)
        todo += () if isinstance(each, ast.Raise | ast.Assert) else ast.iter_child_nodes(each)
    return sorted(found)


def _find_checked_types(node: ast.AST) -> list[type]:
    """Container types that a function names where it asks for the type of a value; dict, whose keys are items too,
    where it tells texts from other iterables."""
    calls = (each for each in ast.walk(node) if isinstance(each, ast.Call))
    checks = (each for each in calls if isinstance(each.func, ast.Name) and each.func.id == "isinstance")
    named = {n.id for each in checks for n in ast.walk(each) if isinstance(n, ast.Name)}
    if {"str", "bytes"} & named:
        named.add("dict")
    return [kind for kind in (list, tuple, set, frozenset, dict) if kind.__name__ in named]


def _change_value(value: Any, pool: Sequence[Any], hints: _Hints) -> Iterator[tuple[str, Any]]:
    """(kind of the change, another value) for a value; `pool` are the different ones that stand in its place."""
    alike = [other for other in pool if type(other) is type(value)]
    yield from (("other", other) for other in alike[:_MAX_REPLACEMENTS])
    if isinstance(value, list | tuple) and _has_hashable_items(value):
        others = (kind for kind in hints.types if kind is not type(value))
        yield from (("type", dict.fromkeys(value) if kind is dict else kind(value)) for kind in others)
    if value and isinstance(value, str | list | dict | set):
        yield "empty", type(value)()
    if isinstance(value, str | bytes) and 2 <= len(value) <= _MAX_TEXT_CHARS:
        yield "long text", value * (_LONG_TEXT_CHARS // len(value) + 1)
    if isinstance(value, str | list):
        cuts = (number + change for number in hints.numbers for change in (-1, 0, 1) if isinstance(number, int))
        yield from (("compared length", value[:cut]) for cut in cuts if 0 < cut < len(value))
    match value:
        case bool():
            yield "turned", not value
        case int() | float():
            yield from _change_number(value, alike, hints.numbers)
        case str():
            yield from change_text(value, alike, hints.texts)
        case [_, *_]:
            yield from _change_sequence(value, alike, hints)
        case OpaqueObject(tree={"object": ["builtins:slice", [start, stop, step], []]}):
            for cut in _change_slice(start, stop, step):
                yield "slice", OpaqueObject({"object": ["builtins:slice", cut, []]})
        case OpaqueObject(tree={"object": _}):
            yield from _change_object(value, alike)
        case dict():
            yield from (
                ("fewer", {k: v for k, v in value.items() if k != key}) for key in list(value)[:_MAX_REPLACEMENTS]
            )
            yield from (("more", {**value, **other}) for other in alike[:_MAX_REPLACEMENTS])
            yield from (
                ("none item", {**value, key: None}) for key, item in list(value.items())[:2] if item is not None
            )
            for key, item in list(value.items())[:_MAX_REPLACEMENTS]:
                if isinstance(item, str | int | float | list | tuple):
                    for kind, other in _change_value(item, _list_distinct([o[key] for o in alike if key in o]), hints):
                        yield f"item {kind}", {**value, key: other}


def _has_hashable_items(value: Sequence[Any]) -> bool:
    try:
        hash(tuple(value))
    except TypeError:
        return False
    return True


def _change_number(
    value: int | float, alike: Sequence[int | float], compared: Sequence[int | float]
) -> Iterator[tuple[str, Any]]:
    negative = any(other < 0 for other in alike)
    for kind, nears in (("number", (0, value)), ("compared number", compared)):
        for other in (number + change for number in nears for change in (-1, 0, 1)):
            if other >= 0 or negative or other in compared:
                yield kind, type(value)(other)
    yield ("sign" if negative else "other sign"), -value


def _change_sequence(value: Any, alike: Sequence[Any], hints: _Hints) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, list | tuple):
        return
    kind = type(value)
    yield "reversed", value[::-1]
    if kind is list or len({len(other) for other in alike}) > 1:  # a tuple of one length is a record
        yield "shorter", value[:-1]
        yield "shorter", value[1:]
        yield "twice", kind((*value, value[0]))
        for other in alike[:_MAX_REPLACEMENTS]:
            yield "longer", kind((*value, *other))
    for number, item in enumerate(value[:_MAX_REPLACEMENTS]):
        if isinstance(item, str | int | float | bool):
            pool = [part for other in alike for part in other]
            for name, changed in _change_value(item, pool, hints):
                yield f"item {name}", kind((*value[:number], changed, *value[number + 1 :]))


def _change_slice(start: Any, stop: Any, step: Any) -> Iterator[list[Any]]:
    """Slices of every kind that the language has: none of the items, from the end, in steps, backwards."""
    yield from ([start, 0, step], [start, -1, step], [-2, stop, step], [1, stop, step])
    yield from ([start, stop, other] for other in (2, -1))


def _change_object(value: OpaqueObject, alike: Sequence[OpaqueObject]) -> Iterator[tuple[str, OpaqueObject]]:
    """The object with another value of one attribute, where objects of its class were seen to differ in it alone, and
    not in their items either."""
    name, content, attributes = value.tree["object"]
    others = [other.tree["object"] for other in alike if "object" in other.tree]
    states = [{_CONTENT: items, **dict(state)} for kind, items, state in others if kind == name]
    match content:
        case [first, [{"tuple": [key, part]}, *rest]] if part is not None:  # of a class derived from dict
            yield "none item", OpaqueObject({"object": [name, [first, [{"tuple": [key, None]}, *rest]], attributes]})
    own = {_CONTENT: content, **dict(attributes)}
    for changed, tree in dict(attributes).items():
        apart = [state[changed] for state in states if state.keys() == own.keys() and state[changed] != tree]
        if not _varies_alone(changed, states):
            continue
        trees = [each.tree for each in _list_distinct(list(map(OpaqueObject, apart)))][:_MAX_REPLACEMENTS]
        if type(tree) is int:
            trees += [0, tree + 1, *([-tree] if any(_is_negative(state.get(changed)) for state in states) else [])]
        for other in trees:
            state = [[key, other if key == changed else part] for key, part in attributes]
            yield f"{changed} attribute", OpaqueObject({"object": [name, content, state]})


def _list_distinct(found: Sequence[Any]) -> list[Any]:
    """The values without repetitions, in an order that depends on them alone and not on their size."""
    by_digest = {compute_digest(text): each for each in found if (text := _write(each)) is not None}
    return [by_digest[digest] for digest in sorted(by_digest)]


def _varies_alone(name: str, states: Sequence[dict[str, Any]]) -> bool:
    """Whether two objects differ in this attribute and in no other."""
    seen: dict[str, str] = {}
    for state in states:
        rest = json.dumps([part for key, part in state.items() if key != name])
        own = json.dumps(state.get(name))
        if seen.setdefault(rest, own) != own:
            return True
    return False


def _is_negative(tree: Any) -> bool:
    return type(tree) is int and tree < 0
