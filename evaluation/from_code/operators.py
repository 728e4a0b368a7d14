"""The operators of mutation: the small faults that a place of a function can have.

They are the usual ones (Offutt et al. 1996, mutmut, cosmic-ray): other operators of arithmetic and comparison, other
constants, negated conditions, left out statements; and the oversights.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from evaluation.from_code.oversights import (
    ORDER,
    SUBCLASS,
    Fault,
    ask_first,
    is_class_of_self,
    list_oversights,
    take_empty_for_none,
    vary_truth,
)
from evaluation.from_code.text_faults import drop_characters
from evaluation.source import get_called_name

_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
}  # fmt: skip
_COMPARISON: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,), ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}  # fmt: skip
_TWINS = {
    "strip": ("lstrip", "rstrip"), "lstrip": ("strip",), "rstrip": ("strip",), "find": ("rfind",), "rfind": ("find",),
    "index": ("rindex",), "rindex": ("index",), "partition": ("rpartition",), "rpartition": ("partition",),
    "match": ("search", "fullmatch"), "fullmatch": ("match",), "search": ("match",), "isdigit": ("isalnum",),
    "isalpha": ("isalnum",), "isalnum": ("isalpha",), "floor": ("ceil",), "ceil": ("floor",), "deepcopy": ("copy",),
    "startswith": ("__contains__",), "endswith": ("__contains__",),
    "capitalize": ("title",), "title": ("capitalize",), "append": ("extend",), "extend": ("append",),
}  # fmt: skip
"""Methods that are easily confused: on one side only, from the other end, elsewhere in the text."""
_FUNCTION_TWINS = {
    "floor": "int",
    "ceil": "int",
    "any": "all",
    "all": "any",
    "min": "max",
    "max": "min",
    "round": "int",
    "int": "round",
}
_SPLITS = {"split": "rsplit", "rsplit": "split"}
"""Twins only where the call limits the number of parts: without a limit both give the same."""


@dataclass(frozen=True)
class MutationContext:
    """The parameters and variables of a function; the usual values of parameters, and of attributes by `self.NAME`;
    whether it returns None beside values that can be empty; and the places of values that are stored as they are given
    and of conditions that follow others or come before them; the parameters that can be None, the attributes of
    `self`, and the name of the class, "" for none."""

    local: list[str]
    parameters: list[str]
    defaults: Mapping[str, ast.expr]
    has_none: bool
    stored_parameters: Mapping[tuple[int, int], ast.expr]
    preceding_tests: Mapping[tuple[int, int], ast.expr]
    conditions_after_guards: Mapping[tuple[int, int], ast.If]
    optional: Collection[str]
    attributes: list[str]
    owner: str


def list_mutations(node: ast.expr | ast.stmt, context: MutationContext) -> list[Fault]:
    """(operator, replacements of the node) that apply to a node, with the oversights."""
    found = [*_list_usual_mutations(node, context), *list_oversights(node)]
    place = node.lineno, node.col_offset
    match node:
        case ast.Name() if place in context.stored_parameters:
            found.append(("truth", [ast.BoolOp(ast.Or(), [node, context.stored_parameters[place]])]))
        case ast.If(test=test) if place in context.preceding_tests:
            alone = ast.BoolOp(ast.And(), [ast.UnaryOp(ast.Not(), context.preceding_tests[place]), test])
            found.append(("branch", [ast.If(alone, node.body, node.orelse)]))
        case ast.If() if place in context.conditions_after_guards:
            found.append((ORDER, [ask_first(context.conditions_after_guards[place], node, [])]))
        case ast.Call():
            found.append(("truth", list(take_empty_for_none(node, context.optional))))
    if context.owner and is_class_of_self(node):
        found.append((SUBCLASS, [ast.Name(context.owner, ast.Load())]))
    return found


def _list_usual_mutations(node: ast.expr | ast.stmt, context: MutationContext) -> list[Fault]:
    """(operator, replacements of the node) that apply to a node."""
    match node:
        case ast.BinOp(op=op) if type(op) in _ARITHMETIC:
            return [("arithmetic", [ast.BinOp(node.left, _ARITHMETIC[type(op)](), node.right)])]
        case ast.AugAssign(op=op) if type(op) in _ARITHMETIC:
            changed = ast.AugAssign(node.target, _ARITHMETIC[type(op)](), node.value)
            return [("arithmetic", [changed, ast.Assign([node.target], node.value)])]
        case ast.Compare(ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]):
            is_none = isinstance(op, ast.Is)
            opposite = ast.Compare(node.left, [ast.IsNot() if is_none else ast.Is()], node.comparators)
            truth = ast.UnaryOp(ast.Not(), node.left)
            return [("comparison", [opposite]), ("truth", [truth if is_none else ast.UnaryOp(ast.Not(), truth)])]
        case ast.Compare(ops=[op, *rest]):
            others: list[ast.AST] = [
                ast.Compare(node.left, [kind(), *rest], node.comparators) for kind in _COMPARISON[type(op)]
            ]
            if rest:
                others.append(ast.Compare(node.left, node.ops[:-1], node.comparators[:-1]))
            elif isinstance(op, ast.In | ast.NotIn) and _is_text(node.comparators[0]):
                text: str = node.comparators[0].value  # type: ignore[attr-defined]
                others += [ast.Compare(node.left, [op], [ast.Constant(part)]) for part in drop_characters(text)]
            if isinstance(op, ast.In | ast.NotIn):
                others.append(ast.Constant(isinstance(op, ast.In)))  # nothing is left out
            return [("comparison", list(others))]
        case ast.BoolOp(op=op, values=parts):
            other = ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), parts)
            return [("and or", [other, parts[0]])]
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            return [("unary", [operand])]
        case ast.Constant(value=value):
            return [("constant", list(_replace_constant(value)))]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return [("condition", [ast.IfExp(ast.UnaryOp(ast.Not(), test), body, orelse)])]
        case ast.If(test=test):
            otherwise = ast.If(ast.UnaryOp(ast.Not(), test), node.body, node.orelse)
            return [
                ("condition", [otherwise]),
                ("truth", [ast.If(other, node.body, node.orelse) for other in vary_truth(test)]),
            ]
        case ast.While(test=test):
            return [("condition", [ast.While(ast.UnaryOp(ast.Not(), test), node.body, node.orelse)])]
        case ast.Name(id=name, ctx=ast.Load()) if name in context.local:
            neighbour = context.local[context.local.index(name) - 1]
            return [("variable", [ast.Name(neighbour, ast.Load())]), *_replace_by_default(name, context)]
        case ast.Attribute(value=ast.Name(id="self") as value, attr=name, ctx=ast.Load()):
            return [
                ("variable", list(_replace_attribute(value, name, context))),
                *_replace_by_default(f"self.{name}", context),
            ]
        case ast.List(elts=[_, *_] as parts, ctx=ast.Load()) | ast.Tuple(elts=[_, *_] as parts, ctx=ast.Load()):
            return [("element", [type(node)(each, ast.Load()) for each in _drop_each(parts)])]
        case ast.Set(elts=[_, _, *_] as parts):
            return [("element", [ast.Set(each) for each in _drop_each(parts)])]
        case (
            ast.ListComp(generators=[ast.comprehension(ifs=[_, *_])])
            | ast.GeneratorExp(generators=[ast.comprehension(ifs=[_, *_])])
            | ast.SetComp(generators=[ast.comprehension(ifs=[_, *_])])
        ):
            each = node.generators[0]
            every = ast.comprehension(each.target, each.iter, each.ifs[1:], each.is_async)
            return [("condition", [type(node)(node.elt, [every])])]
        case ast.For(body=[*_, last]) if not isinstance(last, ast.Return | ast.Raise | ast.Break):
            return [("loop", [ast.For(node.target, node.iter, [*node.body, ast.Break()], node.orelse)])]
        case ast.Return(value=ast.expr() as value):
            nothing = isinstance(value, ast.Constant) and value.value is None
            absent: list[ast.AST] = (
                [ast.Return(ast.BoolOp(ast.Or(), [value, ast.Constant(None)]))] if context.has_none else []
            )
            return [] if nothing else [("result", list(_replace_result(value))), ("truth", absent)]
        case ast.Break():
            return [("jump", [ast.Continue()])]
        case ast.Continue():
            return [("jump", [ast.Break()])]
        case ast.Subscript(slice=ast.Slice(lower=None, upper=None, step=None), ctx=ast.Load()):
            return [("slice", [node.value])]
        case ast.Subscript(slice=ast.Slice() as cut, ctx=ast.Load()):
            return [("slice", [ast.Subscript(node.value, other, node.ctx) for other in _drop_bounds(cut)])]
        case ast.Subscript(slice=ast.Name(id=key), ctx=ast.Load()) if key in context.parameters:
            return [("lookup", [ast.Call(ast.Attribute(node.value, "get", ast.Load()), [node.slice], [])])]
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Name(id=key)]) if key in context.parameters:
            return [("lookup", [ast.Call(node.func, [*node.args, ast.Constant(None)], [])])]
        case ast.Call(args=args, keywords=keywords):
            return [("argument", list(_change_call(node, args, keywords))), ("effect", list(_remove_effect(node)))]
        case ast.Raise():
            return [("exception", [ast.Pass(), *_replace_exception(node)])]
        case ast.Expr(value=value) if not isinstance(value, ast.Constant):
            return [("statement", [ast.Pass()])]
        case ast.Delete():
            return [("statement", [ast.Pass()])]
        case ast.Assign(targets=[ast.Name() | ast.Subscript() | ast.Attribute()], value=value):
            nothing = isinstance(value, ast.Constant) and value.value is None
            return [] if nothing else [("statement", [ast.Assign(node.targets, ast.Constant(None))])]
    return []


def _replace_attribute(value: ast.expr, name: str, context: MutationContext) -> Iterator[ast.expr]:
    """The attribute of `self` before this one."""
    if name in context.attributes:
        yield ast.Attribute(value, context.attributes[context.attributes.index(name) - 1], ast.Load())


def _replace_by_default(name: str, context: MutationContext) -> list[Fault]:
    """The usual value in place of a parameter or attribute."""
    return [("default", [context.defaults[name]])] if name in context.defaults else []


def _remove_effect(node: ast.Call) -> Iterator[ast.expr]:
    """What a call gives, without what it changes: `pop` that removes nothing, `setdefault` that stores nothing; and a
    heap that keeps no order."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="pop" | "setdefault"), args=[_, _] as args, keywords=[]):
            yield ast.Call(ast.Attribute(value, "get", ast.Load()), args, [])
        case ast.Call(func=ast.Attribute(value=value, attr="pop"), args=[key], keywords=[]):
            yield ast.Subscript(value, key, ast.Load())
        case ast.Call(func=ast.Attribute(value=value, attr="pop" | "popleft" as name), args=[], keywords=[]):
            yield ast.Subscript(value, ast.Constant(-1 if name == "pop" else 0), ast.Load())
        case ast.Call(
            func=ast.Name(id="heappush" | "heappop" as name) | ast.Attribute(attr="heappush" | "heappop" as name),
            args=[heap, *items], keywords=[],
        ):  # fmt: skip
            if name == "heappush":
                yield ast.Call(ast.Attribute(heap, "append", ast.Load()), items, [])
            else:
                yield ast.Subscript(heap, ast.Constant(0), ast.Load())


