"""Notes which functions of the project each test called, and which installed modules the tests needed.

Every function reports its key when its body starts. What one test called is written when the next one starts, so that
tests which end their process lose only themselves.
"""

from __future__ import annotations

import ast
import atexit
import builtins
import json
import os
import sys
import time
from typing import Any

SEEN = "__bassline_seen__"
MAX_FILE_BYTES = 64 * 2**20

_keys: dict[str, list[Any]] = {}
_files: dict[int, list[int]] = {}
_calls: dict[str, int] = {}
_environment: Any = getattr(os.environ, "_data", os.environ)
_name: Any = b"PYTEST_CURRENT_TEST" if isinstance(next(iter(_environment), b""), bytes) else "PYTEST_CURRENT_TEST"
_value: Any = None
_test = ""
_folder = ""
_project = ""
_rootdir = ""


def start(folder: str, functions: dict[str, list[Any]]) -> None:
    """Notes from now on into files in this folder; `functions` are [line, key] by the path of their file."""
    global _folder, _project, _rootdir  # noqa: PLW0603  (one per process)
    _folder = folder
    _project = _rootdir = _find_project(functions)
    _keys.update(functions)
    setattr(builtins, SEEN, _seen)
    atexit.register(_at_exit)
    os.register_at_fork(after_in_child=_calls.clear)


def _find_project(functions: dict[str, list[Any]]) -> str:
    """The project's folder: keys begin with the path of their file in it."""
    for path, keys in functions.items():
        relative = str(keys[0][1]).rsplit(":", 2)[0]
        if path.endswith(f"/{relative}"):
            return path[: -len(relative) - 1]
    return ""


def note_session(rootdir: str, arguments: list[str], inifile: str, settings: dict[str, Any]) -> None:
    """Notes how pytest runs: its options, and the settings of its file where that is not in the project's folder.

    The ids of tests are relative to pytest's own root, and are noted relative to the project's folder.
    """
    global _rootdir  # noqa: PLW0603
    _rootdir = os.path.realpath(rootdir)
    outside = bool(inifile) and os.path.relpath(os.path.realpath(inifile), _project).startswith("..")
    _append({"pytest": arguments, "settings": settings if outside else {}})


def _place(test: str) -> str:
    """The id of a test relative to the project's folder."""
    if not test or _rootdir == _project:
        return test
    file, separator, rest = test.partition("::")
    return os.path.relpath(os.path.join(_rootdir, file), _project) + separator + rest


def is_noted(path: str) -> bool:
    """Whether a file has functions to note."""
    return path in _keys


def mark(tree: ast.Module, path: str) -> ast.Module:
    """The tree of a module whose functions report their keys; changed in place."""
    keys = dict(_keys.get(os.path.realpath(path), ()))
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno in keys:
            position = 1 if ast.get_docstring(node, clean=False) is not None else 0
            place = node.body[min(position, len(node.body) - 1)]
            call = ast.Call(ast.Name(SEEN, ast.Load()), [ast.Constant(keys[node.lineno])], [])
            node.body.insert(position, ast.copy_location(ast.Expr(call), place))
    return ast.fix_missing_locations(tree)


def note_ended(test: str) -> None:
    """Notes that a test was ended because it waited without end."""
    _append({"ended": _place(test)})


def _seen(key: str) -> None:
    global _test, _value
    try:
        value = _environment.get(_name)  # pytest names the test that runs, and its phase; a decoded read takes longer
        if value is not _value:
            test = _place(os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0])
            if test != _test:
                _write()
            _value, _test = value, test
        _calls[key] = _calls.get(key, 0) + 1
    except Exception:
        return


def _write() -> None:
    if _calls:
        _append({"test": _test, "calls": dict(_calls)})
        _calls.clear()


def _append(row: dict[str, Any]) -> None:
    pid = os.getpid()
    if pid not in _files:
        _files.clear()
        path = f"{_folder}/seen-{pid}-{time.monotonic_ns()}.jsonl"
        _files[pid] = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 0]
    content = (json.dumps(row) + "\n").encode()
    _files[pid][1] += len(content)
    if _files[pid][1] <= MAX_FILE_BYTES:
        os.write(_files[pid][0], content)


def _at_exit() -> None:
    try:
        _write()
        modules = list(sys.modules.values())
        files = {str(file) for file in (getattr(module, "__file__", None) for module in modules) if file}
        _append({"modules": sorted(files), "path": sys.path, "python": list(sys.version_info[:3])})
    except Exception:
        return
