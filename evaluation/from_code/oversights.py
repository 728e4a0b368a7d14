"""Faults of careless readers: a forgotten edge case, a check that is too narrow.

Beside the usual `operators`, which change what stands there, these leave out what a shorter solution would not
have: a branch, a handler, a kind of value, all items but one.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise

from evaluation.from_code.text_faults import drop_characters, loosen_pattern
from evaluation.source import list_positional_arguments

_CONCRETE_BY_ABSTRACT = {
    "Mapping": "dict", "MutableMapping": "dict", "Sequence": "list", "MutableSequence": "list", "Set": "set",
    "MutableSet": "set", "Iterable": "list", "Collection": "list", "Sized": "list", "Iterator": "list",
    "Number": "int", "Real": "float", "Integral": "int", "Hashable": "str",
}  # fmt: skip
"""The concrete class that replaces each abstract one."""
_CONCRETE = {
    "str", "bytes", "bytearray", "int", "float", "bool", "complex", "list", "tuple", "set", "frozenset", "type",
    "object", "range", "slice",
}  # fmt: skip
"""Types of which tests hardly ever make a subclass."""
_TEXTS = {"str", "bytes", "bytearray"}
_NARROWER = {
    "Exception": ("ValueError", "TypeError"), "BaseException": ("ValueError", "TypeError"),
    "LookupError": ("KeyError", "IndexError"), "OSError": ("FileNotFoundError",),
    "ArithmeticError": ("ZeroDivisionError",), "ValueError": ("UnicodeError",),
}  # fmt: skip
_CHANGES_TEXT = {
    "strip", "lstrip", "rstrip", "replace", "removeprefix", "removesuffix", "translate", "expandtabs", "zfill", "ljust",
    "rjust", "center", "encode", "decode", "sub",
}  # fmt: skip
_STRIPS = {"strip", "lstrip", "rstrip"}
_FOR_SPACES = {"split": ("split", " "), "strip": ("strip", " "), "splitlines": ("split", "\n")}
"""Calls without arguments, and what does the same with the usual space or end of line alone."""
_REGEX = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
Fault = tuple[str, list[ast.AST]]
ORDER, SUBCLASS, TEXT_ORDER, MISREADING = "order", "subclass", "text order", "misreading"
UNCLEAR = (ORDER, SUBCLASS, TEXT_ORDER, MISREADING)
"""Conditions in another order often do the same, a class may not be meant to be derived from, texts are sorted as
texts, and a text that is stripped anyway may be stripped before: such a fault counts only where a call tells it
apart."""


def list_oversights(node: ast.expr | ast.stmt) -> list[Fault]:
    """(operator, replacements of the node) of the oversights that apply to a node."""
    return _list_expression_faults(node) if isinstance(node, ast.expr) else _list_statement_faults(node)


def _list_expression_faults(node: ast.expr) -> list[Fault]:
    match node:
        case ast.BoolOp(op=op, values=parts):
            fewer = [_join(op, [*parts[:n], *parts[n + 1 :]]) for n in range(len(parts))]
            return [("and or", [*fewer]), ("truth", list(_take_none_alone(node)))]
        case ast.IfExp(test=test, body=body, orelse=otherwise):
            others = [ast.IfExp(other, body, otherwise) for other in vary_truth(test)]
            return [("branch", [body, otherwise, *others])]
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            return [("items", list(_drop_comprehension_items(node)))]
        case ast.FormattedValue(value=value, format_spec=ast.JoinedStr()):
            return [("format", [ast.FormattedValue(value, node.conversion, None)])]
        case ast.Dict(keys=[_, _, *_] as keys, values=values):
            fewer = [ast.Dict([*keys[:n], *keys[n + 1 :]], [*values[:n], *values[n + 1 :]]) for n in range(len(keys))]
            return [("element", [*fewer])]
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Name() | ast.Attribute()]):
            none = ast.Compare(left, [op], [ast.Constant(None)])
            return [("truth", [ast.BoolOp(ast.Or() if isinstance(op, ast.Is) else ast.And(), [node, none])])]
        case ast.Call():
            return _list_call_faults(node)
        case ast.Subscript(value=value, slice=ast.Slice() as cut, ctx=ast.Load()):
            return [("boundary", [ast.Subscript(value, other, node.ctx) for other in _shift_slice(cut)])]
    return []


def _list_statement_faults(node: ast.stmt) -> list[Fault]:
    match node:
        case ast.If(body=body, orelse=otherwise):
            always = [ast.If(ast.Constant(value), body, otherwise) for value in (False, True)]
            elifs = [each for each in otherwise if isinstance(each, ast.If) and len(otherwise) == 1]
            return [("branch", [*always]), (ORDER, [ask_first(each, node, each.orelse) for each in elifs])]
        case ast.While(test=test, body=body, orelse=otherwise):
            jumps = any(isinstance(each, ast.Break | ast.Continue) for each in ast.walk(node))
            tests = () if jumps else (ast.Constant(False), test)  # never, once
            return [("branch", [ast.If(each, body, otherwise) for each in tests])]
        case ast.For(target=target, iter=items, body=body, orelse=otherwise):
            return [("items", [ast.For(target, each, body, otherwise) for each in _drop_items(items)])]
        case ast.Try():
            return [("handler", list(_drop_handlers(node)))]
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign():
            return [("statement", [ast.Pass()])]
        case ast.Raise(exc=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))) if (
            name[:1].isupper() and name != "ArithmeticError"
        ):
            return [("exception", [ast.Raise(ast.Name("ArithmeticError", ast.Load()), None)])]
    return []


def _list_call_faults(node: ast.Call) -> list[Fault]:
    match node:
        case ast.Call(func=ast.Name(id="isinstance"), args=[value, kinds]):
            return [("type check", list(_narrow_check(node, value, kinds)))]
        case ast.Call(func=ast.Name(id="sorted" | "reversed" | "set" | "frozenset"), args=[items]):
            forgotten = ast.Call(ast.Name("list", ast.Load()), [items], [])
            return [("forgotten call", [forgotten]), (TEXT_ORDER, list(_sort_as_text(node)))]
        case ast.Call(func=ast.Name(id="range"), args=args) if args:
            place = 0 if len(args) == 1 else 1
            return [("boundary", [_replace_argument(node, place, other) for other in _shift_bound(args[place])])]
        case ast.Call(func=ast.Attribute(value=value, attr=name)):
            return [
                ("forgotten call", list(_forget_call(node, value, name))),
                ("characters", list(_lack_characters(node, value, name))),
                (TEXT_ORDER, list(_sort_as_text(node))),
            ]
    return []


def pair_defaults(arguments: ast.arguments) -> list[tuple[str, ast.expr | None]]:
    """The parameters that have a default, and those by keyword alone, with their defaults."""
    positional = list_positional_arguments(arguments)
    pairs = [
        *zip(reversed(positional), reversed(arguments.defaults), strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return [(argument.arg, value) for argument, value in pairs]


def find_stored_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[tuple[int, int], ast.expr]:
    """The places where a parameter is assigned as it is, and its default."""
    usual = {name: value for name, value in pair_defaults(function.args) if isinstance(value, ast.Constant)}
    stored = (each.value for each in ast.walk(function) if isinstance(each, ast.Assign))
    names = [each for each in stored if isinstance(each, ast.Name) and each.id in usual]
    return {(each.lineno, each.col_offset): usual[each.id] for each in names}


def find_conditions_after_guards(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[tuple[int, int], ast.If]:
    """The places of conditions that end what they are in, and the condition after each: a writer may swap them."""
    bodies = (body for each in ast.walk(function) if isinstance(body := getattr(each, "body", None), list))
    return {
        (first.lineno, first.col_offset): second
        for body in bodies for first, second in pairwise(body)
        if isinstance(first, ast.If) and isinstance(second, ast.If) and not first.orelse and _ends(first)
    }  # fmt: skip


def ask_first(second: ast.If, first: ast.If, otherwise: list[ast.stmt]) -> ast.If:
    """Two conditions in the other order."""
    return ast.If(second.test, second.body, [ast.If(first.test, first.body, otherwise)])


def is_class_of_self(node: ast.AST) -> bool:
    """Whether an expression is the class of a method's object, which may be a derived one."""
    match node:
        case ast.Call(func=ast.Name(id="type"), args=[ast.Name(id="self")]):
            return True
        case ast.Attribute(value=ast.Name(id="self"), attr="__class__") | ast.Name(id="cls", ctx=ast.Load()):
            return True
    return False


