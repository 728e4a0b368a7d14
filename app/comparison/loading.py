"""Loads the runs named in an address, with their samples over the tasks that all of them have graded."""

from __future__ import annotations

import string
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session, contains_eager, defer, joinedload, selectinload

from app.core.errors import BadInputError, BasslineError, NotFoundError
from app.datasets.models import Task
from app.runs.labels import label_runs
from app.runs.models import Run, RunTask
from app.runs.outcomes import SampleRow, pair_outcomes, read_samples, read_task_ids
from app.runs.service import check_comparable
from app.samples.models import Sample
from app.studies.repository import are_arms_of_one_study, count_rivals
from app.web.ui.units import format_seconds
from evaluation.paired_runs import PairedRuns

_SAMPLE_COLUMNS = (
    Sample.run_task_id,
    Sample.index,
    Sample.verdict,
    Sample.verdict_detail,
    Sample.finish_reason,
    Sample.finished_s,
    Sample.mean_logprob,
)


def find_runs(session: Session, run_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Run]:
    """The runs that are shown, with their dataset, by id."""
    query = select(Run).where(Run.id.in_(run_ids), Run.is_shown()).options(joinedload(Run.stored_dataset))
    return {run.id: run for run in session.scalars(query)}


def load_task_rows(session: Session, run_ids: Collection[uuid.UUID], task_id: str) -> dict[uuid.UUID, RunTask]:
    """One task of these runs with its samples, by run id; runs without the task are missing.

    The texts of a sample are read when they are asked for.
    """
    query = (
        select(RunTask)
        .join(RunTask.task)
        .where(RunTask.run_id.in_(run_ids), Task.task_id == task_id)
        .options(
            contains_eager(RunTask.task),
            defer(RunTask.prompt_sent, raiseload=True),
            selectinload(RunTask.samples).load_only(*_SAMPLE_COLUMNS),
        )
    )
    return {row.run_id: row for row in session.scalars(query)}


LETTERS = (*string.ascii_uppercase, *(f"A{letter}" for letter in string.ascii_uppercase))
MIN_RUNS = 2
MAX_RUNS = 32  # as many as a study has arms
MAX_SAMPLES = 400_000  # of all runs together: about a second of work
SELECT_RUNS_HINT = "on the leaderboard, on Runs or among the arms of a study"


@dataclass(frozen=True, slots=True)
class Overlay:
    """Runs over their common tasks. The first run is the baseline run."""

    runs: tuple[Run, ...]
    letters: tuple[str, ...]  # by position in the address, so leaving out one run keeps the letters of the others
    left_out: tuple[BasslineError, ...]  # why runs that were asked for are not in `runs`
    graded: tuple[int, ...]  # how many tasks each run has graded
    samples: tuple[SampleRow, ...]  # of the common tasks, in the order of the columns of the outcomes
    paired_runs: PairedRuns
    in_turn: bool  # whether the runs are arms of one study

    @property
    def task_ids(self) -> tuple[str, ...]:
        """The tasks that all runs have graded, in the order of the dataset."""
        return self.paired_runs.task_ids

    @property
    def max_budget_s(self) -> float:
        """The shortest budget of the runs in seconds: past it, one of them has only a lower bound."""
        return self.paired_runs.end_s

    def require_measured(self, budget_s: float | None) -> None:
        """Raises BadInputError for a budget past the shortest of the runs."""
        if budget_s is not None and budget_s > self.max_budget_s:
            _, letter = min(zip(self.runs, self.letters, strict=True), key=lambda pair: pair[0].budget_s)
            raise BadInputError(
                f"budget is {budget_s:g}: run {letter} stopped at {format_seconds(self.max_budget_s)}, so give at most "
                "that or leave the run out",
                "budget",
            )

    @property
    def labels(self) -> list[str]:
        """A short name of each run."""
        return label_runs(self.runs)