def _drop_each(parts: list[ast.expr]) -> list[list[ast.expr]]:
    return [[*parts[:n], *parts[n + 1 :]] for n in range(len(parts))]


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 1


def _replace_result(value: ast.expr) -> Iterator[ast.stmt]:
    yield ast.Return(ast.Constant(None))
    if any(isinstance(each, ast.Call) for each in ast.walk(value)):  # what it does for its effect is still done
        both = ast.Tuple([value, ast.Constant(None)], ast.Load())
        yield ast.Return(ast.Subscript(both, ast.Constant(1), ast.Load()))


def _replace_constant(value: object) -> Iterator[ast.expr]:
    match value:
        case bool():
            yield ast.Constant(not value)
        case int():
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case float():
            yield ast.Constant(value + 1.0)
        case str():
            yield ast.Constant("" if value else "x")
            if value:
                yield ast.Constant(value + "x")
        case bytes():
            yield ast.Constant(value + b"x")
        case None:
            yield ast.Constant(0)


def _drop_bounds(cut: ast.Slice) -> Iterator[ast.Slice]:
    if cut.lower is not None:
        yield ast.Slice(None, cut.upper, cut.step)
    if cut.upper is not None:
        yield ast.Slice(cut.lower, None, cut.step)
    if cut.step is not None:
        yield ast.Slice(cut.lower, cut.upper, None)


