"""From the ids in an address to runs whose samples are over the same tasks."""

from __future__ import annotations

import string
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy.orm import Session

from app.errors import BadInputError, BasslineError, NotFoundError
from app.overlay import repository
from app.overlay.repository import SampleRow
from app.runs.models import Run
from app.runs.service import check_comparable
from app.samples.models import FINISHED_REASONS
from app.states import PASSED, SANDBOX_ERROR
from evaluation.many_runs import ManyRuns, SampleColumns

LETTERS = (*string.ascii_uppercase, *(f"A{letter}" for letter in string.ascii_uppercase))
LEAST_RUNS = 2
MOST_RUNS = 32  # as many as a study has arms
MOST_SAMPLES = 400_000  # of all runs together: about a second of work
WHERE = "on the leaderboard, on Runs or among the arms of a study"


@dataclass(frozen=True, slots=True)
class Overlaid:
    """Runs over their common tasks. The first run is the baseline run."""

    runs: tuple[Run, ...]
    letters: tuple[str, ...]  # from the positions in the address: they stay where another run is left out
    left_out: tuple[BasslineError, ...]  # why runs that were asked for are not in `runs`
    task_ids: tuple[str, ...]  # the tasks that all runs have graded, in the order of the dataset
    graded: tuple[int, ...]  # how many tasks each run has graded
    samples: tuple[SampleRow, ...]  # of the common tasks
    columns: SampleColumns  # the same as arrays, which count runs and tasks as `runs` and `task_ids` do
    measured: ManyRuns  # of these columns

    @property
    def longest_s(self) -> float:
        """The shortest budget of the runs in seconds: past it, one of them has only a lower bound."""
        return min(run.budget_s for run in self.runs)


def parse_ids(texts: Iterable[str]) -> list[uuid.UUID]:
    """The ids of the runs, each once, from texts of one or more comma-separated ids. Raises BadInputError."""
    words = dict.fromkeys(word.strip() for text in texts for word in text.split(",") if word.strip())
    ids = list(dict.fromkeys(parse_id(word) for word in words))
    if len(ids) < LEAST_RUNS:
        raise BadInputError(f"select at least two runs {WHERE}", "runs")
    if len(ids) > MOST_RUNS:
        raise BadInputError(f"runs names {len(ids)} runs: an overlay holds at most {MOST_RUNS}, leave some out", "runs")
    return ids


def parse_id(text: str, field: str = "runs") -> uuid.UUID:
    """The id of a run. Raises BadInputError, which names `field`."""
    try:
        return uuid.UUID(text)
    except ValueError:
        raise BadInputError(f"{text[:60]!r} in {field} is not a run's id: select runs {WHERE}", field) from None


def baseline_first(ids: Sequence[uuid.UUID], baseline: uuid.UUID | None) -> list[uuid.UUID]:
    """The ids with the baseline in front. Raises BadInputError if it is not one of them."""
    if baseline is None:
        return list(ids)
    if baseline not in ids:
        raise BadInputError(f"baseline is {baseline}: give one of the runs of the overlay", "baseline")
    return [baseline, *(run_id for run_id in ids if run_id != baseline)]


def load(session: Session, ids: Sequence[uuid.UUID], *, details: bool = False) -> Overlaid:
    """The runs with their samples; `details` reads what tells the classes of failures apart.

    Runs that do not exist or have no graded task are left out. Raises BadInputError or NotFoundError where fewer than
    two are left, for runs over different datasets or without a common task, and for more samples than a page can work
    on.
    """
    found = repository.runs(session, ids)
    missing = [
        NotFoundError(f"there is no run {run_id}: it may have been deleted, so leave it out")
        for run_id in ids
        if run_id not in found
    ]
    runs = [found[run_id] for run_id in ids if run_id in found]
    _require_two(runs, missing)
    for other in runs[1:]:
        check_comparable(runs[0], other)
    if (most := sum(run.n_tasks * run.n for run in runs)) > MOST_SAMPLES:
        raise BadInputError(
            f"these runs have {most:,} samples: choose runs with at most {MOST_SAMPLES:,} together", "runs"
        )
    letters = [letter for letter, run_id in zip(LETTERS, ids, strict=False) if run_id in found]
    rows = repository.samples(session, [run.id for run in runs], details=details)
    return overlay(runs, rows, repository.task_ids(session, ids), letters, missing)


