"""What a search may say: page, REST and command line check it with this."""

from __future__ import annotations

import uuid

from pydantic import Field, field_validator

from app.core.db.storable import Text
from app.web.http.paging import PageQuery

LONGEST = 1000  # characters of `q`


class SearchQuery(PageQuery):
    """A text that each sample must hold."""

    q: Text = Field(
        max_length=LONGEST, description="a text that stands in a sample's program, raw text or error, in any case"
    )
    run: uuid.UUID | None = Field(None, description="only of the run with this id")

    @field_validator("q")
    @classmethod
    def _not_blank(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("give a text to search for")
        return text
