"""Notes which functions of the project each test called, and which modules were imported.

Every function counts a call when its body starts. What one test called is written when it ends, so that
tests which end their process lose only themselves. The plugin for pytest says which test runs.

A suite may call a function millions of times. So a function counts by a method of `itertools.count`, which is written
in C, from its second call in a test on.
"""

from __future__ import annotations

import atexit
import builtins
import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

SEEN = "__bassline_seen_%d__"
MAX_FILE_BYTES = 64 * 2**20


class LineWriter:
    """Appends rows to a file of this process in a folder; after a fork, the file of the parent stays the parent's."""

    def __init__(self, folder: str, name: str) -> None:
        self._start = f"{folder}/{name}"
        self._pid = self._file = self._written = 0

    def write(self, row: dict[str, Any]) -> None:
        """Append a row, unless the file is full."""
        pid = os.getpid()
        if self._pid != pid:
            path = f"{self._start}-{pid}-{time.monotonic_ns()}.jsonl"
            self._file, self._written = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 0
            self._pid = pid
        content = (json.dumps(row) + "\n").encode()
        self._written += len(content)
        if self._written <= MAX_FILE_BYTES:
            os.write(self._file, content)


_lines = LineWriter("", "seen")
_names: dict[str, str] = {}
"""Names of counters in `builtins`, by function key."""
_counters: dict[str, Any] = {}
"""Of the functions that the running test has called."""
_at_end: dict[str, Any] = {}
_test = ""
_project = ""
_rootdir = ""


def start_noting(folder: str, project: str, at_end: dict[str, Any]) -> None:
    """Notes from now on into files in this folder; `project` is the folder of the project.

    `at_end` receives what `builtins` needs when Python has restored it.
    """
    global _lines, _project, _rootdir, _at_end, _test  # noqa: PLW0603  (one per process)
    _lines, _at_end = LineWriter(folder, "seen"), at_end
    _project = _rootdir = project
    _test = _make_relative_to_project(
        os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    )  # which started this process
    atexit.register(_write_at_exit)
    os.register_at_fork(after_in_child=_reset_counters)


def note_session(rootdir: str, arguments: list[str], inifile: str, settings: dict[str, Any]) -> None:
    """Notes how pytest runs: its options, and the settings of its file where that is not in the project's folder.

    The ids of tests are relative to pytest's own root, and are noted relative to the project's folder.
    """
    global _rootdir  # noqa: PLW0603
    _rootdir = os.path.realpath(rootdir)
    outside = bool(inifile) and os.path.relpath(os.path.realpath(inifile), _project).startswith("..")
    _lines.write({"pytest": arguments, "settings": settings if outside else {}})


def _make_relative_to_project(test: str) -> str:
    """The id of a test relative to the project's folder."""
    if not test or _rootdir == _project:
        return test
    file, separator, rest = test.partition("::")
    return os.path.relpath(os.path.join(_rootdir, file), _project) + separator + rest


def note_ended(test: str) -> None:
    """Notes that a test was ended as it waited or took too long."""
    _lines.write({"ended": _make_relative_to_project(test)})


def note_test(test: str) -> None:
    """Notes the test that runs from now on, "" for none."""
    global _test  # noqa: PLW0603
    try:
        _write_counts()
        _test = _make_relative_to_project(test)
    except Exception:
        return


def install_counter(key: str) -> str:
    """The name in `builtins` of what counts the calls of a function."""
    name = _names.get(key)
    if name is None:
        name = _names[key] = SEEN % len(_names)
        _at_end[name] = lambda: None
        setattr(builtins, name, _make_first_counter(key, name))
    return name


def _make_first_counter(key: str, name: str) -> Callable[[], None]:
    def count() -> None:
        counter = _counters.get(key)  # another thread may have been here meanwhile
        if counter is None:
            counter = _counters[key] = itertools.count()
            setattr(builtins, name, counter.__next__)
        next(counter)

    return count


def _reset_counters() -> None:
    for key in list(_counters):
        setattr(builtins, _names[key], _make_first_counter(key, _names[key]))
    _counters.clear()


def _write_counts() -> None:
    if _counters:
        counters = dict(_counters)
        _reset_counters()
        _lines.write({"test": _test, "calls": {key: next(counter) for key, counter in counters.items()}})


def _write_at_exit() -> None:
    try:
        _write_counts()
        modules = list(sys.modules.values())
        files = {str(file) for file in (getattr(module, "__file__", None) for module in modules) if file}
        _lines.write({"modules": sorted(files), "path": sys.path, "python": list(sys.version_info[:3])})
    except Exception:
        return
