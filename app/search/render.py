"""Search results as documents of app/search/documents.py."""

from __future__ import annotations

from app.search.documents import ExcerptDocument, HitDocument, SearchPage
from app.search.excerpts import Part
from app.search.service import Found, Hit


def page(found: Found) -> SearchPage:
    """The page with its cursor."""
    return SearchPage(samples=[_hit(hit) for hit in found.hits], next=cursor(found), unread_tasks=found.unread)


def cursor(found: Found) -> str | None:
    """Where the next page begins, as text."""
    return f"{found.following.row}.{found.following.sample}" if found.following else None


def _hit(hit: Hit) -> HitDocument:
    return HitDocument(
        run_id=hit.run_id,
        run=hit.run_name,
        target=hit.target,
        dataset=hit.dataset,
        task_id=hit.task_id,
        index=hit.index,
        verdict=hit.verdict,
        failure=hit.failure,
        message=hit.message,
        failing_assert=hit.line,
        excerpts=[_excerpt(hit.excerpt.where, part) for part in hit.excerpt.parts],
    )


def _excerpt(where: str, part: Part) -> ExcerptDocument:
    marks, at = [], 0
    for text, marked in part:
        if marked:
            marks.append((at, at + len(text)))
        at += len(text)
    return ExcerptDocument(where=where, text="".join(text for text, _ in part), marks=marks)
