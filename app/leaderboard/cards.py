"""Where the answer on the first page comes from, and the answers that the web process keeps."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial

from sqlalchemy.orm import Session

from app.core.states import RunState
from app.core.versioned_cache import VersionedCache
from app.leaderboard import repository
from app.leaderboard.answer import Card, Source, make_card
from app.leaderboard.entries import ELSEWHERE, Entry
from evaluation.metrics import BUDGET_GRID

ENOUGH = 20  # common tasks: fewer give no answer
COMPARED = 8  # runs that an answer without a study compares: reading the samples of one takes tenths of a second
KEPT = 20  # answers


class Cards:
    """The answers, each computed again when its source has changed. Threads may share it."""

    def __init__(self) -> None:
        self._kept: VersionedCache[tuple[str, uuid.UUID | None], Card | None] = VersionedCache(KEPT)

    def read(self, session: Session, entries: Sequence[Entry], dataset: str = "") -> Card | None:
        """The answer over a dataset ("": over any); None where nothing has been measured that could give one."""
        for source in list_sources(session, entries, dataset):
            key = dataset, source.study.id if source.study else None
            card = self._kept.get(key, source.version, partial(make_card, session, source))
            if card is not None and card.n_tasks >= ENOUGH:
                return card
        return None


def list_sources(session: Session, entries: Sequence[Entry], dataset: str = "") -> Iterator[Source]:
    """What may give the answer, the best first.

    That is the newest study of this service that has ended, then older ones, then runs over the same tasks, then
    studies that were measured elsewhere, each over ENOUGH tasks; studies with a disturbed clock come after the others.
    `entries` are the newest first.
    """
    by_id, studies = {run.id: run for run in entries}, []
    for study in repository.list_ended_studies(session, dataset):
        runs = [by_id[run_id] for run_id in study.arms if run_id in by_id]
        if len(runs) == len(study.arms) and (source := Source(runs, study, len(runs))).n_tasks >= ENOUGH:
            studies.append((study, source))
    studies.sort(key=lambda found: bool(found[1].disturbed))
    yield from (source for study, source in studies if study.elsewhere is None)
    if runs := _find_largest_group(entries, dataset):
        yield Source(_select_best(runs), of_runs=len(runs))
    yield from (source for study, source in studies if study.elsewhere is not None)


def newest_run(entries: Sequence[Entry], dataset: str = "") -> Entry | None:
    """The newest run that gives an answer once it has ENOUGH tasks. `entries` are the newest first."""
    return next((run for run in entries if _can_answer(run, dataset)), None)


def _find_largest_group(entries: Sequence[Entry], dataset: str) -> list[Entry]:
    """The most runs that compare over ENOUGH tasks; those over whole datasets before others. Empty if there is none."""
    groups: defaultdict[object, list[Entry]] = defaultdict(list)
    for run in entries:
        if _can_answer(run, dataset) and run.n_tasks >= ENOUGH:
            groups[run.group].append(run)
    return max(groups.values(), key=lambda runs: (runs[0].label is None, len(runs), runs[0].n_tasks), default=[])


def _can_answer(run: Entry, dataset: str) -> bool:
    """Whether the run is over the dataset and of a kind that can give an answer: finished here, with own times."""
    usable = run.state is RunState.FINISHED and not run.throughput and run.label != ELSEWHERE and not run.archived
    return usable and (not dataset or run.dataset == dataset)


def _select_best(runs: Sequence[Entry]) -> list[Entry]:
    """The runs to compare, at most COMPARED: those that lead at the most budgets, then those with the best curves."""
    shares = {run.id: [run.curve.at(budget) for budget in BUDGET_GRID] for run in runs}
    best = [max(at) for at in zip(*shares.values(), strict=True)]

    def merit(run: Entry) -> tuple[int, float]:
        own = shares[run.id]
        return sum(a == b for a, b in zip(own, best, strict=True)), sum(first for first, _ in own)

    return sorted(runs, key=merit, reverse=True)[:COMPARED]
