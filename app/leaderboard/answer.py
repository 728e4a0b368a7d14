"""The answer on the first page: which configuration to use at each budget, and what that is known from."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from sqlalchemy.orm import Session

from app.core.states import RunState
from app.core.versioned_cache import VersionedCache
from app.leaderboard import repository
from app.leaderboard.entries import ELSEWHERE, Entry
from app.leaderboard.repository import EndedStudy
from app.runs.clock import describe_disturbance
from app.runs.labels import short_labels
from app.runs.repository import get_run
from app.studies.analysis import compare_named_runs
from app.studies.sentences import Measured
from app.web.ui.charts.comparison import opening_budget
from evaluation.metrics import BUDGET_GRID
from evaluation.studies.answer import Answer, answer_at
from evaluation.studies.arms import ArmComparison


@dataclass(frozen=True, slots=True)
class Source:
    """What an answer is computed from: the arms of a study, or runs over the same tasks that were not measured in turn.

    `of_runs` is among how many runs these are the best.
    """

    runs: Sequence[Entry]
    study: EndedStudy | None = None
    of_runs: int = 0

    @property
    def version(self) -> object:
        """Changes when the answer does."""
        return tuple(run.result for run in self.runs)

    @property
    def n_tasks(self) -> int:
        """How many tasks every run has graded: at least as many as they have in common."""
        return min(run.n_tasks for run in self.runs)

    @property
    def disturbed(self) -> list[uuid.UUID]:
        """The runs whose clock was disturbed (app/runs/clock.py)."""
        return [run.id for run in self.runs if run.figures.clock_marks]


@dataclass(frozen=True, slots=True)
class Card:
    """The answer at every budget (seconds)."""

    source: Source
    compared: ArmComparison  # the arms over the tasks that all of them have graded
    own_budgets: Sequence[float]  # of each arm: past its own nothing is known of it
    runs: Mapping[str, uuid.UUID]  # of each arm
    labels: Mapping[str, str]  # a short name of each arm
    opening_s: float  # the budget to begin with
    by_budget: dict[float, ArmComparison] = field(
        default_factory=dict
    )  # arms that had so much time, by the least of it

    @property
    def study(self) -> EndedStudy | None:
        """The study that it is from."""
        return self.source.study

    @property
    def n_tasks(self) -> int:
        """How many tasks the arms were compared over."""
        return self.compared.n_tasks

    @property
    def shortest_s(self) -> float:
        """The smallest budget of an arm."""
        return min(self.own_budgets)

    @property
    def budget_s(self) -> float:
        """The largest budget of an arm."""
        return max(self.own_budgets)

    @property
    def measured_here(self) -> bool:
        """Whether this service measured it."""
        return self.study is None or self.study.elsewhere is None

    @property
    def device(self) -> str:
        """Where it was measured."""
        return self.source.runs[0].device.removesuffix(f", {ELSEWHERE}")

    @property
    def disturbance(self) -> str:
        """How a sentence about the arms begins; "" where no clock was disturbed."""
        return describe_disturbance(run.figures for run in self.source.runs)

    @property
    def over(self) -> Measured:
        """What the answer is about."""
        one = self.source.runs[0]
        return Measured(self.n_tasks, one.dataset, one.dataset_tasks)

    @property
    def first_right(self) -> Answer | None:
        """The answer at the first budget with one, None where no chosen sample passed."""
        first_s = self.compared.first_right_s
        return None if first_s is None else self.at(first_s)

    def at(self, budget_s: float) -> Answer | None:
        """The answer at a budget, among the arms that had so much time; None past `budget_s`, where none had."""
        arms = [place for place, own_s in enumerate(self.own_budgets) if own_s >= budget_s]
        if not arms:
            return None
        end_s = min(self.own_budgets[arm] for arm in arms)
        if end_s not in self.by_budget:
            self.by_budget[end_s] = self.compared.select(arms, end_s)
        return answer_at(self.by_budget[end_s], budget_s)


def make_card(session: Session, source: Source) -> Card | None:
    """The answer from this source; None while its runs have no graded task in common."""
    runs, study = source.runs, source.study
    labels = short_labels(
        [study.arms[run.id] if study else run.name for run in runs],
        [run.settings for run in runs],
        [run.created_at for run in runs],
    )
    names = [study.arms[run.id] for run in runs] if study else labels
    named = {name: get_run(session, run.id) for name, run in zip(names, runs, strict=True)}
    compared = compare_named_runs(session, named, max(run.budget_s for run in runs))
    if compared is None:
        return None
    return Card(
        source=source,
        compared=compared,
        own_budgets=[run.budget_s for run in runs],
        runs={name: run.id for name, run in named.items()},
        labels=dict(zip(names, labels, strict=True)),
        opening_s=opening_budget(compared.curves, min(run.budget_s for run in runs)),
    )


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
