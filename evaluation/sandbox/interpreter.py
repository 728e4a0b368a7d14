"""Finds the Python that runs inside the sandbox, with the files it needs and the names it defines.

It may differ from the worker's interpreter, which the unprivileged uid cannot always read: pyenv and uv install into a
private home folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

NOBODY = 65534
OLDEST = (3, 10)
"""The Python that the code inside the sandbox needs: `sys.orig_argv`, `dataclass(slots=True)`."""
_SYSTEM_TREES = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64")
_EXTRA_FILES = ("/etc/ld.so.cache", "/usr/share/zoneinfo")
_FACTS = (resources.files("evaluation.sandbox.inside") / "facts.py").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class InterpreterNames:
    """The names that an interpreter defines. They differ between versions of Python."""

    builtins: frozenset[str]
    callables: frozenset[str]  # builtins that can be called
    exceptions: frozenset[str]  # builtin classes of exceptions
    modules: frozenset[str]  # of the standard library
    attributes: frozenset[str]  # of values of ATTRIBUTE_TYPES in `facts`


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python for the sandbox."""

    executable: str
    version: tuple[int, int, int]
    system_trees: tuple[str, ...]  # the folders and files of Python and the system that can be read inside
    hidden: tuple[str, ...]  # folders of installed packages within these that cannot
    links: tuple[tuple[str, str], ...]  # (target, path) of symbolic links such as /lib64 -> usr/lib64
    names: InterpreterNames
    packages: str = ""  # the folder of installed packages that programs may import, "" for none
    project: str = ""  # the folder of a project whose tests run, "" for none
    preload: tuple[str, ...] = ()  # packages that its zygotes import before they fork
    judge_packages: str = ""  # the folder of compiled packages of Bassline's own environment, "" for none
    judge_modules: tuple[str, ...] = ()  # of these packages; its zygotes import them before they fork, or do not start

    @property
    def trees(self) -> tuple[str, ...]:
        """The only folders and files that can be read inside."""
        return (*self.system_trees, *filter(None, (self.packages, self.project, self.judge_packages)))

    def build_flags(self) -> list[str]:
        """Return the interpreter's options: no site packages, no bytecode files, and from Python 3.11 on no current
        folder on the path."""
        return ["-S", "-s", "-B", *(["-P"] if self.version >= (3, 11) else [])]


def get_dropped_identity() -> dict[str, Any]:
    """Return Popen arguments that drop root permanently; empty for an ordinary user."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def find_interpreter() -> Interpreter:
    """Return the first interpreter that is new enough and that the unprivileged uid can start: this process's own, else
    one of its version, else the newest that is not newer, else any `python3`.

    Raises RuntimeError that lists the tried ones.
    """
    names = [*(f"python3.{minor}" for minor in range(sys.version_info.minor, OLDEST[1] - 1, -1)), "python3"]
    own = [sys.executable, *(str(Path(sys.base_prefix) / "bin" / name) for name in names[:1])]
    others = [
        path
        for name in names
        for path in (f"/usr/bin/{name}", f"/usr/local/bin/{name}", shutil.which(name))
        if path is not None
    ]
    tried: list[str] = []
    for executable in dict.fromkeys(os.path.realpath(path) for path in (*own, *others) if Path(path).exists()):
        try:
            facts = _ask(executable)
            version = tuple(map(int, facts["version"]))
        except (OSError, ValueError, TypeError, LookupError, subprocess.SubprocessError) as error:
            tried.append(f"{executable} does not start ({_find_reason(error)})")
            continue
        if version >= OLDEST:
            return _build_interpreter(facts)
        tried.append(f"{executable} is Python {'.'.join(map(str, version))}")
    found = "; ".join(tried) or "there is none on PATH or in /usr/bin"
    raise RuntimeError(f"no Python {'.'.join(map(str, OLDEST))} or later that an unprivileged user can start: {found}")


def _ask(executable: str) -> dict[str, Any]:
    done = subprocess.run(
        [executable, "-S", "-s", "-B", "-c", _FACTS],
        env={}, cwd="/", capture_output=True, timeout=20, check=True, **get_dropped_identity(),
    )  # fmt: skip
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def _find_reason(error: Exception) -> str:
    """The last line that a program printed before it failed, or the error itself; on one line."""
    printed = (
        error.stderr.decode("utf-8", "replace").split("\n") if isinstance(error, subprocess.CalledProcessError) else []
    )
    lines = [line.strip() for line in printed if line.strip()]
    return lines[-1] if lines else str(error).partition("\n")[0]


def _build_interpreter(facts: dict[str, Any]) -> Interpreter:
    links = tuple((str(Path(path).readlink()), path) for path in _SYSTEM_TREES if Path(path).is_symlink())
    wanted = [*_SYSTEM_TREES, *facts["paths"], *_EXTRA_FILES]
    real = sorted({os.path.realpath(path) for path in wanted if Path(path).exists()})
    trees = [path for path in real if not any(path.startswith(other + "/") for other in real)]
    executable = str(facts["executable"])
    hidden = sorted(
        str(folder)
        for tree in trees
        for pattern in ("site-packages", "dist-packages", "python*/site-packages", "python*/dist-packages")
        for folder in Path(tree).glob(pattern)
        if folder.is_dir() and not folder.is_symlink()
    )
    major, minor, micro = facts["version"]
    names = InterpreterNames(**{kind: frozenset(found) for kind, found in facts["names"].items()})
    return Interpreter(executable, (major, minor, micro), tuple(trees), tuple(hidden), links, names)
