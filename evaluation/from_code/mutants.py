"""Mutants: copies of a function with one small fault each, to measure how many faults its test notices.

The operators are the usual ones (Offutt et al. 1996, mutmut, cosmic-ray): other operators of
arithmetic and comparison, other constants, negated conditions, left out statements. Messages of exceptions and
docstrings stay as they are, because a test compares neither.
"""

from __future__ import annotations

import ast
import builtins
import copy
import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from evaluation.from_code.oversights import find_defaulted, find_preceding, list_oversights, take_empty_for_none
from evaluation.source import compile_error

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
Definition = ast.FunctionDef | ast.AsyncFunctionDef
_TWINS = {
    "strip": ("lstrip", "rstrip"), "lstrip": ("strip",), "rstrip": ("strip",), "find": ("rfind",), "rfind": ("find",),
    "index": ("rindex",), "rindex": ("index",), "partition": ("rpartition",), "rpartition": ("partition",),
    "match": ("search", "fullmatch"), "fullmatch": ("match",), "search": ("match",), "isdigit": ("isalnum",),
    "startswith": ("__contains__",), "endswith": ("__contains__",),
    "capitalize": ("title",), "title": ("capitalize",), "append": ("extend",), "extend": ("append",),
}  # fmt: skip
"""Methods that are taken for others: on one side only, from the other end, somewhere else in the text."""
_SPLITS = {"split": "rsplit", "rsplit": "split"}
"""The same with a limit of parts; without one they do the same."""
_IDENTITY = (ast.Is, ast.IsNot)
"""What is compared with these stays: the identity of a number or text says nothing."""


@dataclass(frozen=True)
class Mutant:
    """The source of a function with one fault. `operator` names the kind of fault, `line` counts in the original."""

    source: str
    operator: str
    line: int


def mutants(
    function: Definition,
    limit: int,
    owner: ast.ClassDef | None = None,
    fixed: Mapping[str, Any] = MappingProxyType({}),
    has_none: bool = False,
    optional: Collection[str] = (),
) -> list[Mutant]:
    """At most `limit` mutants of a function that all differ, taken from each operator in turn; `owner` is its class,
    `fixed` are parameters and attributes that have one value in all cases, `has_none` says whether the function returns
    None beside values that can be empty, and `optional` are parameters that are None in some cases.

    The choice depends on the source alone.
    """
    original = ast.unparse(function)
    found: dict[str, Mutant] = {}
    defaults = _find_defaults(function, owner) | {name: ast.Constant(value) for name, value in fixed.items()}
    names = _Names(
        _local_names(function), list_parameters(function), defaults, has_none,
        find_defaulted(function), find_preceding(function), {*optional, *_find_optional(function)},
        _list_attributes(function),
    )  # fmt: skip
    sites = list(_sites(function, names))
    for index, (operator, line, variants) in enumerate(sites):
        for variant in range(variants):
            changed = copy.deepcopy(function)
            _Mutator(index, variant, names).apply(changed)
            source = ast.unparse(ast.fix_missing_locations(changed))
            if source != original and source not in found and compile_error(source) is None:
                found[source] = Mutant(source, operator, line)
    queues: dict[str, list[Mutant]] = {}
    for mutant in sorted(found.values(), key=lambda m: hashlib.sha256(m.source.encode("utf-8", "replace")).digest()):
        queues.setdefault(mutant.operator, []).append(mutant)
    chosen: list[Mutant] = []
    while len(chosen) < limit and any(queues.values()):
        for operator in sorted(queues):
            if queues[operator] and len(chosen) < limit:
                chosen.append(queues[operator].pop(0))
    return sorted(chosen, key=lambda mutant: (mutant.line, mutant.operator, mutant.source))


