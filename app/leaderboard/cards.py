"""Where the answer on the first page comes from, and the answers that the web process keeps."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from app.leaderboard import repository
from app.leaderboard.answer import Card, of_runs, of_study
from app.leaderboard.entries import ELSEWHERE, Entry
from app.leaderboard.repository import StudyVersion
from app.states import RunState
from app.versioned_cache import VersionedCache

ENOUGH = 20  # common tasks: with fewer, a study at work gives no answer yet, and an ended one only if there is no other
LOOK_EVERY = 8  # tasks of a study at work: looking more often would take the machine from what it measures
KEPT = 20  # datasets


@dataclass(frozen=True, slots=True)
class Source:
    """What an answer is computed from: a study, or runs that compare. `version` changes when the answer does."""

    version: object
    study_id: uuid.UUID | None = None
    runs: Sequence[Entry] = ()

    def card(self, session: Session) -> Card | None:
        """The answer."""
        return of_study(session, self.study_id) if self.study_id else of_runs(session, self.runs)


class Cards:
    """The answer for each dataset, computed again when its source has changed. Threads may share it."""

    def __init__(self) -> None:
        self._kept: VersionedCache[str, Card | None] = VersionedCache(KEPT)

    def read(self, session: Session, entries: Sequence[Entry], dataset: str = "") -> Card | None:
        """The answer over a dataset ("": over any); None where nothing has been measured that could give one."""
        source = source_of(repository.studies(session, dataset), entries, dataset)
        if source is None:
            return None
        return self._kept.get(dataset, source.version, lambda: source.card(session))


def source_of(studies: Sequence[StudyVersion], entries: Sequence[Entry], dataset: str = "") -> Source | None:
    """The newest study of this service; else runs over the same tasks; else a study that was measured elsewhere.

    `studies` are the newest first. A study at work counts from ENOUGH common tasks on.
    """
    usable = [study for study in studies if study.n_tasks >= (ENOUGH if study.at_work else 1)]
    usable.sort(key=lambda study: (study.elsewhere, study.n_tasks < ENOUGH))
    if usable and not usable[0].elsewhere:
        return _of_study(usable[0])
    runs = _largest(entries, dataset)
    if runs:
        return Source(tuple(run.version.result for run in runs), runs=runs)
    return _of_study(usable[0]) if usable else None


def _of_study(study: StudyVersion) -> Source:
    looked_at = study.n_tasks // LOOK_EVERY if study.at_work else study.n_tasks
    return Source((study.arms, looked_at), study.id)


def _largest(entries: Sequence[Entry], dataset: str) -> Sequence[Entry]:
    """The most finished runs that compare and are not archived; those over whole datasets before others.

    Empty where there is none.
    """
    groups: defaultdict[object, list[Entry]] = defaultdict(list)
    for run in entries:
        fits = run.state is RunState.FINISHED and not run.throughput and run.label != ELSEWHERE and not run.archived
        if fits and (not dataset or run.dataset == dataset):
            groups[run.group].append(run)
    return max(groups.values(), key=lambda runs: (runs[0].label is None, len(runs), runs[0].n_tasks), default=())