def _change_call(node: ast.Call, args: list[ast.expr], keywords: list[ast.keyword]) -> Iterator[ast.expr]:
    name = get_called_name(node)
    if (twin := _FUNCTION_TWINS.get(name.lstrip("_"))) and (isinstance(node.func, ast.Name) or twin == "int"):
        yield ast.Call(ast.Name(twin, ast.Load()), args, keywords)
    if isinstance(node.func, ast.Attribute):
        if not args and not keywords:
            yield node.func.value
        twins = _TWINS.get(node.func.attr, ())
        if node.func.attr in _SPLITS and len(args) + len(keywords) > 1:
            twins = (_SPLITS[node.func.attr],)
        for other in twins:
            yield ast.Call(ast.Attribute(node.func.value, other, ast.Load()), args, keywords)
    if args and not isinstance(args[0], ast.Starred):
        yield args[0]
    for index, arg in enumerate(args):
        if isinstance(arg, ast.Starred):
            yield ast.Call(node.func, [*args[:index], *args[index + 1 :]], keywords)
        elif not isinstance(arg, ast.Constant):
            yield ast.Call(node.func, [*args[:index], ast.Constant(None), *args[index + 1 :]], keywords)
    if len(args) > 1:
        yield ast.Call(node.func, args[:-1], keywords)
        in_any_order = isinstance(node.func, ast.Name) and node.func.id in ("max", "min")
        if not in_any_order and not any(isinstance(arg, ast.Starred) for arg in args):
            yield ast.Call(node.func, [args[1], args[0], *args[2:]], keywords)
    for index in range(len(keywords)):
        yield ast.Call(node.func, args, keywords[:index] + keywords[index + 1 :])


def _replace_exception(node: ast.Raise) -> Iterator[ast.stmt]:
    """Another class of exception, which no caller who expects the first one catches; there is none for BaseException,
    whose handlers catch every class."""
    match node.exc:
        case ast.Name(id="BaseException") | ast.Call(func=ast.Name(id="BaseException")):
            return
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)) if isinstance(getattr(builtins, name, None), type):
            other = "ArithmeticError" if name not in ("ArithmeticError", "Exception") else "SystemExit"
            yield ast.Raise(ast.Name(other, ast.Load()), None)