def _ends(condition: ast.If) -> bool:
    return isinstance(condition.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)


def find_preceding_tests(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[tuple[int, int], ast.expr]:
    """The places of the conditions that follow another one, with that one's test; a writer may join them by `elif`."""
    found: dict[tuple[int, int], ast.expr] = {}
    for parent in ast.walk(function):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(parent, field, None)
            for first, second in pairwise(body if isinstance(body, list) else ()):
                if not (isinstance(first, ast.If) and isinstance(second, ast.If)) or first.orelse:
                    continue
                calls = any(isinstance(each, ast.Call | ast.NamedExpr | ast.Await) for each in ast.walk(first.test))
                if not (_ends(first) or calls):
                    found[second.lineno, second.col_offset] = first.test
    return found


def take_empty_for_none(node: ast.Call, optional: Collection[str]) -> Iterator[ast.expr]:
    """The call with `NAME or None` for each of its arguments that can be None."""
    for place, each in enumerate(node.args):
        if isinstance(each, ast.Name) and each.id in optional:
            yield _replace_argument(node, place, ast.BoolOp(ast.Or(), [each, ast.Constant(None)]))


def _join(op: ast.boolop, parts: Sequence[ast.expr]) -> ast.expr:
    return parts[0] if len(parts) == 1 else ast.BoolOp(op, list(parts))


def _take_none_alone(node: ast.BoolOp) -> Iterator[ast.expr]:
    """`X or Y` as `X if X is not None else Y`."""
    if isinstance(node.op, ast.Or) and len(node.values) == 2 and isinstance(node.values[0], ast.Name | ast.Attribute):
        first, second = node.values
        yield ast.IfExp(ast.Compare(first, [ast.IsNot()], [ast.Constant(None)]), first, second)


def vary_truth(test: ast.expr) -> Iterator[ast.expr]:
    """A test of truth as one of None, for which an empty value is true; a predicate that no empty value passes."""
    match test:
        case ast.Name() | ast.Attribute():
            yield ast.Compare(test, [ast.IsNot()], [ast.Constant(None)])
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name() | ast.Attribute() as value):
            yield ast.Compare(value, [ast.Is()], [ast.Constant(None)])
        case ast.Call() if tested := _get_tested_value(test):
            yield ast.BoolOp(ast.And(), [test, tested])
        case ast.UnaryOp(op=ast.Not(), operand=ast.Call() as call) if tested := _get_tested_value(call):
            yield ast.BoolOp(ast.Or(), [test, ast.UnaryOp(ast.Not(), tested)])


