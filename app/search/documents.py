"""Search results as the API and `--json` show them."""

from __future__ import annotations

import uuid

from pydantic import Field

from app.runs.indexing import TEXTS
from app.search.excerpts import Part
from app.search.service import Found
from app.web.http.schemas import ResponseModel


class ExcerptDocument(ResponseModel):
    """A part of one text of a sample. Offsets count characters."""

    where: str = Field(description=f"the text: {', '.join(TEXTS[:-1])} or {TEXTS[-1]}")
    text: str
    marks: list[tuple[int, int]] = Field(description="beginning and end of each match of a term in `text`")


class HitDocument(ResponseModel):
    """A sample that fits."""

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
    excerpts: list[ExcerptDocument] = Field(description="the lines with the words; empty without words")


class SearchPage(ResponseModel):
    """Samples, newest task first."""

    samples: list[HitDocument]
    next: str | None = Field(description="there may be more: a page can hold fewer samples than `limit`, even none")


def page(found: Found) -> SearchPage:
    """The page with its cursor."""
    samples = [
        HitDocument.of(
            hit,
            run=hit.run_name,
            failing_assert=hit.line,
            excerpts=[_excerpt(hit.excerpt.where, part) for part in hit.excerpt.parts],
        )
        for hit in found.hits
    ]
    return SearchPage(samples=samples, next=found.next)


def _excerpt(where: str, part: Part) -> ExcerptDocument:
    marks, at = [], 0
    for text, marked in part:
        if marked:
            marks.append((at, at + len(text)))
        at += len(text)
    return ExcerptDocument(where=where, text="".join(text for text, _ in part), marks=marks)
