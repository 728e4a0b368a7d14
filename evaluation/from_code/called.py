"""What the functions that another one calls tell about it: their recorded results, the objects of its class, what they
raise, and the texts that they compare their parameters with.

A prompt shows their signatures; what they return often stands nowhere but in their bodies.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from evaluation.from_code.calls.literals import format_arguments, format_literal
from evaluation.from_code.calls.record import Recording
from evaluation.from_code.calls.recorded import RecordedCall, compute_digest
from evaluation.from_code.calls.volatile import is_volatile
from evaluation.from_code.mutants import list_parameters
from evaluation.from_code.recording import values
from evaluation.from_code.recording.values import OpaqueObject
from evaluation.from_code.source.attributes import STANDARD_ATTRIBUTE_NAMES
from evaluation.from_code.source.find import ProjectFunction
from evaluation.source import FunctionNode, get_called_name, is_self

_MAX_CHARS = 200
_MAX_WRITTEN = 2000
"""Characters of a recorded result: a longer one would never fit, and takes long to show."""
_PER_FUNCTION = 2
_MAX_EXAMPLES = 6
_RECEIVERS_PER_METHOD = 20
_TEXTS_PER_PARAMETER = 30
_MAX_TEXT_CHARS = 100
_KEPT_MODULES = 8
"""A module is read once for all of its functions."""
_CATCH_ALL = {"Exception", "BaseException"}
_NOT_ASKED_FOR = {"NotImplementedError", "AssertionError", "StopIteration", "SystemExit", "KeyboardInterrupt"}
"""Exceptions that no caller is meant to see."""


def list_called_examples(function: ProjectFunction, recording: Recording) -> list[str]:
    """Recorded calls of the functions that the body calls, the shortest whose results differ. An object whose method is
    called is shown by its class alone."""
    found: list[str] = []
    for name, is_on_attribute in _find_called(function).items():
        keys = [
            key
            for key in recording.calls
            if _parse_qualified_name(key).rpartition(".")[2] == name and key != function.key
        ]
        if is_on_attribute:
            own = function.qualified.rpartition(".")[0]
            keys = [key for key in keys if _parse_qualified_name(key).rpartition(".")[0] != own]
        if len(keys) == 1 and (is_on_attribute or name not in STANDARD_ATTRIBUTE_NAMES):
            found += _list_shortest(_parse_qualified_name(keys[0]), recording.calls[keys[0]])
    return found[:_MAX_EXAMPLES]


def list_receivers(calls: Mapping[str, Sequence[RecordedCall]], function: ProjectFunction) -> list[OpaqueObject]:
    """The objects that tests called other public methods of a method's class on, some of each method."""
    own, _, name = function.qualified.rpartition(".")
    if not own:
        return []
    found: list[OpaqueObject] = []
    for key in sorted(calls):
        owner, _, other = _parse_qualified_name(key).rpartition(".")
        is_private = other.startswith("_") and not other.endswith("__")
        if not key.startswith(f"{function.module.path}:") or owner != own or is_private or other in ("__init__", name):
            continue
        for call in sorted(calls[key], key=lambda call: call.digest)[:_RECEIVERS_PER_METHOD]:
            args, _ = values.read_plain(call.call)
            found += [each for each in args[:1] if isinstance(each, OpaqueObject)]
    return found


def list_texts_by_parameter(
    functions: Sequence[ProjectFunction], calls: Mapping[str, Sequence[RecordedCall]]
) -> dict[str, list[str | bytes]]:
    """Texts and bytes that functions were called with, by the name of the parameter, at most _TEXTS_PER_PARAMETER each:
    what is an address, a date or a name in one function is one in others."""
    found: dict[str, dict[str, str | bytes]] = {}
    for function in functions:
        names = list_parameters(function.node)
        for call in calls.get(function.key, ()):
            args, kwargs = values.read_plain(call.call)
            for name, value in [*zip(names, args, strict=False), *kwargs.items()]:
                if isinstance(value, str | bytes) and len(value) <= _MAX_TEXT_CHARS:
                    found.setdefault(name, {})[compute_digest(repr(value))] = value
    return {name: [texts[key] for key in sorted(texts)][:_TEXTS_PER_PARAMETER] for name, texts in found.items()}


def _find_called(function: ProjectFunction) -> dict[str, bool]:
    """The names that a function calls, and whether each is called on an attribute of `self`."""
    found: dict[str, bool] = {}
    for node in ast.walk(function.node):
        match node:
            case ast.Call(func=ast.Name(id=name)):
                found.setdefault(name, False)
            case ast.Call(func=ast.Attribute(attr=name, value=value)):
                is_on_attribute = isinstance(value, ast.Attribute) and is_self(value.value)
                found[name] = found.get(name, False) or is_on_attribute
    return found


