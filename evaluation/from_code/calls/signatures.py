"""What a signature says of calls: type hints, on which a right answer may rely, and defaults that name a number of the
module, such as `LIMIT = 2**16`."""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable, Sequence
from typing import Any

from evaluation.from_code.calls.cases import Case
from evaluation.from_code.recording import values
from evaluation.from_code.source.find import ProjectFunction
from evaluation.source import FunctionNode, list_arguments, list_positional_arguments

_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,), "float": (float, int), "complex": (complex, float, int), "str": (str,), "bytes": (bytes,),
    "bool": (bool,), "None": (type(None),), "list": (list,), "List": (list,), "dict": (dict,), "Dict": (dict,),
    "tuple": (tuple,), "Tuple": (tuple,), "set": (set,), "Set": (set,), "frozenset": (frozenset,),
}  # fmt: skip
_ANY = (object,)
_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}  # fmt: skip
_MAX_OPERAND = 4096
"""A higher power would take long to compute."""


def keep_typed_cases(function: ProjectFunction, cases: Sequence[Case], least: int) -> list[Case]:
    """The cases whose plain arguments have the types that the signature says; all of them where fewer than `least` do.

    Tests call `ordinal(number: int)` with texts too, to see that it copes: an answer that relies on the hint is right.
    """
    hints = {argument.arg: list_allowed_types(argument.annotation) for argument in list_arguments(function.node.args)}
    names = [argument.arg for argument in list_positional_arguments(function.node.args)]
    fitting = [case for case in cases if _has_hinted_types(case.call, names, hints)]
    return fitting if len(fitting) >= least else list(cases)


def list_allowed_types(annotation: ast.expr | None) -> tuple[type, ...]:
    """The builtin types that a type hint allows; (object,) where it names others."""
    match annotation:
        case ast.Constant(value=None):
            return _TYPES["None"]
        case ast.Constant(value=str(text)):
            try:
                return list_allowed_types(ast.parse(text, mode="eval").body)
            except SyntaxError:
                return _ANY
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _TYPES.get(name, _ANY)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return list_allowed_types(left) + list_allowed_types(right)
        case ast.Subscript(value=ast.Name(id="Optional") | ast.Attribute(attr="Optional"), slice=inner):
            return list_allowed_types(inner) + _TYPES["None"]
        case ast.Subscript(value=ast.Name(id="Union") | ast.Attribute(attr="Union"), slice=ast.Tuple(elts=parts)):
            return tuple(kind for part in parts for kind in list_allowed_types(part))
        case ast.Subscript(value=inner):
            return list_allowed_types(inner)
    return _ANY


def _has_hinted_types(call: str, names: Sequence[str], hints: dict[str, tuple[type, ...]]) -> bool:
    args, kwargs = values.read_plain(call)
    given: list[tuple[str, Any]] = [*zip(names, args, strict=False), *kwargs.items()]
    return all(isinstance(value, (values.OpaqueObject, *hints.get(name, _ANY))) for name, value in given)


def resolve_defaults(node: FunctionNode, module: ast.Module) -> FunctionNode:
    """The function with the numbers in place of their names, so that calls near to a default can be made."""
    named: dict[str, int] = {}
    for each in module.body:
        match each:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if (number := _compute(value)) is not None:
                named[name] = number

    def resolve(default: Any) -> Any:
        if isinstance(default, ast.Name) and default.id in named:
            return ast.copy_location(ast.Constant(named[default.id]), default)
        return default

    resolved = copy.copy(node)
    resolved.args = copy.copy(node.args)
    resolved.args.defaults = list(map(resolve, node.args.defaults))
    resolved.args.kw_defaults = list(map(resolve, node.args.kw_defaults))
    return resolved


def _compute(value: ast.expr) -> int | None:
    """A whole number that is written with operators; None for anything else."""
    match value:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return number
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            one, two = _compute(left), _compute(right)
            if one is None or two is None or not (0 <= two <= _MAX_OPERAND and abs(one) <= _MAX_OPERAND):
                return None
            return _OPERATIONS[type(op)](one, two)
    return None
