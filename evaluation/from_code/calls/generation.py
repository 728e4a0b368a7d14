"""Draws inputs with hypothesis, in a process of its own.

Hypothesis mixes constants of the modules that are loaded into the values it draws. In a process that has loaded
hypothesis alone, the inputs depend on the request and on hypothesis' version, and on nothing else.
"""

from __future__ import annotations

import itertools
import json
import string
import sys
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

ALPHABET = string.ascii_letters + string.digits + " _-.,:;/()'\"\n" + "äöüßéñøλЖ中"
_SMALL = 6


def main(values: Any) -> None:
    """For each request (a line of JSON) write a line: the texts of at most `count` calls, without those given."""
    for line in sys.stdin:
        request = json.loads(line)
        try:
            calls = draw_calls(request, values)
        except Exception as error:
            sys.stderr.write(f"{request['key']}: {type(error).__name__}: {error}\n")
            calls = []
        sys.stdout.write(json.dumps(calls) + "\n")
        sys.stdout.flush()


def draw_calls(request: dict[str, Any], values: Any) -> list[str]:
    """New calls for one function: recorded calls with some of their arguments exchanged for others, recorded or drawn
    from the type hints."""
    bases = [values.read_plain(text) for text in request["calls"]]
    pools = _pools(bases, request["parameters"])
    pools = {slot: [value for value in pool if not is_fixed(value, values)] for slot, pool in pools.items()}
    drawers = {slot: _drawer(pool, request["hints"].get(_name(slot, request))) for slot, pool in pools.items() if pool}
    names: list[str] = request["parameters"]
    found = dict.fromkeys(itertools.islice(near_calls(request, values), request["count"] // 2))

    @seed(request["seed"])
    @settings(
        max_examples=request["count"], derandomize=False, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.data())
    def collect(data: st.DataObject) -> None:
        args, kwargs = values.read_plain(data.draw(st.sampled_from(request["calls"])))
        args = list(args)
        for slot in [*range(len(args)), *kwargs]:
            if is_fixed(args[slot] if isinstance(slot, int) else kwargs[slot], values):
                continue
            if data.draw(st.integers(0, 3)) > 0:
                value = data.draw(drawers[slot])
                if isinstance(slot, int):
                    args[slot] = value
                else:
                    kwargs[slot] = value
        for name, hint in request["optional"].items():
            position = names.index(name) if name in names else len(args)
            if position >= len(args) and name not in kwargs and data.draw(st.integers(0, 2)) == 0:
                kwargs[name] = data.draw(from_hint(hint))
        text = _written(args, kwargs, values)
        if text is not None:
            found.setdefault(text)

    if drawers or request["optional"]:
        collect()
    known = set(request["calls"])
    return list(itertools.islice((text for text in found if text not in known), request["count"]))


def is_fixed(value: Any, values: Any) -> bool:
    """Whether a value holds an object, which stays as it was recorded."""
    if isinstance(value, values.Opaque):
        return True
    if isinstance(value, dict):
        return any(is_fixed(part, values) for item in value.items() for part in item)
    return isinstance(value, (list, tuple, set, frozenset)) and any(is_fixed(part, values) for part in value)


def _written(args: Any, kwargs: Any, values: Any) -> str | None:
    """The text of a call, None where it cannot be written, or where one drawn object is in two places."""
    try:
        text: str = values.write((tuple(args), kwargs))
    except values.NotPlainError:
        return None
    return text if values.is_plain(text) or is_fixed((args, kwargs), values) else None


def near_calls(request: dict[str, Any], values: Any) -> Iterator[str]:
    """Recorded calls with one argument changed a little, or exchanged for a literal of the function: the first change
    of every argument of every call, then the second ones."""
    changes = []
    for call in request["calls"]:
        args, kwargs = values.read_plain(call)
        for slot in [*range(len(args)), *kwargs]:
            value = args[slot] if isinstance(slot, int) else kwargs[slot]
            if not is_fixed(value, values):
                changes.append((args, kwargs, slot, list(_near(value, request["literals"]))))
    for turn in range(max((len(each[3]) for each in changes), default=0)):
        for args, kwargs, slot, others in changes:
            if turn < len(others):
                changed = list(args)
                named = dict(kwargs)
                if isinstance(slot, int):
                    changed[slot] = others[turn]
                else:
                    named[slot] = others[turn]
                text = _written(changed, named, values)
                if text is not None and text not in request["calls"]:
                    yield text


def _near(value: Any, literals: list[Any]) -> Iterator[Any]:
    """Other values like this one, and the literals of its type."""
    kind = type(value)
    if kind is bool:
        yield not value
    elif kind is int:
        yield from (value + 1, -value, 0, value - 1, 2 * value)
    elif kind is float:
        yield from (-value, value / 2, value + 1)
    elif kind in (str, bytes):
        yield from (value[:-1], value + value, value[1:], value.swapcase(), value[: len(value) // 2], value[:0])
    elif kind in (list, tuple):
        yield from (value[:-1], value[::-1], value[1:], value[:0])
    elif kind is dict and value:
        yield dict(list(value.items())[1:])
        yield {}
    if kind in (int, str):
        yield from (each for each in literals if type(each) is kind)


def _name(slot: int | str, request: dict[str, Any]) -> str:
    names = request["parameters"]
    return slot if isinstance(slot, str) else names[slot] if slot < len(names) else ""


def _pools(bases: list[Any], names: list[str]) -> dict[int | str, list[Any]]:
    """The values that each argument had, by position or keyword; a keyword's value counts for its position as well."""
    pools: dict[int | str, list[Any]] = {}
    for args, kwargs in bases:
        for slot, value in [*enumerate(args), *kwargs.items()]:
            pools.setdefault(slot, []).append(value)
    for index, name in enumerate(names):
        if index in pools and name in pools:
            pools[index], pools[name] = pools[index] + pools[name], pools[name] + pools[index]
    return pools


def _drawer(pool: list[Any], hint: Any) -> st.SearchStrategy[Any]:
    parts: list[st.SearchStrategy[Any]] = [st.sampled_from(pool)]
    if hint is not None:
        parts.append(from_hint(hint))
    parts.extend(_alike(pool))
    return st.one_of(parts)


def from_hint(hint: Any) -> st.SearchStrategy[Any]:
    """The strategy of a hint in the form that `inputs.hint_of` gives it: [name, part, ...]."""
    name, *parts = hint
    if name == "literal":
        return st.sampled_from(parts)
    inner = [from_hint(part) for part in parts]
    makers: dict[str, Callable[[], st.SearchStrategy[Any]]] = {
        "none": st.none,
        "bool": st.booleans,
        "int": lambda: st.one_of(st.integers(-10, 30), st.integers(-1000, 100_000)),
        "float": lambda: st.one_of(
            st.integers(-20, 200).map(lambda n: n / 4), st.floats(-1e6, 1e6, allow_nan=False, width=32)
        ),
        "str": _texts,
        "bytes": lambda: st.binary(max_size=_SMALL),
        "list": lambda: st.lists(inner[0], max_size=_SMALL),
        "set": lambda: st.sets(inner[0], max_size=_SMALL),
        "frozenset": lambda: st.frozensets(inner[0], max_size=_SMALL),
        "tuple": lambda: st.tuples(*inner),
        "tuples": lambda: st.lists(inner[0], max_size=_SMALL).map(tuple),
        "dict": lambda: st.dictionaries(inner[0], inner[1], max_size=_SMALL),
        "union": lambda: st.one_of(inner),
    }
    return makers[name]()


def _texts() -> st.SearchStrategy[str]:
    words = st.lists(st.text(string.ascii_letters + string.digits, min_size=1, max_size=7), max_size=4)
    return st.one_of(words.map(" ".join), words.map("_".join), st.text(ALPHABET, max_size=12))


def _alike(pool: list[Any]) -> list[st.SearchStrategy[Any]]:
    """Values of the types that an argument had: near numbers, texts of the same characters, other collections of the
    same items."""
    found: list[st.SearchStrategy[Any]] = []
    kinds = {type(value) for value in pool}
    if bool in kinds:
        found.append(st.booleans())
    if int in kinds:
        numbers = sorted({value for value in pool if type(value) is int})
        near = sorted({n + d for n in numbers[:200] for d in (-1, 1)} | {0, 1})
        found.append(st.sampled_from(near))
    if float in kinds:
        found.append(st.sampled_from([value for value in pool if type(value) is float]).map(lambda x: x / 2))
    for kind in (str, bytes):
        given_texts = sorted({value for value in pool if type(value) is kind})
        if given_texts:
            found.append(_texts_like(given_texts, kind))
    for collection in (list, tuple):
        items = [item for value in pool if type(value) is collection for item in value][:200]
        if items:
            lists: st.SearchStrategy[Any] = st.lists(st.sampled_from(items), max_size=_SMALL)
            found.append(lists.map(collection))
    return found


def _texts_like(given_texts: list[Any], kind: Any) -> st.SearchStrategy[Any]:
    """Pieces of recorded texts, joined."""
    pieces = st.tuples(st.sampled_from(given_texts), st.integers(0, 40), st.integers(1, 12)).map(
        lambda drawn: drawn[0][drawn[1] % (len(drawn[0]) + 1) :][: drawn[2]]
    )
    empty = kind()
    return st.lists(pieces, max_size=3).map(empty.join)
