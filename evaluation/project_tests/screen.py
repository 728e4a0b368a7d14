"""Refuses an answer that reaches for the process of its tests.

The tests run beside the answer, so this is what keeps most forgeries out: the usual ways to change the runner, find
the secret or fake equality use one of these names. The project's own file may use them; then its answers may, too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

_MODULES = frozenset((
    "pytest", "_pytest", "pluggy", "gc", "ctypes", "_ctypes", "inspect", "builtins", "importlib", "atexit", "signal",
    "posix", "faulthandler", "tracemalloc", "mmap", "evaluation", "_frozen_importlib", "pdb", "bdb", "code", "unittest",
    "mock", "conftest", "runpy", "zipimport", "imp", "site", "doctest",
))  # fmt: skip
_ATTRIBUTES = frozenset((
    "_getframe", "_current_frames", "settrace", "setprofile", "meta_path", "path_hooks", "_exit", "abort", "kill",
    "killpg", "dup", "dup2", "closerange", "fdopen", "__subclasses__", "__globals__", "__code__", "__closure__",
    "__builtins__", "__loader__", "__spec__", "f_back", "f_locals", "f_globals", "tb_frame", "gi_frame", "cr_frame",
    "ag_frame", "cell_contents", "__traceback__", "exc_info", "__reduce__", "__reduce_ex__", "__import__",
    "__doc__", "__test__",
))  # fmt: skip
_BUILTINS = frozenset(("__import__", "exec", "eval", "compile", "globals", "breakpoint", "exit", "quit"))
_OF_MODULES = {"os": frozenset(("write", "close", "open", "pipe")), "sys": frozenset(("modules", "exit", "path"))}
_COMPARISONS = frozenset(
    ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__instancecheck__")
)


def find_forbidden_name(answer: Sequence[ast.stmt], module: str) -> str:
    """The first name of an answer's statements that reaches for the process of its tests and that the project's
    module does not use; "" for none. Also a comparison, as `Class.__eq__`, in a class that the module does not
    define."""
    used = set(re.findall(r"\w+", module))
    guarded = _find_guarded_modules(answer)
    for statement in answer:
        for node in ast.walk(statement):
            for name in _list_suspects(node, guarded):
                if name.rpartition(".")[2] not in used:
                    return name
        for node in ast.walk(statement):
            if isinstance(node, ast.ClassDef):
                for each in ast.walk(node):
                    own = getattr(each, "name", None) or getattr(each, "id", None)
                    if own in _COMPARISONS and not re.search(rf"(?m)^\s*class {re.escape(node.name)}\b", module):
                        return f"{node.name}.{own}"
    return ""


def _find_guarded_modules(answer: Sequence[ast.stmt]) -> dict[str, frozenset[str]]:
    """_OF_MODULES with the other names under which the answer imports these modules."""
    imports = [node for statement in answer for node in ast.walk(statement) if isinstance(node, ast.Import)]
    aliases = [alias for node in imports for alias in node.names if alias.name in _OF_MODULES]
    guarded = dict(_OF_MODULES)
    for alias in aliases:  # one name may stand for both modules
        name = alias.asname or alias.name
        guarded[name] = guarded.get(name, frozenset()) | _OF_MODULES[alias.name]
    return guarded


def _list_suspects(node: ast.AST, guarded: Mapping[str, frozenset[str]]) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [top for alias in names if (top := alias.name.partition(".")[0]) in _MODULES]
        case ast.ImportFrom(module=str(module), names=names):
            top = module.partition(".")[0]
            if module in _OF_MODULES and any(alias.name == "*" for alias in names):
                return [f"{module}.*"]
            names_of = _OF_MODULES.get(module, frozenset()) | _ATTRIBUTES
            return [*([top] if top in _MODULES else []), *(alias.name for alias in names if alias.name in names_of)]
        case ast.Attribute(value=ast.Name(id=owner), attr=attr) if attr in guarded.get(owner, ()):
            return [f"{owner}.{attr}"]
        case ast.Attribute(value=ast.Attribute(attr=owner), attr=attr) if attr in _OF_MODULES.get(owner, ()):
            return [f"{owner}.{attr}"]  # as another module imports it
        case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id=owner), ast.Constant(value=str(attr)), *_]) if (
            attr in guarded.get(owner, ())
        ):
            return [f"{owner}.{attr}"]
        case ast.Attribute(attr=attr) if attr in _ATTRIBUTES or attr in _COMPARISONS:
            return [attr]
        case ast.Name(id=name, ctx=ast.Load()) if name in _MODULES or name in _BUILTINS or name == "__builtins__":
            return [name]
        case ast.Constant(value=str(text)) if text in _ATTRIBUTES or text in _COMPARISONS:
            return [text]
    return []
