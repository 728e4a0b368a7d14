"""Defaults of parameters that name a number of their module, such as `LIMIT = 2**16`."""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable
from typing import Any

from evaluation.source import FunctionNode

_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}  # fmt: skip
_MAX_OPERAND = 4096
"""A higher power would take long to compute."""


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
