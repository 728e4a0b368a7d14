"""Calls near to the recorded ones: their arguments combined in new ways, and changed a little.

What the project's tests call is what its callers do, so parts of recorded values take each other's places: words and
numbers of texts, items, options. A text that no test resembles would show how the original copes with it by chance.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any

from evaluation.from_code.calls.cases import Case
from evaluation.from_code.calls.nearby_values import MAX_TEXT_CHARS, Hints, change_value, list_distinct, try_serialize
from evaluation.from_code.calls.recorded import compute_digest
from evaluation.from_code.mutants import list_parameters
from evaluation.from_code.oversights import pair_defaults
from evaluation.from_code.recording import values
from evaluation.from_code.recording.values import OpaqueObject
from evaluation.source import get_called_name, list_positional_arguments

_MAX_CHANGED = 40
"""Recorded calls that are changed; all of them give parts."""
_MAX_ATTEMPTS = 60
"""Changes of one kind in one place that are written: writing them takes longest."""
_MAX_RECEIVERS = 20
_MAX_LENGTH = 100
_MAX_LENGTHS = 2
NONE_ITEM = "none item"
UNLIKELY = (
    "slice", NONE_ITEM, "joined text", "doubled mark", "compared text", "compared number", "compared length", "type",
    "option", "attribute", "other sign", "bytes", "small number", "length number", "same part", "shorter mark", "empty",
    "part mark", "shorter text", "character", "case", "long text",
)  # fmt: skip
"""Last words of the kinds of change that callers seldom make, or whose result no reader could know; those first that a
hurried writer forgets."""
ArgumentPlace = int | str
"""The number of a positional argument, or the name of another."""
_Call = tuple[tuple[Any, ...], dict[str, Any]]
_Change = tuple[ArgumentPlace, str, _Call]
"""The argument that differs from a recorded call's, the kind of the change, and the changed call."""


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
    class, which take the receiver's place, texts that called functions compare their parameters with, and texts and
    bytes that other functions were called with, by the name of the parameter."""

    receivers: Sequence[Any] = ()
    texts: Sequence[str] = ()
    texts_by_parameter: Mapping[str, Sequence[str | bytes]] = field(default_factory=dict)


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
    is_constructor = node.name == "__init__"
    classes = {_name_class(args[0]) for args, _ in calls if args and not is_constructor}
    others = [each for each in list_distinct(sources.receivers) if _name_class(each) in classes][:_MAX_RECEIVERS]
    texts = sorted({*_find_texts(node), *(text for text in sources.texts if len(text) <= MAX_TEXT_CHARS)})
    compared, checked = _find_compared_numbers(node), _find_checked_types(node)
    found_values: dict[ArgumentPlace, list[Any]] = {}
    for place, value in chain.from_iterable(map(_list_arguments, calls)):
        found_values.setdefault(place, []).append(value)
    pools = {place: list_distinct(found) for place, found in found_values.items()}
    known = {case.call for case in cases}
    tried: set[tuple[ArgumentPlace, str]] = set()
    attempts: Counter[tuple[ArgumentPlace, str]] = Counter()
    queues: dict[Hashable, list[str]] = {}
    found: dict[str, NearbyCall] = {}
    for case, call in zip(cases[:_MAX_CHANGED], calls, strict=False):
        hints = Hints(compared, checked, texts, sorted(_list_lengths(json.loads(case.call)))[-_MAX_LENGTHS:])
        receiver = next(iter(call[0]), None)
        holds = is_constructor and _has_content(receiver)
        if holds and try_serialize(_hold_arguments(*call)) != case.call:
            continue
        changes = _change_call(call, pools, hints, node)
        elsewhere = _take_from_elsewhere(call, list_parameters(node), sources.texts_by_parameter)
        replaced = ((0, "receiver", _replace_argument(call, 0, each)) for each in others if _name_class(receiver))
        for place, kind, changed in chain(changes, elsewhere, replaced):
            attempts[place, kind] += 1
            if attempts[place, kind] > _MAX_ATTEMPTS:
                continue
            text = try_serialize(_hold_arguments(*changed) if holds else changed)
            value = try_serialize(dict(_list_arguments(changed)).get(place))
            if text is None or value is None or text in known:
                continue
            known.add(text)
            was_tried = (place, value) in tried
            tried.add((place, value))
            found[text] = NearbyCall(case, kind)
            queues.setdefault((was_tried, place, kind), []).append(text)
    return {text: found[text] for text in _take_in_turns(queues)[:limit]}


def _list_arguments(call: _Call) -> list[tuple[ArgumentPlace, Any]]:
    args, kwargs = call
    return [*enumerate(args), *kwargs.items()]


def _replace_argument(call: _Call, place: ArgumentPlace, other: Any) -> _Call:
    args, kwargs = call
    if isinstance(place, str):
        return args, {**kwargs, place: other}
    return (*args[:place], other, *args[place + 1 :]), kwargs


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


def _hold_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
    """A constructor's call whose receiver holds the arguments, as an exception does from `__new__`."""
    receiver, *given = args
    name, _, attributes = receiver.tree["object"]
    content = [json.loads(values.serialize(each)) for each in given]
    return (OpaqueObject({"object": [name, content, attributes]}), *given), kwargs


def _list_lengths(tree: Any) -> set[int]:
    """The lengths of the lists in a written call, of at most _MAX_LENGTH items; the longest are its containers."""
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    own = {len(tree)} if isinstance(tree, list) and len(tree) <= _MAX_LENGTH else set()
    return own.union(*map(_list_lengths, parts))


def _take_from_elsewhere(call: _Call, names: Sequence[str], texts: Mapping[str, Sequence[Any]]) -> Iterator[_Change]:
    """The call with texts that other functions were called with for a parameter of the same name."""
    for place, value in _list_arguments(call):
        name = place if isinstance(place, str) else names[place] if place < len(names) else ""
        for other in texts.get(name, ()):
            if type(other) is type(value):
                yield place, "elsewhere", _replace_argument(call, place, other)


def _change_call(
    call: _Call, pools: dict[ArgumentPlace, list[Any]], hints: Hints, node: ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[_Change]:
    """Each change of one argument."""
    args, kwargs = call
    for place, value in _list_arguments(call):
        if isinstance(place, str):
            yield place, "left out", (args, {key: part for key, part in kwargs.items() if key != place})
        for kind, other in change_value(value, pools[place], hints):
            yield place, kind, _replace_argument(call, place, other)
        for other in () if isinstance(place, str) else args[:place]:
            if type(other) is type(value) and other is not value:
                yield place, "the same", _replace_argument(call, place, other)
    n_positional = len(list_positional_arguments(node.args))
    if len(args) > n_positional - len(node.args.defaults):
        yield len(args) - 1, "left out", (args[:-1], kwargs)
    constants = {name: each.value for name, each in pair_defaults(node.args) if isinstance(each, ast.Constant)}
    for number, name in enumerate(list_parameters(node)):
        if name not in constants or name in kwargs:
            continue
        if number < min(len(args), n_positional):
            yield number, "left to its default", _replace_argument(call, number, constants[name])
        else:
            for kind, other in _change_default(constants[name]):
                yield name, kind, _replace_argument(call, name, other)


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
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and len(each.value) <= MAX_TEXT_CHARS:
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
