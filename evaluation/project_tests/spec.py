"""What a task judged by its project's tests specifies: files, function and tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evaluation.project_tests.archive import is_relative

MAX_MEMORY_MIB = 1024
_OPTIONAL: Mapping[str, Any] = {"options": [], "environment": {}, "writes": False, "memory_mib": MAX_MEMORY_MIB}


@dataclass(frozen=True, slots=True)
class ProjectTests:
    """`project` and `installed` are the sha256 of the archives of the project's files and of the installed packages.

    The function `qualified` (such as `Table.rows`) starts at `line` of `file`. `tests` are pytest's ids of the tests
    that have to pass; `paths` the folders of the project that are on sys.path. `options` are pytest's, `environment`
    the variables of the tests (None for a value that only the judge's environment has), and `writes` says that they
    need a folder to write in. `memory_mib` is the address space of an answer.
    """

    project: str
    installed: str
    file: str
    qualified: str
    line: int
    tests: tuple[str, ...]
    paths: tuple[str, ...] = ("",)
    options: tuple[str, ...] = ()
    environment: Mapping[str, str | None] = field(default_factory=dict, hash=False)
    writes: bool = False
    memory_mib: int = MAX_MEMORY_MIB

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> ProjectTests:
        """From a JSON object. Raises ValueError, which names the field, for one that is not of this form."""
        names = set(cls.__dataclass_fields__)
        required = names - set(_OPTIONAL)
        if not required <= set(content) <= names:
            raise ValueError(
                f"field project_tests: give {', '.join(sorted(required))}, and nothing else but {', '.join(_OPTIONAL)}"
            )
        content = {**_OPTIONAL, **content}
        for name in ("project", "installed", "file", "qualified"):
            if not isinstance(content[name], str):
                raise ValueError(f"field project_tests: {name} is not a string")
        if type(content["line"]) is not int:
            raise ValueError("field project_tests: line is not a whole number")
        if type(content["writes"]) is not bool:
            raise ValueError("field project_tests: writes is neither true nor false")
        memory_mib = content["memory_mib"]
        if type(memory_mib) is not int or not 1 <= memory_mib <= MAX_MEMORY_MIB:
            raise ValueError(f"field project_tests: memory_mib is not a whole number from 1 to {MAX_MEMORY_MIB}")
        environment = content["environment"]
        if not isinstance(environment, Mapping) or not all(map(_is_variable, environment.items())):
            raise ValueError("field project_tests: environment is not an object of names with strings or null")
        for name in ("tests", "paths", "options"):
            if not isinstance(content[name], list | tuple) or not all(isinstance(each, str) for each in content[name]):
                raise ValueError(f"field project_tests: {name} is not a list of strings")
        lists = {name: tuple(content[name]) for name in ("tests", "paths", "options")}
        spec = cls(**{**content, **lists, "environment": dict(environment)})
        if not spec.tests:
            raise ValueError("field project_tests: tests is empty")
        if not all(is_relative(path) for path in (spec.file, *filter(None, spec.paths))):
            raise ValueError("field project_tests: file and paths must lie inside the project")
        return spec

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; optional fields only where they differ from the default."""
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}
        lists = {name: list(value) for name, value in found.items() if isinstance(value, tuple)}
        content = {**found, **lists, "environment": dict(self.environment)}
        return {name: value for name, value in content.items() if name not in _OPTIONAL or value != _OPTIONAL[name]}


def _is_variable(pair: tuple[Any, Any]) -> bool:
    name, value = pair
    valued = value is None or (isinstance(value, str) and "\0" not in value)
    return isinstance(name, str) and bool(name) and not {"=", "\0"} & set(name) and valued
