"""Where the answer on the first page comes from, and the answers that the web process keeps."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy.orm import Session

from app.core.states import RunState
from app.core.versioned_cache import VersionedCache
from app.leaderboard import repository
from app.leaderboard.answer import Card, of_runs, of_study
from app.leaderboard.entries import ELSEWHERE, Entry
from app.leaderboard.repository import StudyVersion

ENOUGH = 20  # common tasks: fewer give no answer
LOOK_EVERY = 8  # tasks of a running study: looking more often would take the machine from what it measures
KEPT = 20  # answers


@dataclass(frozen=True, slots=True)
class Source:
    """What an answer is computed from: a study, or runs that compare. `version` changes when the answer does."""

    version: object
    study_id: uuid.UUID | None = None
    runs: Sequence[Entry] = ()

    def card(self, session: Session) -> Card | None:
        """The answer; None where fewer than ENOUGH tasks are common to what compares."""
        found = of_study(session, self.study_id) if self.study_id else of_runs(session, self.runs)
        return found if found and found.n_tasks >= ENOUGH else None


class Cards:
    """The answers, each computed again when its source has changed. Threads may share it."""

    def __init__(self) -> None:
        self._kept: VersionedCache[tuple[str, uuid.UUID | None], Card | None] = VersionedCache(KEPT)

    def read(self, session: Session, entries: Sequence[Entry], dataset: str = "") -> Card | None:
        """The answer over a dataset ("": over any); None where nothing has been measured that could give one."""
        found = (
            self._kept.get((dataset, source.study_id), source.version, partial(source.card, session))
            for source in sources(repository.studies(session, dataset), entries, dataset)
        )
        return next((card for card in found if card), None)


def sources(studies: Sequence[StudyVersion], entries: Sequence[Entry], dataset: str = "") -> Iterator[Source]:
    """What may give the answer, the best first.

    That is the newest study of this service, then older ones, then runs over the same tasks, then studies that were
    measured elsewhere, each over ENOUGH tasks; studies with a disturbed clock come after the others. `studies` and
    `entries` are the newest first.
    """
    enough = sorted((study for study in studies if study.n_tasks >= ENOUGH), key=lambda study: study.disturbed)
    yield from (_of_study(study) for study in enough if not study.elsewhere)
    if runs := _largest(entries, dataset):
        yield Source(tuple(run.result for run in runs), runs=runs)
    yield from (_of_study(study) for study in enough if study.elsewhere)


def newest_run(entries: Sequence[Entry], dataset: str = "") -> Entry | None:
    """The newest run that gives an answer once it has ENOUGH tasks. `entries` are the newest first."""
    return next((run for run in entries if _fits(run, dataset)), None)


def _of_study(study: StudyVersion) -> Source:
    looked_at = study.n_tasks // LOOK_EVERY if study.in_progress else study.n_tasks
    return Source((study.arms, looked_at), study.id)


def _largest(entries: Sequence[Entry], dataset: str) -> Sequence[Entry]:
    """The most runs that compare over ENOUGH tasks; those over whole datasets before others. Empty if there is none."""
    groups: defaultdict[object, list[Entry]] = defaultdict(list)
    for run in entries:
        if _fits(run, dataset) and run.n_tasks >= ENOUGH:
            groups[run.group].append(run)
    return max(groups.values(), key=lambda runs: (runs[0].label is None, len(runs), runs[0].n_tasks), default=())


def _fits(run: Entry, dataset: str) -> bool:
    """Whether the run is over the dataset and of a kind that can give an answer: finished here, with own times."""
    usable = run.state is RunState.FINISHED and not run.throughput and run.label != ELSEWHERE and not run.archived
    return usable and (not dataset or run.dataset == dataset)
