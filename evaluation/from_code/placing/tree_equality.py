"""Compares the trees of values (`recording.values`). Source of tests: it is copied into them, and sees data alone."""

from __future__ import annotations

import decimal
import json
import math
from typing import Any

DECIMAL = "decimal:Decimal"


def agrees(got: Any, expected: Any, call: Any) -> bool:
    """Whether an outcome is the expected one: result and arguments after the call, or the class of an exception,
    and what it says where that is expected.

    An iterator is another result than a list of its items: its caller may read it once, and only as far as it wants.
    """
    if "raised" in expected:
        said = expected.get("message") in (None, got.get("message"))
        return bool(said and expected["raised"] in got.get("raised", ()))
    if ("iterator" in expected) != ("iterator" in got):
        return False
    try:
        if "returned" not in got or not is_same_value(got["returned"], expected["returned"]):
            return False
        if not is_same_value(got.get("after", call), expected.get("after", call)):
            return False
        if not set(got.get("shared", ())) <= set(expected.get("shared", ())):  # who changes one changes the other
            return False
        return match_views(got.get("seen", []), expected.get("seen", []))
    except RecursionError:  # circles that differ
        return False


def match_views(got: Any, expected: Any) -> bool:
    """Whether the views of each object (`placing.views`) are in the other outcome too, and the same there."""
    for place, wanted in enumerate(expected):
        found = dict(got[place]) if place < len(got) else {}
        if not all(name in found and is_same_value(found[name], tree) for name, tree in wanted):
            return False
    return True


def is_same_value(got: Any, expected: Any) -> bool:
    """Whether two trees are the same value to a caller: floats within 1e-9, dicts in any order.

    Attributes whose name begins with `_` belong to the implementation and are left out, and the kinds of dict of
    `collections` are as good as a dict with the same items.
    """
    if got == expected and repr(got) == repr(expected):  # in Python True == 1
        return True
    known: tuple[dict[Any, Any], dict[Any, Any]] = ({}, {})
    note_numbered_objects(got, known[0])
    note_numbered_objects(expected, known[1])
    met: set[Any] = set()

    def is_equal(one: Any, two: Any) -> bool:
        if isinstance(one, dict) and isinstance(two, dict) and "ref" in one and "ref" in two:
            if (one["ref"], two["ref"]) in met:
                return True
            met.add((one["ref"], two["ref"]))
        one, two = as_dict(follow_references(one, known[0])), as_dict(follow_references(two, known[1]))
        if isinstance(one, bool) != isinstance(two, bool):
            return False
        if isinstance(one, list) or isinstance(two, list):
            return isinstance(one, list) and isinstance(two, list) and are_all_equal(one, two)
        first, second = as_number(one), as_number(two)
        if first is not None and second is not None:
            return first == second or (math.isnan(first) and math.isnan(second)) or is_close(first, second)
        if not (isinstance(one, dict) and isinstance(two, dict)):
            return bool(one == two)
        ((tag, body),), ((other_tag, other),) = one.items(), two.items()
        if tag != other_tag and {tag, other_tag} != {"set", "frozenset"}:
            return False
        if tag == "dict":
            return are_pairs_equal(body, other)
        if tag == "object":
            if body[0] == other[0] == DECIMAL:
                return is_same_decimal(body[1], other[1])
            attributes = drop_private(body[2]), drop_private(other[2])
            return body[0] == other[0] and is_content_equal(body[1], other[1]) and are_pairs_equal(*attributes)
        return are_all_equal(body, other) if isinstance(body, list) and isinstance(other, list) else bool(body == other)

    def are_all_equal(one: Any, two: Any) -> bool:
        return len(one) == len(two) and all(is_equal(a, b) for a, b in zip(one, two, strict=True))

    def are_pairs_equal(one: Any, two: Any) -> bool:
        items = {json.dumps(key): value for key, value in one}
        others = {json.dumps(key): value for key, value in two}
        return items.keys() == others.keys() and all(is_equal(items[key], value) for key, value in others.items())

    def is_content_equal(one: Any, two: Any) -> bool:
        both = isinstance(one, list) and isinstance(two, list) and len(one) == 2 and len(two) == 2
        if both and all(is_pairs(part[1]) for part in (one, two)):  # of a kind of dict
            return is_equal(one[0], two[0]) and are_pairs_equal(
                [p["tuple"] for p in one[1]], [p["tuple"] for p in two[1]]
            )
        return is_equal(one, two)

    return is_equal(got, expected)


def is_same_decimal(one: Any, two: Any) -> bool:
    """Whether the texts of two decimals mean the same number; how many zeros it ends with is chance."""
    if one == two:
        return True
    try:
        return bool(decimal.Decimal(one[0]) == decimal.Decimal(two[0]))
    except (TypeError, LookupError, ValueError, ArithmeticError):
        return False


def as_dict(tree: Any) -> Any:
    """A kind of dict of the standard library as a dict, any other tree as it is."""
    if isinstance(tree, dict) and isinstance(tree.get("object"), list):
        name, content, attributes = tree["object"]
        kinds = ("collections:OrderedDict", "collections:defaultdict", "collections:Counter")
        if name in kinds and not attributes and isinstance(content, list) and is_pairs(content[-1]):
            return {"dict": [pair["tuple"] for pair in content[-1]]}
    return tree


def drop_private(attributes: Any) -> Any:
    """The attributes that a caller reads."""
    return [pair for pair in attributes if not pair[0].startswith("_")]


def is_pairs(items: Any) -> bool:
    """Whether these are the items of a dict."""
    return isinstance(items, list) and all(
        isinstance(item, dict) and isinstance(item.get("tuple"), list) and len(item["tuple"]) == 2 for item in items
    )


def note_numbered_objects(tree: Any, known: dict[Any, Any]) -> None:
    """Note the objects that have a number."""
    if isinstance(tree, dict):
        if "number" in tree:
            known[tree["number"][0]] = tree["number"][1]
        for part in tree.values():
            note_numbered_objects(part, known)
    elif isinstance(tree, list):
        for part in tree:
            note_numbered_objects(part, known)


def follow_references(tree: Any, known: dict[Any, Any]) -> Any:
    """The tree itself, for a number or a reference to one."""
    while isinstance(tree, dict) and ("ref" in tree or "number" in tree):
        tree = known[tree["ref"]] if "ref" in tree else tree["number"][1]
    return tree


def as_number(tree: Any) -> Any:
    """The number that a tree stands for, None for another value."""
    if isinstance(tree, (int, float)):
        return tree
    return float(tree["float"]) if isinstance(tree, dict) and isinstance(tree.get("float"), str) else None


def is_close(one: Any, two: Any) -> bool:
    """Whether two numbers of which one is a float are as good as equal."""
    either = isinstance(one, float) or isinstance(two, float)  # integers have no tolerance
    try:
        return either and math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-12)
    except OverflowError:
        return False