def _get_tested_value(call: ast.Call) -> ast.expr | None:
    """The value that a call such as `is_set(value)` tests."""
    match call:
        case ast.Call(func=ast.Name(id=name), args=[ast.NamedExpr(target=value) | value], keywords=[]):
            is_predicate = name.lstrip("_").startswith(("is_", "has_"))
            if is_predicate and isinstance(value, ast.Name | ast.Attribute):
                return ast.Name(value.id, ast.Load()) if isinstance(value, ast.Name) else value
    return None


def _drop_items(items: ast.expr) -> Iterator[ast.expr]:
    """The first item alone, and all but the first one."""
    islice = ast.Attribute(ast.Call(ast.Name("__import__", ast.Load()), [ast.Constant("itertools")], []), "islice")
    for bounds in ([1], [1, None]):
        yield ast.Call(islice, [items, *map(ast.Constant, bounds)], [])


def _drop_comprehension_items(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Iterator[ast.expr]:
    for number, each in enumerate(node.generators):
        for items in () if each.is_async else _drop_items(each.iter):
            other = ast.comprehension(each.target, items, each.ifs, 0)
            generators = [*node.generators[:number], other, *node.generators[number + 1 :]]
            if isinstance(node, ast.DictComp):
                yield ast.DictComp(node.key, node.value, generators)
            else:
                yield type(node)(node.elt, generators)


def _drop_handlers(node: ast.Try) -> Iterator[ast.stmt]:
    """Without one handler each, or with one that catches less."""
    for number, handler in enumerate(node.handlers):
        before, after = node.handlers[:number], node.handlers[number + 1 :]
        if before or after or node.finalbody:
            orelse = node.orelse if before or after else []
            body = node.body if before or after else [*node.body, *node.orelse]
            yield ast.Try(body, [*before, *after], orelse, node.finalbody)
        else:
            yield ast.If(ast.Constant(True), [*node.body, *node.orelse], [])
        for kind in _narrow_exceptions(handler.type):
            narrow = ast.ExceptHandler(kind, handler.name, handler.body)
            yield ast.Try(node.body, [*before, narrow, *after], node.orelse, node.finalbody)


def _narrow_exceptions(kind: ast.expr | None) -> Iterator[ast.expr]:
    match kind:
        case None:
            names = _NARROWER["Exception"]
        case ast.Name(id=name):
            names = _NARROWER.get(name, ())
        case ast.Tuple(elts=[_, _, _, *_] as parts):  # of two each is left out by another operator
            yield from (ast.Tuple([*parts[:n], *parts[n + 1 :]], ast.Load()) for n in range(len(parts)))
            return
        case _:
            return
    yield from (ast.Name(name, ast.Load()) for name in names)


def _narrow_check(node: ast.Call, value: ast.expr, kinds: ast.expr) -> Iterator[ast.expr]:
    """The check left out, with one type less, with a concrete type for an abstract one, or for the exact type without
    subclasses; a check for texts as `not isinstance(value, (list, tuple))`."""
    yield ast.Constant(True)
    parts = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
    if all(isinstance(each, ast.Name) and each.id in _TEXTS for each in parts):
        sequences = ast.Tuple([ast.Name("list", ast.Load()), ast.Name("tuple", ast.Load())], ast.Load())
        yield ast.UnaryOp(ast.Not(), ast.Call(node.func, [value, sequences], []))
    for number, kind in enumerate(parts):
        rest = [*parts[:number], *parts[number + 1 :]]
        if rest:
            yield ast.Call(node.func, [value, rest[0] if len(rest) == 1 else ast.Tuple(rest, ast.Load())], [])
        name = kind.id if isinstance(kind, ast.Name) else kind.attr if isinstance(kind, ast.Attribute) else ""
        if name in _CONCRETE_BY_ABSTRACT:
            other = ast.Name(_CONCRETE_BY_ABSTRACT[name], ast.Load())
            yield ast.Call(node.func, [value, ast.Tuple([*rest, other], ast.Load())], [])
        elif not rest and name and name not in _CONCRETE:
            yield ast.Compare(ast.Call(ast.Name("type", ast.Load()), [value], []), [ast.Is()], [kind])


def _sort_as_text(node: ast.Call) -> Iterator[ast.expr]:
    """The sort by the texts of the items, for which 10 comes before 9; nothing where the call has a key."""
    match node.func:
        case ast.Name(id="sorted") | ast.Attribute(attr="sort"):
            if not any(each.arg == "key" for each in node.keywords):
                yield ast.Call(node.func, node.args, [*node.keywords, ast.keyword("key", ast.Name("str", ast.Load()))])


def _replace_argument(node: ast.Call, place: int, other: ast.expr) -> ast.expr:
    return ast.Call(node.func, [*node.args[:place], other, *node.args[place + 1 :]], node.keywords)


def _shift_bound(bound: ast.expr) -> Iterator[ast.expr]:
    """The neighbours of the bound; numbers have them by another operator."""
    if not any(isinstance(each, ast.Constant) for each in (bound, getattr(bound, "operand", bound))):
        yield ast.BinOp(bound, ast.Add(), ast.Constant(1))
        yield ast.BinOp(bound, ast.Sub(), ast.Constant(1))


def _shift_slice(cut: ast.Slice) -> Iterator[ast.Slice]:
    for other in _shift_bound(cut.lower) if cut.lower else ():
        yield ast.Slice(other, cut.upper, cut.step)
    for other in _shift_bound(cut.upper) if cut.upper else ():
        yield ast.Slice(cut.lower, other, cut.step)


def _forget_call(node: ast.Call, value: ast.expr, name: str) -> Iterator[ast.expr]:
    """Without what the call does to a text, or with less care for what is missing."""
    if name in _CHANGES_TEXT and (node.args or node.keywords) and not _is_module(value):
        yield value
    if name == "get" and len(node.args) == 1 and not node.keywords:
        yield ast.Subscript(value, node.args[0], ast.Load())
    if name in _FOR_SPACES and not node.args and not node.keywords:
        other, mark = _FOR_SPACES[name]
        yield ast.Call(ast.Attribute(value, other, ast.Load()), [ast.Constant(mark)], [])
    if name == "sub" and _is_module(value) and len(node.args) > 2:
        yield node.args[2]


def _lack_characters(node: ast.Call, value: ast.expr, name: str) -> Iterator[ast.expr]:
    """With a set of characters or a pattern that lacks something."""
    match node.args:
        case [ast.Constant(value=str() as text)] if name in _STRIPS:
            others: Iterable[str] = drop_characters(text)
        case [ast.Constant(value=pattern), *_] if name in _REGEX and _is_module(value):
            others = loosen_pattern(pattern)
        case _:
            return
    yield from (_replace_argument(node, 0, ast.Constant(other)) for other in others)


def _is_module(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in ("re", "regex")
