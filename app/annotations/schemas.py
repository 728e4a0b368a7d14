"""Annotations in requests and answers, and as text: fields of documents, the body of a change, the filter of lists."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool

from app.annotations.models import Annotatable
from app.core.db.storable import InputText
from app.web.http.paging import PageQuery
from app.web.http.schemas import RequestModel

LONGEST_NOTE = 10_000

NoteField = Annotated[str, Field(description="plain text; empty: none")]
ArchivedField = Annotated[
    bool, Field(description="left out of lists, the leaderboard and the answer of the first page")
]


def _tidy_note(note: str) -> str:
    """The note without blanks at its ends, and with the line ends that the database has: browsers send CR LF."""
    return note.replace("\r\n", "\n").strip()


Note = Annotated[InputText, Field(max_length=LONGEST_NOTE), AfterValidator(_tidy_note)]


class AnnotationChanges(RequestModel):
    """A change; fields that are null or left out stay as they are."""

    note: Note | None = Field(None, description="plain text; replaces the present note, and empty text removes it")
    archived: StrictBool | None = Field(
        None, description="whether it is left out of lists, the leaderboard and the answer of the first page"
    )

    def apply_to(self, row: Annotatable) -> None:
        """Changes the row, in the transaction of the caller."""
        for name, value in self.model_dump(exclude_none=True).items():
            setattr(row, name, value)


class ArchivedQuery(PageQuery):
    """The query of a list of runs or studies."""

    archived: bool = Field(False, description="archived ones as well")


def list_annotations(note: str, *, archived: bool) -> list[tuple[str, str]]:
    """The annotations as label and value, without absent ones."""
    return [*([("Note", note)] if note else []), *([("Archived", "yes")] if archived else [])]
