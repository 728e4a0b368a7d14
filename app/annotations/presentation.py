"""Annotations as text: the name of a row in a list, and the facts about one row."""

from __future__ import annotations

from typing import Protocol


class Annotated(Protocol):
    """A row or a document with a name and annotations."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def note(self) -> str: ...  # noqa: D102
    @property
    def archived(self) -> bool: ...  # noqa: D102


def name_in_list(row: Annotated) -> str:
    """The name, with "(archived)" after an archived row's."""
    return f"{row.name}{' (archived)' if row.archived else ''}"


def facts(row: Annotated) -> list[tuple[str, str]]:
    """The annotations as label and value, without absent ones."""
    said = [("Note", row.note), ("Archived", "yes" if row.archived else "")]
    return [(label, value) for label, value in said if value]