def overlay(
    runs: Sequence[Run],
    rows: Sequence[SampleRow],
    names: Mapping[int, str],
    letters: Sequence[str] = LETTERS,
    missing: Sequence[BasslineError] = (),
) -> Overlaid:
    """The runs of one dataset over the tasks that all of them have graded, given all their samples.

    `names` has the ids of their tasks by their position in the dataset.
    A task is graded if it is finished and the sandbox failed on none of its samples. Raises BadInputError.
    """
    place, position, index, reasons, finished_s, logprob, verdicts, _ = zip(*rows, strict=True) if rows else [()] * 8
    of_run = np.array(place, dtype=np.int64)
    known, of_task = np.unique(np.array(position, dtype=np.int64), return_inverse=True)
    judged, failed = np.zeros((2, len(runs), len(known)), dtype=np.bool_)
    judged[of_run, of_task] = True
    unknown = np.array([verdict in (None, SANDBOX_ERROR) for verdict in verdicts], dtype=np.bool_)
    failed[of_run[unknown], of_task[unknown]] = True
    graded = judged & ~failed

    is_untimed = np.array([r in FINISHED_REASONS and s is None for r, s in zip(reasons, finished_s, strict=True)], bool)
    untimed = np.isin(np.arange(len(runs)), of_run[is_untimed])
    has_graded = np.asarray(graded.any(axis=1))
    kept = has_graded & ~untimed
    left_out = [
        *missing,
        *(
            BadInputError(f"the samples of {run.name!r} have no finish times, so nothing is known at a budget", "runs")
            for run, unknown_times in zip(runs, untimed, strict=True)
            if unknown_times
        ),
        *(
            BadInputError(f"{run.name!r} has no graded task: leave it out, or wait until it has one", "runs")
            for run, has_any in zip(runs, has_graded, strict=True)
            if not has_any
        ),
    ]
    _require_two([run for run, has_any in zip(runs, kept, strict=True) if has_any], left_out)
    common = np.asarray(graded[kept].all(axis=0))
    places = np.flatnonzero(kept).tolist()
    if not common.any():
        raise BadInputError(
            f"these {len(places)} runs have no graded task in common: choose runs over the same tasks", "runs"
        )
    counts = np.flatnonzero(kept[of_run] & common[of_task])
    columns = SampleColumns(
        run=(np.cumsum(kept) - 1)[of_run[counts]],
        task=(np.cumsum(common) - 1)[of_task[counts]],
        index=np.array(index, dtype=np.int64)[counts],
        finished_s=np.array(finished_s, dtype=np.float64)[counts],  # None becomes NaN
        mean_logprob=np.array(logprob, dtype=np.float64)[counts],
        passed=np.array([verdict == PASSED for verdict in verdicts], dtype=np.bool_)[counts],
    )
    return Overlaid(
        runs=tuple(runs[i] for i in places),
        letters=tuple(letters[i] for i in places),
        left_out=tuple(left_out),
        task_ids=tuple(names[at] for at in known[common].tolist()),
        graded=tuple(graded[kept].sum(axis=1).tolist()),
        samples=tuple(rows[i] for i in counts.tolist()),
        columns=columns,
        measured=ManyRuns(len(places), int(common.sum()), columns),
    )


def _require_two(runs: Sequence[Run], left_out: Sequence[BasslineError]) -> None:
    if len(runs) < LEAST_RUNS:
        raise left_out[0]
