"""A search: from words and filters to a page of samples, newest first."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row
from sqlalchemy.orm import Session

from app.core.errors import BadInputError
from app.runs.figures import is_finished
from app.runs.indexing import TEXTS
from app.search import filters, repository
from app.search.excerpts import Excerpt, Part, excerpt, fits, marked
from app.search.schemas import Position, SearchQuery
from app.search.terms import Term, index_words, parse
from evaluation.failures import failure_of
from evaluation.verdicts import Failure

LOOKED_AT = 200  # tasks of which one page reads the samples: a phrase of common words is in many, and fits few
FIRST_CHUNK, LARGEST_CHUNK = 12, 96


@dataclass(frozen=True)
class Hit:
    """A sample that fits. `finished` says whether it did so within its run's budget.

    `message` is its error, `shown_message` the same with the matches of the terms, `line` the assertion that failed.
    """

    run_id: uuid.UUID
    run_name: str
    target: str
    dataset: str
    task_id: str
    index: int
    verdict: str | None
    failure: Failure | None
    finished: bool
    message: str | None
    shown_message: Part
    line: str | None
    excerpt: Excerpt


@dataclass(frozen=True)
class Found:
    """A page of hits, and where the next one begins.

    A page may hold fewer hits than were asked for, even none, while `following` says that older tasks are left: this
    page looked at `looked_at` tasks.
    """

    hits: list[Hit]
    following: Position | None
    looked_at: int

    @property
    def next(self) -> str | None:
        """The cursor of the next page."""
        return f"{self.following.row}.{self.following.sample}" if self.following else None


def search(session: Session, query: SearchQuery) -> Found:
    """The newest samples that hold every term and fulfil every filter. Raises BadInputError."""
    terms = parse(query.q) if query.q.strip() else []
    if not terms and not query.filters:
        raise BadInputError("q is empty: give words to search for, or a filter", "q")
    start = query.position()
    words = [*filters.labels(query), *index_words(terms)]
    tasks = repository.candidates(
        session, words, filters.runs(query), limit=LOOKED_AT + 1, up_to=start.row if start else None
    )
    older = tasks[LOOKED_AT:]
    following = Position(older[0].row, 0) if older else None
    hits: list[Hit] = []
    for task, sample in _samples(session, tasks[:LOOKED_AT], query.verdict):
        if start and task.row == start.row and sample.number < start.sample:
            continue
        hit = _hit(sample, terms, query)
        if hit and len(hits) == query.limit:
            following = Position(task.row, sample.number)
            break
        if hit:
            hits.append(hit)
    return Found(hits, following, min(len(tasks), LOOKED_AT))


def _samples(
    session: Session, tasks: Sequence[repository.Candidate], verdict: str | None
) -> Iterator[tuple[repository.Candidate, Row[*tuple[Any, ...]]]]:
    """The samples of the tasks in their order. The first tasks fill most pages, so few are read at first."""
    begin, size = 0, FIRST_CHUNK
    while chunk := tasks[begin : begin + size]:
        by_task: dict[uuid.UUID, list[Row[*tuple[Any, ...]]]] = {}
        for sample in repository.samples(session, [task.run_task_id for task in chunk], verdict):
            by_task.setdefault(sample.run_task_id, []).append(sample)
        for task in chunk:
            for sample in by_task.get(task.run_task_id, ()):
                yield task, sample
        begin, size = begin + size, min(2 * size, LARGEST_CHUNK)


def _hit(sample: Row[*tuple[Any, ...]], terms: Sequence[Term], query: SearchQuery) -> Hit | None:
    finished = is_finished(sample)
    failure = failure_of(sample.verdict, sample.verdict_detail or "", finished) if sample.verdict else None
    if query.failure and failure != query.failure:
        return None
    texts = {name: text for name in TEXTS if (text := getattr(sample, name))}
    if not fits(texts, terms):
        return None
    return Hit(
        run_id=sample.run_id,
        run_name=sample.run_name,
        target=sample.target,
        dataset=sample.dataset,
        task_id=sample.task_id,
        index=sample.number,
        verdict=sample.verdict,
        failure=failure,
        finished=finished,
        message=sample.verdict_detail,
        shown_message=marked(sample.verdict_detail or "", terms),
        line=sample.failing_assert,
        excerpt=excerpt(texts, terms),
    )
