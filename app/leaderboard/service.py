"""The leaderboard at a budget."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.orm import Session

from app.errors import BadInput
from app.leaderboard import repository
from app.runs.models import Run
from app.states import RunState
from evaluation.metrics import wilson

FINGERPRINTED = (
    "target",
    "drafter",
    "draft_length",
    "acceptance",
    "dtype",
    "device",
    "n",
    "budget_s",
    "temperature",
    "top_p",
    "seed",
    "max_tokens",
    "prompt_mode_used",
    "throughput",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One run on the board. `rank` is None for a run that is not ranked, and `label` says why.

    `budget_s` is the budget the shares were read at: the one asked for, or the run's own where that is shorter
    (`capped`: the run stopped there, so its shares are lower bounds). `n_tasks` of `dataset_tasks` were graded.
    Intervals are Wilson's at 95 %. `ms_per_token` is over all samples; times in seconds.
    """

    run: Run
    rank: int | None
    label: str | None
    budget_s: float
    capped: bool
    pass_first: float
    pass_first_interval: tuple[float, float]
    pass_all: float
    pass_all_interval: tuple[float, float]
    ranking_loss: float
    n_tasks: int
    dataset_tasks: int
    first_finished_p50_s: float | None
    first_finished_p95_s: float | None
    ms_per_token: float | None
    mean_acceptance_length: float | None
    device: str
    fingerprint: str


def rows(
    session: Session, budget_s: float | None = None, *, dataset: str | None = None, target: str | None = None
) -> list[Row]:
    """The board at `budget_s` seconds (None: each run at its own budget), best Pass@First first.

    Ranked are finished runs over a whole dataset, among those of the same dataset content and device, ties sharing a
    rank; the others follow in the order of their figures with a label. Raises BadInput for a budget not above 0.
    """
    if budget_s is not None and not budget_s > 0:
        raise BadInput(f"budget is {budget_s:g}: it must be above 0 seconds", "budget")
    unranked = [_row(run, budget_s) for run in repository.runs_with_curves(session, dataset=dataset, target=target)]
    unranked.sort(key=lambda row: (row.label is not None, -row.pass_first, -row.pass_all))
    board: list[Row] = []
    placed: dict[tuple[str, str], list[Row]] = {}
    for row in unranked:
        if row.label is not None:
            board.append(row)
            continue
        above = placed.setdefault((row.run.dataset.sha256, row.device), [])
        tied = above and (above[-1].pass_first, above[-1].pass_all) == (row.pass_first, row.pass_all)
        above.append(replace(row, rank=above[-1].rank if tied else len(above) + 1))
        board.append(above[-1])
    return board


def at_budget(run: Run, budget_s: float | None) -> tuple[float, float, float]:
    """(budget in force, Pass@First, Pass@All) of an ended run: the step function at the grid point not above it."""
    curve = run.curve
    if curve is None:
        raise ValueError(f"run {run.id} has no curve yet")
    budget = min(budget_s or run.budget_s, run.budget_s)
    point = bisect_right(curve.budgets, budget) - 1
    return (budget, curve.pass_first[point], curve.pass_all[point]) if point >= 0 else (budget, 0.0, 0.0)


def fingerprint(run: Run) -> str:
    """Eight characters that are equal for runs of the same configuration on the same dataset and models."""
    content: dict[str, Any] = {name: getattr(run, name) for name in FINGERPRINTED}
    content["dataset"] = run.dataset.sha256
    content["models"] = [run.provenance.get("target_sha256"), run.provenance.get("draft_sha256")]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]


def _row(run: Run, budget_s: float | None) -> Row:
    assert run.curve is not None
    figures, n_tasks = run.figures or {}, run.curve.n_tasks
    budget, first, every = at_budget(run, budget_s)
    return Row(
        run=run,
        rank=None,
        label=_label(run),
        budget_s=budget,
        capped=budget_s is not None and budget < budget_s,
        pass_first=first,
        pass_first_interval=wilson(round(first * n_tasks), n_tasks),
        pass_all=every,
        pass_all_interval=wilson(round(every * n_tasks), n_tasks),
        ranking_loss=every - first,
        n_tasks=n_tasks,
        dataset_tasks=run.dataset.n_tasks,
        first_finished_p50_s=figures.get("first_finished_p50_s"),
        first_finished_p95_s=figures.get("first_finished_p95_s"),
        ms_per_token=figures.get("ms_per_token_all"),
        mean_acceptance_length=figures.get("mean_acceptance_length"),
        device=str(run.provenance.get("device_name") or run.provenance.get("device") or run.device),
        fingerprint=fingerprint(run),
    )


def _label(run: Run) -> str | None:
    assert run.curve is not None
    if run.state is not RunState.FINISHED:
        return str(run.state)
    if run.throughput:
        return "throughput"  # its times are those of an engine that tasks share
    missing = run.dataset.n_tasks - len(run.excluded) - run.curve.n_tasks
    return f"{run.curve.n_tasks} of {run.dataset.n_tasks} tasks" if missing > 0 else None
