"""Annotations in requests and answers: the fields of documents, the body of a change, the filters of lists."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, StrictBool, WithJsonSchema, model_validator

from app.annotations.selection import Selection
from app.annotations.tags import LONGEST_TAG, MOST_TAGS, PATTERN, lowered
from app.core.db.storable import Text
from app.web.http.paging import PageQuery
from app.web.http.schemas import RequestModel

LONGEST_NOTE = 10_000

TagsOf = Annotated[tuple[str, ...], Field(description="in alphabetical order")]
NoteOf = Annotated[str, Field(description="plain text; empty: none")]
StarredOf = Annotated[bool, Field(description="marked as worth finding again")]
ArchivedOf = Annotated[bool, Field(description="left out of lists, the leaderboard and the answer of the first page")]


def _tidy(note: str) -> str:
    """The note without blanks at its ends, and with the line ends that the database has: browsers send CR LF."""
    return note.replace("\r\n", "\n").strip()


Tag = Annotated[
    str, AfterValidator(lowered), WithJsonSchema({"type": "string", "pattern": PATTERN, "maxLength": LONGEST_TAG})
]
Tags = Annotated[tuple[Tag, ...], Field(max_length=MOST_TAGS)]
Note = Annotated[Text, Field(max_length=LONGEST_NOTE), AfterValidator(_tidy)]


class Changes(RequestModel):
    """A change; fields that are null or left out stay as they are. Tags become lower-case and unique."""

    tags: Tags | None = Field(None, description="all its tags; they replace the present ones")
    add_tags: Tags = Field((), description="tags to add")
    remove_tags: Tags = Field((), description="tags to remove; a tag that it does not have is ignored")
    note: Note | None = Field(None, description="plain text; replaces the present note, and empty text removes it")
    starred: StrictBool | None = Field(None, description="whether it is marked as worth finding again")
    archived: StrictBool | None = Field(
        None, description="whether it is left out of lists, the leaderboard and the answer of the first page"
    )

    @model_validator(mode="after")
    def _tags_are_given_one_way(self) -> Self:
        if self.tags is not None and (self.add_tags or self.remove_tags):
            raise ValueError("tags is given with add_tags or remove_tags: give either all tags or what changes")
        return self


class AnnotatedQuery(PageQuery):
    """The query of a list of what people annotate."""

    tag: Tag | None = Field(None, description="only with this tag")
    starred: bool = Field(False, description="only starred ones")
    archived: bool = Field(False, description="archived ones as well")

    def selection(self) -> Selection:
        """These filters."""
        return Selection(tag=self.tag, starred=self.starred, archived=self.archived)
