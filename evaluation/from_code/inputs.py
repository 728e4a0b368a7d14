"""Inputs beside the recorded ones: drawn by hypothesis from type hints and from the types that arguments had.

Only the sandbox runs the project's code on them.
"""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluation.from_code.find import Function
from evaluation.from_code.record import Call
from evaluation.from_code.recording import values

COUNT = 60
_HERE = Path(__file__).parent
_LIMIT_S = 600.0
_START = """
import sys, types
def load(name, source):
    module = types.ModuleType(name)
    exec(compile(source, f"<{name}>", "exec", dont_inherit=True), module.__dict__)
    return module
load("generation", sys.argv[2]).main(load("values", sys.argv[1]))
"""
_SIMPLE = {
    **{name: [name] for name in ("int", "float", "str", "bytes", "bool")},
    **{"None": ["none"], "Text": ["str"], "AnyStr": ["str"]},
}
_LISTS = frozenset(("list", "List", "Sequence", "Iterable", "Collection", "MutableSequence", "Container", "Reversible"))
_SETS = {"set": "set", "Set": "set", "AbstractSet": "set", "frozenset": "frozenset", "FrozenSet": "frozenset"}
_DICTS = frozenset(("dict", "Dict", "Mapping", "MutableMapping"))


def generate(functions: Sequence[Function], calls: dict[str, list[Call]]) -> dict[str, list[Call]]:
    """New calls by function key, the same ones for the same recorded calls and version of hypothesis. Empty where
    nothing was recorded or a parameter's values cannot be drawn."""
    wanted = [function for function in functions if calls.get(function.key) and not function.reason]
    requests = [json.dumps(_request(function, calls[function.key])) for function in wanted]
    if not requests:
        return {}
    sources = [(_HERE / name).read_text("utf-8") for name in ("recording/values.py", "generation.py")]
    done = subprocess.run(
        [sys.executable, "-I", "-c", _START, *sources], input="\n".join(requests) + "\n", capture_output=True,
        text=True, timeout=_LIMIT_S, check=False, cwd="/", env={"PYTHONHASHSEED": "0", "HYPOTHESIS_NO_PLUGINS": "1"},
    )  # fmt: skip
    lines = done.stdout.splitlines()
    return {
        function.key: [_call(text) for text in json.loads(line)] for function, line in zip(wanted, lines, strict=False)
    }


def _request(function: Function, calls: Sequence[Call]) -> dict[str, Any]:
    arguments = function.node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    hints = {each.arg: hint for each in every if (hint := hint_of(each.annotation)) is not None}
    return {
        "key": function.key,
        "seed": int.from_bytes(hashlib.sha256(function.key.encode()).digest()[:6], "big"),
        "count": COUNT,
        "calls": sorted(call.call for call in calls),
        "parameters": [each.arg for each in [*arguments.posonlyargs, *arguments.args]],
        "hints": hints,
    }


def _call(text: str) -> Call:
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    args, kwargs = values.read(text)
    shape = ",".join([*(type(value).__name__ for value in args), *sorted(kwargs)])
    return Call(text, digest, shape)


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