@dataclass(frozen=True)
class _Names:
    """The parameters and variables of a function; the usual values of parameters, and of attributes by `self.NAME`;
    whether it returns None beside values that can be empty; and the places of values that are stored as they are given
    and of conditions that follow others; the parameters that can be None, and the attributes of `self`."""

    local: list[str]
    parameters: list[str]
    defaults: Mapping[str, ast.expr]
    has_none: bool
    defaulted: Mapping[tuple[int, int], ast.expr]
    preceding: Mapping[tuple[int, int], ast.expr]
    optional: Collection[str]
    attributes: list[str]


def _find_defaults(function: Definition, owner: ast.ClassDef | None) -> dict[str, ast.expr]:
    """What stands for a parameter, or for an attribute which a constructor gives the same name."""
    found = _read_defaults(function.args)
    for each in owner.body if owner else ():
        if isinstance(each, ast.FunctionDef) and each.name == "__init__" and each is not function:
            found |= {f"self.{name}": value for name, value in _read_defaults(each.args).items()}
    return found


def _read_defaults(arguments: ast.arguments) -> dict[str, ast.expr]:
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(reversed(positional), reversed(arguments.defaults), strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return {
        argument.arg: value for argument, value in pairs if isinstance(value, ast.Constant | ast.Name | ast.Attribute)
    }


def _list_attributes(function: Definition) -> list[str]:
    """The attributes of `self` that a function uses and does not call, in the order of their names."""
    nodes = list(ast.walk(function))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    own = (n for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "self")
    return sorted({node.attr for node in own if id(node) not in called})


def _find_optional(function: Definition) -> set[str]:
    """The parameters whose default is None."""
    defaults = _read_defaults(function.args).items()
    return {name for name, value in defaults if isinstance(value, ast.Constant) and value.value is None}


def list_parameters(function: Definition) -> list[str]:
    """The names of the parameters, in the order of the signature, without `*` and `**`."""
    return [each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]


def _local_names(function: Definition) -> list[str]:
    """Parameters and variables, in the order of their names."""
    stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return sorted({*list_parameters(function), *stored})


def _sites(function: Definition, names: _Names) -> Iterator[tuple[str, int, int]]:
    """(operator, line, number of variants) of each place that a fault can be put in, in a fixed order."""
    for node, _parent, _field in _nodes(function):
        for operator, variants in _all_faults(node, names):
            yield operator, node.lineno, len(variants)


def _nodes(function: Definition) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST, tuple[str, int | None]]]:
    """The statements and expressions of the body with their parents and their places in these; annotations, docstring
    and raised expressions left out."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    todo: list[tuple[ast.AST, ast.AST, tuple[str, int | None]]] = [
        (node, function, ("body", function.body.index(node))) for node in body
    ]
    while todo:
        node, parent, place = todo.pop(0)
        if isinstance(node, ast.expr | ast.stmt):
            yield node, parent, place
        for name, value in ast.iter_fields(node):
            skipped = name in ("annotation", "returns", "decorator_list") or isinstance(node, ast.Raise | ast.Assert)
            identity = isinstance(node, ast.Compare) and isinstance(node.ops[0], _IDENTITY) and name == "comparators"
            if skipped or identity or name == "format_spec":
                continue
            if isinstance(value, ast.AST):
                todo.append((value, node, (name, None)))
            elif isinstance(value, list):
                todo.extend((each, node, (name, i)) for i, each in enumerate(value) if isinstance(each, ast.AST))


def _all_faults(node: ast.expr | ast.stmt, names: _Names) -> list[tuple[str, list[ast.AST]]]:
    """(operator, replacements of the node) that apply to a node, with the oversights."""
    found = [*_faults(node, names), *list_oversights(node)]
    place = node.lineno, node.col_offset
    match node:
        case ast.Name() if place in names.defaulted:
            found.append(("truth", [ast.BoolOp(ast.Or(), [node, names.defaulted[place]])]))
        case ast.If(test=test) if place in names.preceding:
            alone = ast.BoolOp(ast.And(), [ast.UnaryOp(ast.Not(), names.preceding[place]), test])
            found.append(("branch", [ast.If(alone, node.body, node.orelse)]))
        case ast.Call():
            found.append(("truth", list(take_empty_for_none(node, names.optional))))
    return found


def _faults(node: ast.expr | ast.stmt, names: _Names) -> list[tuple[str, list[ast.AST]]]:
    """(operator, replacements of the node) that apply to a node."""
    match node:
        case ast.BinOp(op=op) if type(op) in _ARITHMETIC:
            return [("arithmetic", [ast.BinOp(node.left, _ARITHMETIC[type(op)](), node.right)])]
        case ast.AugAssign(op=op) if type(op) in _ARITHMETIC:
            return [("arithmetic", [ast.AugAssign(node.target, _ARITHMETIC[type(op)](), node.value)])]
        case ast.Compare(ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]):
            is_none = isinstance(op, ast.Is)
            opposite = ast.Compare(node.left, [ast.IsNot() if is_none else ast.Is()], node.comparators)
            truth = ast.UnaryOp(ast.Not(), node.left)
            return [("comparison", [opposite]), ("truth", [truth if is_none else ast.UnaryOp(ast.Not(), truth)])]
        case ast.Compare(ops=[op, *rest]):
            others = [ast.Compare(node.left, [kind(), *rest], node.comparators) for kind in _COMPARISON[type(op)]]
            if rest:
                others.append(ast.Compare(node.left, node.ops[:-1], node.comparators[:-1]))
            elif isinstance(op, ast.In | ast.NotIn) and _is_text(node.comparators[0]):
                text: str = node.comparators[0].value  # type: ignore[attr-defined]
                others += [ast.Compare(node.left, [op], [ast.Constant(part)]) for part in (text[1:], text[:-1])]
            return [("comparison", list(others))]
        case ast.BoolOp(op=op, values=parts):
            other = ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), parts)
            return [("and or", [other, parts[0]])]
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            return [("unary", [operand])]
        case ast.Constant(value=value):
            return [("constant", list(_other_constants(value)))]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return [("condition", [ast.IfExp(ast.UnaryOp(ast.Not(), test), body, orelse)])]
        case ast.If(test=test):
            otherwise = ast.If(ast.UnaryOp(ast.Not(), test), node.body, node.orelse)
            return [("condition", [otherwise]), ("truth", list(_with_none(node)))]
        case ast.While(test=test):
            return [("condition", [ast.While(ast.UnaryOp(ast.Not(), test), node.body, node.orelse)])]
        case ast.Name(id=name, ctx=ast.Load()) if name in names.local:
            neighbour = names.local[names.local.index(name) - 1]
            return [("variable", [ast.Name(neighbour, ast.Load())]), *_take_for_granted(name, names)]
        case ast.Attribute(value=ast.Name(id="self") as value, attr=name, ctx=ast.Load()):
            return [("variable", list(_other_attribute(value, name, names))), *_take_for_granted(f"self.{name}", names)]
        case ast.List(elts=[_, *_] as parts, ctx=ast.Load()) | ast.Tuple(elts=[_, *_] as parts, ctx=ast.Load()):
            shorter = (parts[:-1], parts[1:]) if len(parts) > 1 else (parts[:-1],)
            return [("element", [type(node)(each, ast.Load()) for each in shorter])]
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
                [ast.Return(ast.BoolOp(ast.Or(), [value, ast.Constant(None)]))] if names.has_none else []
            )
            return [] if nothing else [("result", list(_other_results(value))), ("truth", absent)]
        case ast.Break():
            return [("jump", [ast.Continue()])]
        case ast.Continue():
            return [("jump", [ast.Break()])]
        case ast.Subscript(slice=ast.Slice(lower=None, upper=None, step=None), ctx=ast.Load()):
            return [("slice", [node.value])]
        case ast.Subscript(slice=ast.Slice() as cut, ctx=ast.Load()):
            return [("slice", [ast.Subscript(node.value, other, node.ctx) for other in _other_slices(cut)])]
        case ast.Subscript(slice=ast.Name(id=key), ctx=ast.Load()) if key in names.parameters:
            return [("lookup", [ast.Call(ast.Attribute(node.value, "get", ast.Load()), [node.slice], [])])]
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Name(id=key)]) if key in names.parameters:
            return [("lookup", [ast.Call(node.func, [*node.args, ast.Constant(None)], [])])]
        case ast.Call(args=args, keywords=keywords):
            return [("argument", list(_other_calls(node, args, keywords))), ("effect", list(_without_effect(node)))]
        case ast.Raise():
            return [("exception", [ast.Pass(), *_other_exceptions(node)])]
        case ast.Expr(value=value) if not isinstance(value, ast.Constant):
            return [("statement", [ast.Pass()])]
        case ast.Delete():
            return [("statement", [ast.Pass()])]
        case ast.Assign(targets=[ast.Name() | ast.Subscript() | ast.Attribute()], value=value):
            nothing = isinstance(value, ast.Constant) and value.value is None
            return [] if nothing else [("statement", [ast.Assign(node.targets, ast.Constant(None))])]
    return []


def _with_none(node: ast.If) -> Iterator[ast.stmt]:
    """The condition with what is empty taken for something, as `is not None` does."""
    match node.test:
        case ast.Name() | ast.Attribute() as value:
            test: ast.expr = ast.Compare(value, [ast.IsNot()], [ast.Constant(None)])
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name() | ast.Attribute() as value):
            test = ast.Compare(value, [ast.Is()], [ast.Constant(None)])
        case _:
            return
    yield ast.If(test, node.body, node.orelse)


def _other_attribute(value: ast.expr, name: str, names: _Names) -> Iterator[ast.expr]:
    """The attribute of `self` before this one."""
    if name in names.attributes:
        yield ast.Attribute(value, names.attributes[names.attributes.index(name) - 1], ast.Load())


def _take_for_granted(name: str, names: _Names) -> list[tuple[str, list[ast.AST]]]:
    """The usual value in place of a parameter or attribute."""
    return [("default", [names.defaults[name]])] if name in names.defaults else []


def _without_effect(node: ast.Call) -> Iterator[ast.expr]:
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


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 1


def _other_results(value: ast.expr) -> Iterator[ast.stmt]:
    yield ast.Return(ast.Constant(None))
    if any(isinstance(each, ast.Call) for each in ast.walk(value)):  # what it does for its effect is still done
        both = ast.Tuple([value, ast.Constant(None)], ast.Load())
        yield ast.Return(ast.Subscript(both, ast.Constant(1), ast.Load()))


def _other_constants(value: object) -> Iterator[ast.expr]:
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


def _other_slices(cut: ast.Slice) -> Iterator[ast.Slice]:
    if cut.lower is not None:
        yield ast.Slice(None, cut.upper, cut.step)
    if cut.upper is not None:
        yield ast.Slice(cut.lower, None, cut.step)
    if cut.step is not None:
        yield ast.Slice(cut.lower, cut.upper, None)


def _other_calls(node: ast.Call, args: list[ast.expr], keywords: list[ast.keyword]) -> Iterator[ast.expr]:
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


def _other_exceptions(node: ast.Raise) -> Iterator[ast.stmt]:
    """Another class of exception, which no caller who expects the first one catches."""
    match node.exc:
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)) if isinstance(getattr(builtins, name, None), type):
            other = "ArithmeticError" if name not in ("ArithmeticError", "Exception", "BaseException") else "SystemExit"
            yield ast.Raise(ast.Name(other, ast.Load()), None)


class _Mutator:
    """Puts one variant of one fault into a function, at the site with this number."""

    def __init__(self, site: int, variant: int, names: _Names) -> None:
        self._names = names
        self._site = site
        self._variant = variant

    def apply(self, function: Definition) -> None:
        number = 0
        for node, parent, (name, index) in list(_nodes(function)):
            for _operator, variants in _all_faults(node, self._names):
                if number == self._site:
                    replacement = ast.copy_location(variants[self._variant], node)
                    if index is None:
                        setattr(parent, name, replacement)
                    else:
                        getattr(parent, name)[index] = replacement
                    return
                number += 1
