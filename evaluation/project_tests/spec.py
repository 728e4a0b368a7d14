"""What a task that its project's tests judge names: the files, the function and the tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evaluation.project_tests.archive import is_relative


@dataclass(frozen=True, slots=True)
class ProjectTests:
    """`project` and `installed` are the sha256 of the archives of the project's files and of the installed packages.

    The function `qualified` (such as `Table.rows`) starts at `line` of `file`. `tests` are pytest's ids of the tests
    that have to pass; `paths` the folders of the project that are on sys.path.
    """

    project: str
    installed: str
    file: str
    qualified: str
    line: int
    tests: tuple[str, ...]
    paths: tuple[str, ...] = ("",)

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> ProjectTests:
        """From a JSON object. Raises ValueError, which names the field, for one that is not of this form."""
        names = set(cls.__dataclass_fields__)
        if set(content) != names:
            raise ValueError(f"field project_tests: give exactly {', '.join(sorted(names))}")
        for name in ("project", "installed", "file", "qualified"):
            if not isinstance(content[name], str):
                raise ValueError(f"field project_tests: {name} is not a string")
        if type(content["line"]) is not int:
            raise ValueError("field project_tests: line is not a whole number")
        for name in ("tests", "paths"):
            if not isinstance(content[name], list | tuple) or not all(isinstance(each, str) for each in content[name]):
                raise ValueError(f"field project_tests: {name} is not a list of strings")
        spec = cls(**{**content, "tests": tuple(content["tests"]), "paths": tuple(content["paths"])})
        if not spec.tests:
            raise ValueError("field project_tests: tests is empty")
        if not all(is_relative(path) for path in (spec.file, *filter(None, spec.paths))):
            raise ValueError("field project_tests: file and paths must lie inside the project")
        return spec

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {**asdict(self), "tests": list(self.tests), "paths": list(self.paths)}
