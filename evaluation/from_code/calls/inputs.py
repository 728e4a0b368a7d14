"""Inputs beside the recorded ones: drawn by hypothesis from type hints and from the types that arguments had.

Only the sandbox runs the project's code on them.
"""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from evaluation.from_code.calls.recorded import Call, digest_of
from evaluation.from_code.loading import loading
from evaluation.from_code.recording import values
from evaluation.from_code.source.find import Function

COUNT = 60
_LONGEST = 40
_MOST_LITERALS = 40
_SIMPLE = {
    **{name: [name] for name in ("int", "float", "str", "bytes", "bool")},
    **{"None": ["none"], "Text": ["str"], "AnyStr": ["str"]},
}
_LISTS = frozenset(("list", "List", "Sequence", "Iterable", "Collection", "MutableSequence", "Container", "Reversible"))
_SETS = {"set": "set", "Set": "set", "AbstractSet": "set", "frozenset": "frozenset", "FrozenSet": "frozenset"}
_DICTS = frozenset(("dict", "Dict", "Mapping", "MutableMapping"))


def generate(
    functions: Sequence[Function],
    calls: dict[str, list[Call]],
    on_function: Callable[[int, int], None] = lambda _done, _total: None,
) -> dict[str, list[Call]]:
    """New calls by function key, the same ones for the same recorded calls and version of hypothesis.

    `on_function` is called with the number of functions done and the number of all functions.
    """
    wanted = [function for function in functions if calls.get(function.key) and not function.reason]
    requests = "".join(json.dumps(_request(function, calls[function.key])) + "\n" for function in wanted)
    load, generation = loading("recording.objects", "recording.values", "calls.generation")
    program = f'{load}{generation}.main(sys.modules["evaluation.from_code.recording.values"])'
    found: dict[str, list[Call]] = {}
    with tempfile.TemporaryFile() as file:
        file.write(requests.encode())
        file.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", program], stdin=file, stdout=subprocess.PIPE, cwd="/",
            env={"PYTHONHASHSEED": "0", "HYPOTHESIS_NO_PLUGINS": "1"},
        )  # fmt: skip
    with process:
        assert process.stdout is not None
        try:
            for function, line in zip(wanted, process.stdout, strict=False):
                found[function.key] = [_call(text) for text in json.loads(line)]
                on_function(len(found), len(wanted))
        except BaseException:
            process.kill()
            raise
    if len(found) < len(wanted):
        raise RuntimeError(f"drawing inputs ended with exit code {process.returncode} at {wanted[len(found)].key}")
    return found


def _request(function: Function, calls: Sequence[Call]) -> dict[str, Any]:
    arguments = function.node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    defaults = _defaults(arguments)
    drawn = {each.arg: hint_of(each.annotation) or _hint_of_default(defaults.get(each.arg)) for each in every}
    hints = {name: hint for name, hint in drawn.items() if hint is not None}
    only_by_position = {each.arg for each in arguments.posonlyargs}
    return {
        "key": function.key,
        "seed": int.from_bytes(hashlib.sha256(function.key.encode()).digest()[:6], "big"),
        "count": COUNT,
        "calls": sorted(call.call for call in calls),
        "parameters": [each.arg for each in [*arguments.posonlyargs, *arguments.args]],
        "hints": hints,
        "literals": _literals(function.node),
        "optional": {name: hints[name] for name in hints if name in defaults and name not in only_by_position},
    }


def _defaults(arguments: ast.arguments) -> dict[str, ast.expr]:
    """The default of each parameter that has one."""
    positional = [*arguments.posonlyargs, *arguments.args]
    by_position = zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True)
    by_name = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {each.arg: default for each, default in [*by_position, *by_name] if default is not None}


def _hint_of_default(default: ast.expr | None) -> list[Any] | None:
    """The type of a default that is a number, a text or a truth value."""
    if isinstance(default, ast.Constant) and isinstance(default.value, bool | int | float | str | bytes):
        return [type(default.value).__name__]
    return None


def _call(text: str) -> Call:
    return Call(text, digest_of(text), "|".join(map(":".join, kinds_of(text))))


def kinds_of(call: str) -> list[tuple[str, str]]:
    """(parameter or position, type) of each argument of a call."""
    args, kwargs = values.read_plain(call)
    given = [*((str(index), value) for index, value in enumerate(args)), *sorted(kwargs.items())]
    return [(name, type(value).__name__) for name, value in given]


def _literals(function: ast.AST) -> list[Any]:
    """The texts and numbers in a function's body, which decide its branches."""
    found: dict[Any, None] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Constant) and type(node.value) in (int, str) and len(str(node.value)) <= _LONGEST:
            found[node.value] = None
    return list(found)[:_MOST_LITERALS]


def hint_of(annotation: ast.expr | None) -> list[Any] | None:
    """A type hint as [name, part, ...] for `generation.from_hint`; None where it names a type that cannot be drawn."""
    match annotation:
        case ast.Constant(value=None):
            return ["none"]
        case ast.Constant(value=str(text)):
            try:
                return hint_of(ast.parse(text, mode="eval").body)
            except SyntaxError:
                return None
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _bare(name)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _union([left, right])
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inner):
            return _generic(name, list(inner.elts) if isinstance(inner, ast.Tuple) else [inner])
    return None


def _bare(name: str) -> list[Any] | None:
    if name in _SIMPLE:
        return _SIMPLE[name]
    return None


def _union(parts: list[ast.expr]) -> list[Any] | None:
    """The parts that can be drawn; a value of one of several types is still a value."""
    drawn = [hint for part in parts if (hint := hint_of(part)) is not None]
    return ["union", *drawn] if drawn else None


def _generic(name: str, parts: list[ast.expr]) -> list[Any] | None:
    if name == "Optional":
        return _union([*parts, ast.Constant(None)])
    if name == "Union":
        return _union(parts)
    if name == "Literal":
        texts = [part.value for part in parts if isinstance(part, ast.Constant)]
        return ["literal", *texts] if texts and all(isinstance(t, str | int | None) for t in texts) else None
    if name in ("tuple", "Tuple") and len(parts) == 2 and isinstance(parts[1], ast.Constant) and parts[1].value is ...:
        return _of("tuples", parts[:1])
    if name in ("tuple", "Tuple"):
        return _of("tuple", parts)
    if name in _LISTS:
        return _of("list", parts)
    if name in _SETS and all(hint in (["int"], ["str"], ["bool"]) for hint in map(hint_of, parts)):
        return _of(_SETS[name], parts)
    if name in _DICTS and len(parts) == 2 and hint_of(parts[0]) in (["int"], ["str"]):
        return _of("dict", parts)
    return None


def _of(name: str, parts: list[ast.expr]) -> list[Any] | None:
    inner = [hint_of(part) for part in parts]
    return None if None in inner else [name, *inner]