def parse_ids(texts: Iterable[str]) -> list[uuid.UUID]:
    """The ids of the runs, each once, from texts of one or more comma-separated ids. Raises BadInputError."""
    words = dict.fromkeys(word.strip() for text in texts for word in text.split(",") if word.strip())
    ids = list(dict.fromkeys(parse_id(word) for word in words))
    if len(ids) < MIN_RUNS:
        raise BadInputError(f"select at least two runs {SELECT_RUNS_HINT}", "runs")
    if len(ids) > MAX_RUNS:
        raise BadInputError(f"runs names {len(ids)} runs: an overlay holds at most {MAX_RUNS}, leave some out", "runs")
    return ids


def parse_id(text: str, field: str = "runs") -> uuid.UUID:
    """The id of a run. Raises BadInputError, which names `field`."""
    try:
        return uuid.UUID(text)
    except ValueError:
        raise BadInputError(
            f"{text[:60]!r} in {field} is not a run's id: select runs {SELECT_RUNS_HINT}", field
        ) from None


def put_baseline_first(ids: Sequence[uuid.UUID], baseline: uuid.UUID | None) -> list[uuid.UUID]:
    """The ids with the baseline in front. Raises BadInputError if it is not one of them."""
    if baseline is None:
        return list(ids)
    if baseline not in ids:
        raise BadInputError(f"baseline is {baseline}: give one of the runs of the overlay", "baseline")
    return [baseline, *(run_id for run_id in ids if run_id != baseline)]


def load_overlay(session: Session, ids: Sequence[uuid.UUID], *, details: bool = False) -> Overlay:
    """The runs with their samples; with `details`, also the verdict details that tell failure classes apart.

    Runs that do not exist or have no graded task are left out. Raises BadInputError or NotFoundError where fewer than
    two are left, for runs over different datasets or without a common task, and for more samples than a page can work
    on.
    """
    known = find_runs(session, ids)
    missing = [
        NotFoundError(f"there is no run {run_id}: it may have been deleted, so leave it out")
        for run_id in ids
        if run_id not in known
    ]
    runs = [known[run_id] for run_id in ids if run_id in known]
    if len(runs) < MIN_RUNS:
        raise missing[0]
    for other in runs[1:]:
        check_comparable(runs[0], other)
    if (most := sum(run.n_tasks * run.n for run in runs)) > MAX_SAMPLES:
        raise BadInputError(
            f"these runs have {most:,} samples: choose runs with at most {MAX_SAMPLES:,} together", "runs"
        )
    letters = [letter for letter, run_id in zip(LETTERS, ids, strict=False) if run_id in known]
    rows = read_samples(session, [run.id for run in runs], details=details)
    return build_overlay(session, runs, rows, read_task_ids(session, ids), letters, missing)


def build_overlay(
    session: Session,
    runs: Sequence[Run],
    rows: Sequence[SampleRow],
    task_ids: Mapping[int, str],
    letters: Sequence[str] = LETTERS,
    missing: Sequence[BasslineError] = (),
) -> Overlay:
    """The runs of one dataset over the tasks that all of them have graded, given all their samples.

    `task_ids` maps the position of a task in the dataset to its id. Raises BadInputError.
    """
    paired = pair_outcomes(len(runs), rows, task_ids)
    sentences = [
        *(f"the samples of {runs[place].name!r} have no finish times, so nothing is known at a budget"
          for place in paired.untimed),
        *(f"{runs[place].name!r} has no graded task: leave it out, or wait until it has one" for place in paired.empty),
    ]  # fmt: skip
    left_out = [*missing, *(BadInputError(sentence, "runs") for sentence in sentences)]
    kept = [runs[place] for place in paired.places]
    if len(kept) < MIN_RUNS:
        raise left_out[0]
    if paired.outcomes is None:
        raise BadInputError(
            f"these {len(kept)} runs have no graded task in common: choose runs over the same tasks", "runs"
        )
    ids = [run.id for run in kept]
    return Overlay(
        runs=tuple(kept),
        letters=tuple(letters[place] for place in paired.places),
        left_out=tuple(left_out),
        graded=paired.graded,
        samples=paired.samples,
        paired_runs=PairedRuns(paired.outcomes, min(run.budget_s for run in kept), count_rivals(session, ids)),
        in_turn=are_arms_of_one_study(session, ids),
    )