def _parse_qualified_name(key: str) -> str:
    """The qualified name in a function's key."""
    return key.split(":")[-2]


def _list_shortest(name: str, calls: Sequence[RecordedCall]) -> list[str]:
    usable = [call for call in calls if not (call.raised or call.iterator) and len(call.returned or "") <= _MAX_WRITTEN]
    texts = {_format_call(name, call): call.returned for call in usable}
    found: dict[str | None, str] = {}
    for text in sorted(texts, key=lambda text: (len(text), text)):
        if len(text) <= _MAX_CHARS and text.isprintable() and not is_volatile(text):
            found.setdefault(texts[text], text)
    return list(found.values())[:_PER_FUNCTION]


def _format_call(name: str, call: RecordedCall) -> str:
    args, _ = values.read_plain(call.call)
    given = format_arguments(call.call)
    if "." in name and args and isinstance(args[0], OpaqueObject):
        given[0] = f"<{name.rpartition('.')[0]} ...>"
    return f"{name}({', '.join(given)}) returns {format_literal(values.read_plain(call.returned or 'null'))}"


def list_callee_exceptions(function: FunctionNode, module: ast.Module) -> list[str]:
    """The names of exceptions that reach a function from those that it calls, and those that these call, by name."""
    callees = _list_own_callees(function) - {function.name}
    return sorted(_keep_uncaught(function, callees, _find_escaping_exceptions(module)) - _NOT_ASKED_FOR)


def list_texts_compared_by_callees(function: FunctionNode, module: ast.Module) -> list[str]:
    """The texts that functions which a function calls compare their parameters with."""
    names = {get_called_name(each) for each in ast.walk(function) if isinstance(each, ast.Call)}
    callees = (each for each in _list_functions(module) if each.name in names and each.lineno != function.lineno)
    return sorted({text for each in callees for text in _list_compared_texts(each)})


@lru_cache(maxsize=_KEPT_MODULES)
def _list_functions(module: ast.Module) -> list[FunctionNode]:
    return [each for each in ast.walk(module) if isinstance(each, FunctionNode)]


@lru_cache(maxsize=_KEPT_MODULES)
def _find_escaping_exceptions(module: ast.Module) -> Mapping[str, Collection[str]]:
    """The names of the exceptions that the functions of each name raise, or let pass from those that they call."""
    functions = _list_functions(module)
    escaping: dict[str, set[str]] = {each.name: set() for each in functions}
    for each in functions:
        escaping[each.name] |= set(_list_raised_names(each))
    callees = [(each, _list_own_callees(each)) for each in functions]
    has_changed = True
    while has_changed:
        has_changed = False
        for each, names in callees:
            found = _keep_uncaught(each, names, escaping)
            if not found <= escaping[each.name]:
                escaping[each.name] |= found
                has_changed = True
    return escaping


def _keep_uncaught(
    function: FunctionNode, callees: Collection[str], escaping: Mapping[str, Collection[str]]
) -> set[str]:
    """What escapes from these callees, without what a handler of the function names."""
    handlers = [each for each in ast.walk(function) if isinstance(each, ast.ExceptHandler)]
    handled = {name.id for each in handlers if each.type for name in ast.walk(each.type) if isinstance(name, ast.Name)}
    if handled & _CATCH_ALL or any(each.type is None for each in handlers):
        return set()
    return {name for callee in callees for name in escaping.get(callee, ())} - handled


def _list_own_callees(function: FunctionNode) -> set[str]:
    """The names that are called bare or on `self`, `cls` and `super()`: others may belong to a list or dict."""
    names: set[str] = set()
    for each in ast.walk(function):
        match each:
            case (
                ast.Call(func=ast.Name(id=name))
                | ast.Call(func=ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name))
                | ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name))
            ):
                names.add(name)
    return names


def _list_raised_names(function: FunctionNode) -> Iterator[str]:
    for each in ast.walk(function):
        match each:
            case ast.Raise(exc=ast.Call(func=ast.Name(id=name)) | ast.Name(id=name)) if name[:1].isupper():
                yield name


def _list_compared_texts(function: FunctionNode) -> Iterator[str]:
    parameters = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    for each in ast.walk(function):
        if isinstance(each, ast.Compare) and isinstance(each.left, ast.Name) and each.left.id in parameters:
            constants = (part.value for part in ast.walk(each) if isinstance(part, ast.Constant))
            yield from (value for value in constants if isinstance(value, str))
