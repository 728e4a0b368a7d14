"""Search results, as the API, `--json` and the page have them."""

from __future__ import annotations

import uuid

from pydantic import Field

from app.web.http.schemas import ResponseModel


class ExcerptDocument(ResponseModel):
    """The line of a sample's text around the first match. Offsets count characters."""

    where: str = Field(description="the text: raw, program, verdict_detail or failing_assert")
    text: str
    marks: list[tuple[int, int]] = Field(description="beginning and end of the match in `text`")


class HitDocument(ResponseModel):
    """A sample that holds the text."""

    run_id: uuid.UUID
    run: str = Field(description="name of the run")
    target: str
    dataset: str
    task_id: str
    index: int
    verdict: str | None
    failure: str | None
    message: str | None = Field(description="why it failed, in one line")
    failing_assert: str | None
    excerpts: list[ExcerptDocument]


class SearchPage(ResponseModel):
    """Samples, newest first."""

    samples: list[HitDocument]
    next: str | None = Field(description="there may be more: a page can hold fewer samples than `limit`, even none")
