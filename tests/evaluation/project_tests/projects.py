"""Projects for these tests: their files as archives, with the pytest that runs here, and a judge that has them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest

from evaluation.from_code.project_tests.covering import CallsByTest
from evaluation.from_code.project_tests.files import read_installed_files
from evaluation.from_code.source.project import Project
from evaluation.project_tests.archive import pack
from evaluation.project_tests.judge import ProjectJudge
from evaluation.project_tests.spec import ProjectTests
from evaluation.project_tests.splice import iterate_functions
from evaluation.sandbox import Sandbox
from evaluation.sandbox.packages import hash_files

NAMES = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments")


class Packed:
    """A project with these files; `judge` and `spec` are what a task of it would be judged with."""

    def __init__(self, files: Mapping[str, str], sandbox: Sandbox, *packages: str) -> None:
        self.files = dict(files)
        own = {path: text.encode() for path, text in files.items()}
        self.project, (self.installed, content) = hash_files(own), _pack_packages(packages)
        self.archives = {self.project: pack(own), self.installed: content}
        self.judge = ProjectJudge(sandbox, self.archives.get)

    def spec(self, file: str, qualified: str, *tests: str) -> ProjectTests:
        line = next(node.lineno for name, node in iterate_functions(self.files[file]) if name == qualified)
        return ProjectTests(self.project, self.installed, file, qualified, line, tests)


Pack = Callable[..., Packed]


@cache
def _pack_packages(more: tuple[str, ...]) -> tuple[str, bytes]:
    """The hash and the archive of pytest, what it needs, and `more` packages, as installed here."""
    place = Path(pytest.__file__).parents[1]
    names = [str(importlib.import_module(name).__file__) for name in (*NAMES, *more)]
    covering = CallsByTest(files=names, path=[str(place)])
    files = read_installed_files(Project("none", place / "nowhere", {}), covering)[0]
    return hash_files(files), pack(files)
