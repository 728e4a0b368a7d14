"""Values near to recorded ones: each is changed a little, or takes parts of others that stand in its place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from evaluation.from_code.calls.recorded import compute_digest
from evaluation.from_code.recording import values
from evaluation.from_code.recording.values import OpaqueObject

MAX_TEXT_CHARS = 40
_MAX_REPLACEMENTS = 6
"""Replacements of one part by others of its kind."""
_LONG_TEXT_CHARS = 128
"""Longer than what is usually done in one piece: a block of a hash has 64 bytes."""
_SMALL = 8
"""Numbers up to it are tried where recorded ones are that small: they may be places in something short."""
_CONTENT = ""
"""The items of an object of a class derived from list or dict, among its attributes."""

_PARTS = re.compile(r"[^\W\d_]+|\d+|[\W_]+")
_MARKS = re.compile(r"[^\w\s]")
_MAX_PARTS = 40
_MAX_CHARACTERS = 16
_COMMON_TRAPS = ("\t", "\n", " ", "\xe9", "\xa0", "%", "{", "'", '"')
"""White space, a letter and a space that are not in ASCII, what begins a field of a template, and quotation marks."""


@dataclass(frozen=True)
class Hints:
    """What the source of a function, and the call that is changed, say about interesting arguments."""

    numbers: Sequence[int | float]
    types: Sequence[type]
    texts: Sequence[str]
    lengths: Sequence[int] = ()  # of the containers in the call


def change_value(value: Any, pool: Sequence[Any], hints: Hints) -> Iterator[tuple[str, Any]]:
    """(kind of the change, another value) for a value; `pool` are the different ones that stand in its place."""
    alike = [other for other in pool if type(other) is type(value)]
    yield from (("other", other) for other in alike[:_MAX_REPLACEMENTS])
    if isinstance(value, list | tuple) and _has_hashable_items(value):
        others = (kind for kind in hints.types if kind is not type(value))
        yield from (("type", dict.fromkeys(value) if kind is dict else kind(value)) for kind in others)
    if value and isinstance(value, str | bytes | list | dict | set):
        yield "empty", type(value)()
    if isinstance(value, str | bytes) and 2 <= len(value) <= MAX_TEXT_CHARS:
        yield "long text", value * (_LONG_TEXT_CHARS // len(value) + 1)
    if isinstance(value, str | list):
        cuts = (number + change for number in hints.numbers for change in (-1, 0, 1) if isinstance(number, int))
        yield from (("compared length", value[:cut]) for cut in cuts if 0 < cut < len(value))
    match value:
        case bool():
            yield "turned", not value
        case int() | float():
            yield from _change_number(value, alike, hints)
        case str():
            yield from _change_text(value, alike, hints.texts)
        case bytes() if 0 < len(value) <= MAX_TEXT_CHARS:
            yield from _change_bytes(value)
        case [_, *_]:
            yield from _change_sequence(value, alike, hints)
        case OpaqueObject(tree={"object": ["builtins:slice", [start, stop, step], []]}):
            for cut in _change_slice(start, stop, step):
                yield "slice", OpaqueObject({"object": ["builtins:slice", cut, []]})
        case OpaqueObject(tree={"object": _}):
            yield from _change_object(value, alike)
        case dict():
            yield from _change_dict(value, alike, hints)


def _has_hashable_items(value: Sequence[Any]) -> bool:
    try:
        hash(tuple(value))
    except TypeError:
        return False
    return True


def _change_dict(value: dict[Any, Any], alike: Sequence[dict[Any, Any]], hints: Hints) -> Iterator[tuple[str, Any]]:
    yield from (("fewer", {k: v for k, v in value.items() if k != key}) for key in list(value)[:_MAX_REPLACEMENTS])
    yield from (("more", {**value, **other}) for other in alike[:_MAX_REPLACEMENTS])
    yield from (("none item", {**value, key: None}) for key, item in list(value.items())[:2] if item is not None)
    if value:
        yield "none item", dict.fromkeys(value)
    for key, item in list(value.items())[:_MAX_REPLACEMENTS]:
        if isinstance(item, str | int | float | list | tuple):
            for kind, other in change_value(item, list_distinct([o[key] for o in alike if key in o]), hints):
                yield f"item {kind}", {**value, key: other}


def _change_text(value: str, alike: Sequence[str], constants: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(kind of the change, another text). `alike` are the texts in this place, `constants` those in the source."""
    yield from (("other case", other) for other in (value.upper(), value.lower(), value.title()) if other != value)
    yield from _change_parts(value, alike)
    yield from (("compared text", constant) for constant in constants)
    for constant in constants:
        if _MARKS.search(constant) and len(constant) > 1:
            yield from (("joined text", other) for other in (value + constant, constant + value))
    for character in _list_characters(constants):
        middle = len(value) // 2
        for other in (value[:middle] + character + value[middle:], character + value, value + character):
            yield f"{character!r} character", other


def _change_parts(value: str, alike: Sequence[str]) -> Iterator[tuple[str, str]]:
    parts = _PARTS.findall(value)
    if not 1 < len(parts) <= _MAX_PARTS:
        return
    by_kind = _group_parts(tuple(alike))
    for number, part in enumerate(parts):
        others = [other for other in by_kind.get(_classify_part(part), ())[:3] if other != part][:2]
        for other in [*others, *(digit for digit in "01" if part.isdigit() and len(part) == 1)]:
            yield f"part {_classify_part(part)[0]}", "".join([*parts[:number], other, *parts[number + 1 :]])
        same = (other for other in parts if other != part and _classify_part(other) == _classify_part(part))
        for other in list(dict.fromkeys(same))[:2]:
            yield "same part", "".join([*parts[:number], other, *parts[number + 1 :]])
        if _classify_part(part) == ("mark", False):
            yield "doubled mark", "".join([*parts[:number], part, *parts[number:]])
            if len(part) > 1:
                yield "shorter mark", "".join([*parts[:number], part[:-1], *parts[number + 1 :]])
    yield from (("shorter text", "".join(cut)) for cut in (parts[:1], parts[:2], parts[:-2], parts[2:]))


