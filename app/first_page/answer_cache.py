"""Where the answer on the first page comes from, and the answers that the web process keeps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from sqlalchemy.orm import Session

from app.core.states import RunState
from app.core.versioned_cache import VersionedCache
from app.first_page import repository
from app.first_page.answer import AnswerSource, FirstPageAnswer, build_answer
from app.first_page.repository import EndedStudy
from app.leaderboard.entries import MEASURED_ELSEWHERE, LeaderboardEntry
from app.studies.models import ARM
from evaluation.metrics import BUDGET_GRID

MIN_COMMON_TASKS = 20  # common tasks: fewer give no answer
# Runs that an answer without a study compares: reading the samples of one takes tenths of a second.
MAX_COMPARED_RUNS = 8
MAX_CACHED = 20  # answers


class FirstPageAnswerCache:
    """The answers, each computed again when its source has changed. Threads may share it."""

    def __init__(self) -> None:
        self._kept: VersionedCache[object, FirstPageAnswer | None] = VersionedCache(MAX_CACHED)

    def read(self, session: Session, sources: Sequence[AnswerSource]) -> FirstPageAnswer | None:
        """The answer of the first of the `sources` that gives one over MIN_COMMON_TASKS tasks; None where none does."""
        for source in sources:
            compared = source if source.study else replace(source, runs=_select_best(source.runs))
            key = tuple(run.id for run in compared.runs)
            page_answer = self._kept.get(key, compared.version, partial(build_answer, session, compared))
            if page_answer is not None and page_answer.n_tasks >= MIN_COMMON_TASKS:
                return page_answer
        return None


def list_sources(session: Session, entries: Sequence[LeaderboardEntry]) -> list[AnswerSource]:
    """What may give an answer over MIN_COMMON_TASKS tasks, the best first; of equal ones studies, newest first. A study
    with disturbed arms may also answer by the others, where each model has one.

    `entries` are the newest first.
    """
    own_code, by_id = repository.list_own_code_hashes(session), {run.id: run for run in entries}
    found = []
    for study in repository.list_ended_studies(session):
        runs = [by_id[run_id] for run_id in study.run_ids if run_id in by_id]
        if len(runs) == len(study.run_ids):
            is_own_code = runs[0].dataset_sha256 in own_code
            found.append(AnswerSource(runs, len(runs), is_own_code, study))
            undisturbed = _select_undisturbed(runs)
            if len(undisturbed) < len(runs) and {run.target for run in undisturbed} == {run.target for run in runs}:
                found.append(AnswerSource(undisturbed, len(runs), is_own_code, study))
    for runs in _list_groups(entries):
        found.append(AnswerSource(runs, len(runs), runs[0].dataset_sha256 in own_code))
    return sorted(
        (source for source in found if source.n_tasks >= MIN_COMMON_TASKS), key=lambda source: source.preference
    )


def find_newest_run(entries: Sequence[LeaderboardEntry]) -> LeaderboardEntry | None:
    """The newest run of a kind that can give an answer; it may have too few tasks. `entries` are the newest first."""
    return next((run for run in entries if _can_answer(run)), None)


def find_own_code_study(sources: Sequence[AnswerSource], page_answer: FirstPageAnswer | None) -> EndedStudy | None:
    """The study over own code that the page leads to beside its answer; None where it is the answer."""
    studies = (source.study for source in sources if source.is_own_code and source.study)
    return None if page_answer and page_answer.source.is_own_code else next(studies, None)


def _list_groups(entries: Sequence[LeaderboardEntry]) -> Iterator[list[LeaderboardEntry]]:
    """Runs that compare, outside of studies; if some clocks were disturbed, also the undisturbed runs alone."""
    groups: defaultdict[object, list[LeaderboardEntry]] = defaultdict(list)
    for run in entries:
        if _can_answer(run) and run.policy != ARM:
            groups[run.group].append(run)
    for runs in sorted(groups.values(), key=len, reverse=True):
        yield runs
        if 0 < len(undisturbed := _select_undisturbed(runs)) < len(runs):
            yield undisturbed


def _select_undisturbed(runs: Sequence[LeaderboardEntry]) -> list[LeaderboardEntry]:
    return [run for run in runs if not run.figures.clock_marks]


def _can_answer(run: LeaderboardEntry) -> bool:
    """Whether the run is of a kind that can give an answer: finished here, with times of its own."""
    return (
        run.state is RunState.FINISHED
        and not run.throughput
        and run.unranked_reason != MEASURED_ELSEWHERE
        and not run.archived
    )


def _select_best(runs: Sequence[LeaderboardEntry]) -> list[LeaderboardEntry]:
    """At most MAX_COMPARED_RUNS runs: those that lead at the most budgets, then those with the best curves."""
    shares = {run.id: [run.curve.get_shares_at(budget) for budget in BUDGET_GRID] for run in runs}
    best = [max(at) for at in zip(*shares.values(), strict=True)]

    def merit(run: LeaderboardEntry) -> tuple[int, float]:
        own = shares[run.id]
        return sum(a == b for a, b in zip(own, best, strict=True)), sum(first for first, _ in own)

    return sorted(runs, key=merit, reverse=True)[:MAX_COMPARED_RUNS]
