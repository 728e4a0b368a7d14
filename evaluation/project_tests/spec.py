"""What a task judged by its project's tests specifies: files, function and tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from evaluation.project_tests.archive import is_relative

MAX_MEMORY_MIB = 1024
_OPTIONAL: Mapping[str, Any] = {"options": [], "environment": {}, "writes": False, "memory_mib": MAX_MEMORY_MIB}
_Name = Annotated[str, Field(pattern=r"^[^=\x00]+$")]
_Value = Annotated[str, Field(pattern=r"^[^\x00]*$")]


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
    tests: Annotated[tuple[str, ...], Field(min_length=1)]
    paths: tuple[str, ...] = ("",)
    options: tuple[str, ...] = ()
    environment: Mapping[_Name, _Value | None] = field(default_factory=dict, hash=False)
    writes: bool = False
    memory_mib: Annotated[int, Field(ge=1, le=MAX_MEMORY_MIB)] = MAX_MEMORY_MIB

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", strict=True)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> ProjectTests:
        """From a JSON object. Raises ValueError, which names the field, for one that is not of this form."""
        try:
            spec = _ADAPTER.validate_json(json.dumps(dict(content), default=dict))
        except ValidationError as error:
            fault = error.errors()[0]
            raise ValueError(f"field project_tests: {'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None
        if not all(is_relative(path) for path in (spec.file, *filter(None, spec.paths))):
            raise ValueError("field project_tests: file and paths must lie inside the project")
        return spec

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; optional fields only where they differ from the default."""
        stored = {each.name: getattr(self, each.name) for each in fields(self)}
        content: dict[str, Any] = json.loads(json.dumps(stored, default=dict))
        return {name: value for name, value in content.items() if name not in _OPTIONAL or value != _OPTIONAL[name]}


_ADAPTER = TypeAdapter(ProjectTests)
