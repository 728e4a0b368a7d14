"""What every format of dataset files shares: its interface, and fields that are checked as they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeAlias

from evaluation.datasets import LeftOutTask, Task
from evaluation.languages import registry

Record: TypeAlias = Mapping[str, Any]
"""One JSON object of a dataset file."""


class RecordError(ValueError):
    """A record that is not a task; the message starts with the field. The reader adds file and line."""


class LeftOutError(Exception):
    """A task that cannot be judged, and why; the rest of its file can be used."""

    def __init__(self, task_id: str, reason: str) -> None:
        super().__init__(f"{task_id}: {reason}")
        self.left_out = LeftOutTask(task_id, reason)


class TrackedRecord(Record):
    """A record that knows which of its fields were read."""

    def __init__(self, fields: Record) -> None:
        self._fields = fields
        self._read: set[str] = set()

    @property
    def unread(self) -> list[str]:
        """The fields that nobody has read."""
        return [name for name in self._fields if name not in self._read]

    def __getitem__(self, name: str) -> Any:
        self._read.add(name)
        return self._fields[name]

    def __contains__(self, name: object) -> bool:
        return name in self._fields  # a look for a field does not read it

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


class Format(Protocol):
    """The module of one format."""

    def matches(self, record: Record, /) -> bool:
        """Whether a record is of it."""

    def to_task(self, record: Record, /) -> Task:
        """The task in a record, with the strings that end an answer to it. Raises RecordError and LeftOutError."""


def get_language(record: Record) -> str:
    """The language of a task, one that can be judged. Raises RecordError."""
    language = get_text(record, "language")
    try:
        registry.load_language(language)
    except registry.UnknownLanguageError as error:
        raise RecordError(f"field language: {error}") from None
    return language


def get_text(record: Record, field: str, default: str | None = None) -> str:
    """A string, not blank unless there is a `default`, used where the field is left out. Raises RecordError."""
    value = record.get(field, default)
    if value is None:
        raise RecordError(f"field {field}: is missing, give a string")
    if not isinstance(value, str):
        raise RecordError(f"field {field}: is a {type(value).__name__}, give a string")
    if default is None and not value.strip():
        raise RecordError(f"field {field}: is empty")
    return value


def get_optional_text(record: Record, field: str) -> str | None:
    """A string, which may be blank or left out. Raises RecordError."""
    value = record.get(field)
    if value is not None and not isinstance(value, str):
        raise RecordError(f"field {field}: is a {type(value).__name__}, give a string or leave it out")
    return value


def get_mapping(record: Record, field: str) -> dict[str, Any] | None:
    """The JSON object in an optional field. Raises RecordError."""
    value = record.get(field)
    if value is not None and not isinstance(value, dict):
        raise RecordError(f"field {field}: is a {type(value).__name__}, give an object or leave it out")
    return value


def get_stops(record: Record, field: str = "stop") -> tuple[str, ...]:
    """The strings of an optional field, each once. Raises RecordError."""
    value = record.get(field) or []
    if not isinstance(value, list) or not all(isinstance(stop, str) and stop for stop in value):
        raise RecordError(f"field {field}: give a list of non-empty strings")
    return tuple(dict.fromkeys(value))