def _list_characters(constants: Sequence[str]) -> list[str]:
    """The characters of the source's texts, those first that are neither letters nor digits, at most _MAX_CHARACTERS;
    then _COMMON_TRAPS."""
    found = sorted(set("".join(constants)), key=lambda character: (character.isalnum(), character))
    return [*dict.fromkeys([*found[:_MAX_CHARACTERS], *_COMMON_TRAPS])]


@lru_cache(maxsize=64)
def _group_parts(texts: tuple[str, ...]) -> dict[tuple[str, object], list[str]]:
    """The different parts of texts by what may take each other's places, in an order that depends on them alone."""
    found: dict[tuple[str, object], set[str]] = {}
    for text in texts:
        for part in _PARTS.findall(text)[:_MAX_PARTS]:
            found.setdefault(_classify_part(part), set()).add(part)
    return {kind: sorted(parts, key=lambda part: compute_digest(json.dumps(part))) for kind, parts in found.items()}


def _classify_part(part: str) -> tuple[str, object]:
    """What may stand in the same place of a text: words of the same case, numbers of the same length."""
    if part.isdigit():
        return "number", len(part)
    if part[0].isalpha():
        return "word", (part.islower(), part.isupper(), part.istitle())
    return "mark", part.isspace()


def _change_bytes(value: bytes) -> Iterator[tuple[str, bytes]]:
    """Other ends, a letter that is not in ASCII, and the last byte twice."""
    middle = len(value) // 2
    yield "bytes", value[:middle] + "\xe9".encode() + value[middle:]
    ends = (value + b"\n", b" " + value, value + b"\0", b"\xff" + value, value + value[-1:])
    yield from (("bytes", other) for other in ends)


def _change_number(value: int | float, alike: Sequence[int | float], hints: Hints) -> Iterator[tuple[str, Any]]:
    compared = hints.numbers
    negative = any(other < 0 for other in alike)
    for kind, nears in (("number", (0, value)), ("compared number", compared)):
        for other in (number + change for number in nears for change in (-1, 0, 1)):
            if other >= 0 or negative or other in compared:
                yield kind, type(value)(other)
    yield ("sign" if negative else "other sign"), -value
    if type(value) is int and abs(value) <= _SMALL:
        yield from (("small number", other) for other in range(-_SMALL if negative else 0, _SMALL + 1))
        ends = (end for length in hints.lengths for end in (length, length - 1, -length, -length - 1))
        yield from (("length number", end) for end in ends if end >= 0 or negative)


def _change_sequence(value: Any, alike: Sequence[Any], hints: Hints) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, list | tuple):
        return
    kind = type(value)
    yield "reversed", value[::-1]
    yield from (("none item", kind((other, *value[1:]))) for other in (None, 0) if value[0] not in (None, 0))
    if kind is list or len({len(other) for other in alike}) > 1:  # a tuple of one length is a record
        yield "shorter", value[:-1]
        yield "shorter", value[1:]
        yield "twice", kind((*value, value[0]))
        for other in alike[:_MAX_REPLACEMENTS]:
            yield "longer", kind((*value, *other))
    for number, item in enumerate(value[:_MAX_REPLACEMENTS]):
        if isinstance(item, str | int | float | bool):
            pool = [part for other in alike for part in other]
            for name, changed in change_value(item, pool, hints):
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
    if (changed_tree := _put_none(value.tree)) is not None:
        yield "none item", OpaqueObject(changed_tree)
    own = {_CONTENT: content, **dict(attributes)}
    for changed, tree in dict(attributes).items():
        apart = [state[changed] for state in states if state.keys() == own.keys() and state[changed] != tree]
        if not _varies_alone(changed, states):
            continue
        trees = [each.tree for each in list_distinct(list(map(OpaqueObject, apart)))][:_MAX_REPLACEMENTS]
        if type(tree) is int:
            trees += [0, tree + 1, *([-tree] if any(_is_negative(state.get(changed)) for state in states) else [])]
        for other in trees:
            state = [[key, other if key == changed else part] for key, part in attributes]
            yield f"{changed} attribute", OpaqueObject({"object": [name, content, state]})


def _put_none(tree: Any) -> Any:
    """An object whose values are None, where its class derives from dict, or those of an object in its first such
    attribute; None where there is none."""
    match tree:
        case {"object": [name, [first, [{"tuple": [_, part]}, *_] as items], attributes]} if part is not None:
            emptied = [{"tuple": [item["tuple"][0], None]} for item in items]
            return {"object": [name, [first, emptied], attributes]}
        case {"number": [number, inner]}:
            return None if (changed := _put_none(inner)) is None else {"number": [number, changed]}
        case {"object": [name, content, [*attributes]]}:
            for place, (key, part) in enumerate(attributes):
                if (changed := _put_none(part)) is not None:
                    return {"object": [name, content, [*attributes[:place], [key, changed], *attributes[place + 1 :]]]}
    return None


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


def list_distinct(found: Sequence[Any]) -> list[Any]:
    """The values without repetitions, in an order that depends on them alone and not on their size."""
    by_digest = {compute_digest(text): each for each in found if (text := try_serialize(each)) is not None}
    return [by_digest[digest] for digest in sorted(by_digest)]


def try_serialize(value: Any) -> str | None:
    """The text of a value; None for one that cannot be written."""
    try:
        return values.serialize(value)
    except values.UnwritableError:
        return None
