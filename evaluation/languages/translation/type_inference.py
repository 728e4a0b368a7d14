"""Types of a signature, from the values that were recorded and from annotations."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from functools import reduce

from evaluation.languages.types import Type

UNKNOWN = Type("unknown")
"""Of the items of an empty list; never part of a signature."""
_NAMES = {
    **{"int": Type("int"), "float": Type("float"), "str": Type("str"), "bool": Type("bool"), "None": Type("none")},
    **{"list": Type("list", (UNKNOWN,)), "List": Type("list", (UNKNOWN,))},
}
_SEVERAL_TYPES = "values of several types (Union, Any)"
_LENGTHS = "tuples of several lengths"


class UntranslatableError(Exception):
    """The task is left out; the message is the reason in a few words, the same for all tasks that it applies to."""


class MixedError(UntranslatableError):
    """Two values that no one type has."""


def infer_value_type(value: object) -> Type:
    """The type of a value. Raises UntranslatableError for one that no signature can name."""
    if value is None or isinstance(value, bool | int | float | str):
        return _NAMES[type(value).__name__] if value is not None else Type("none")
    if isinstance(value, tuple):
        if not value:
            raise UntranslatableError("an empty tuple")
        return Type("tuple", tuple(map(infer_value_type, value)))
    if isinstance(value, list):
        return Type("list", (find_common_type(map(infer_value_type, value)),))
    if isinstance(value, dict):
        return Type("dict", tuple(find_common_type(map(infer_value_type, side)) for side in (value, value.values())))
    raise UntranslatableError(f"a {type(value).__name__}")


def find_common_type(types: Iterable[Type]) -> Type:
    """The one type that has all of these. Raises MixedError."""
    return reduce(unify, types, UNKNOWN)


def unify(one: Type, other: Type) -> Type:
    """The type that has the values of both. Raises MixedError."""
    if UNKNOWN in (one, other):
        return other if one == UNKNOWN else one
    if one == other:
        return one
    kinds = {one.name, other.name}
    if "none" in kinds or "optional" in kinds:
        inner = [part.item if part.name == "optional" else part for part in (one, other) if part.name != "none"]
        return Type("optional", (find_common_type(inner),))
    if kinds == {"int", "float"}:
        return Type("float")
    if one.name != other.name or not one.parts:
        raise MixedError(_SEVERAL_TYPES)
    if len(one.parts) != len(other.parts):
        raise MixedError(_LENGTHS)
    return Type(one.name, tuple(map(unify, one.parts, other.parts)))


def infer_annotation_type(node: ast.expr | None) -> Type:
    """The type an annotation names, as far as it does. Raises UntranslatableError for mixed unions and open tuples."""
    if isinstance(node, ast.Constant):
        return Type("none") if node.value is None else UNKNOWN
    if isinstance(node, ast.Name):
        return _NAMES.get(node.id, UNKNOWN)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _infer_union([node.left, node.right])
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        return UNKNOWN
    inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    name = node.value.id.lower()
    if name in ("optional", "union"):
        return _infer_union([*inside, *([ast.Constant(None)] if name == "optional" else [])])
    if any(isinstance(part, ast.Constant) and part.value is ... for part in inside):
        raise UntranslatableError("an ellipsis tuple")
    if name not in ("list", "dict", "tuple"):
        return UNKNOWN
    return Type(name, tuple(map(infer_annotation_type, inside)))


def _infer_union(nodes: Sequence[ast.expr]) -> Type:
    return find_common_type([infer_annotation_type(node) for node in nodes])


def merge_annotation(inferred: Type, annotation: Type) -> Type:
    """The type of the recorded values, with the annotation where they leave a part open or it is wider."""
    try:
        found = unify(inferred, annotation)
    except MixedError:
        found = inferred  # the values decide
    return _close_type(found)


def _close_type(kind: Type) -> Type:
    """The type with a simple type for every part that no value shows."""
    if kind == UNKNOWN:
        return Type("int")
    if kind.name == "dict" and kind.parts[0] == UNKNOWN:
        return Type("dict", (Type("str"), _close_type(kind.parts[1])))
    if kind.name == "dict" and kind.parts[0].name not in ("bool", "int", "float", "str"):
        raise UntranslatableError("a dict whose keys are not simple values")
    return Type(kind.name, tuple(map(_close_type, kind.parts)))
