"""Curves hold every budget at which a share changes, where they held 64 budgets of a grid"""

import math
from collections.abc import Iterable, Iterator
from itertools import groupby

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

JSON = sa.JSON().with_variant(JSONB(), "postgresql")
SHARES = ("budgets", "pass_first", "pass_all")
CURVES = sa.table("run_curves", sa.column("run_id", sa.Uuid()), *(sa.column(name, JSON) for name in SHARES))
RUNS = sa.table("runs", sa.column("id", sa.Uuid()), sa.column("budget_s"), sa.column("graded"))
JOBS = sa.table("run_tasks", sa.column("id", sa.Uuid()), sa.column("run_id", sa.Uuid()), sa.column("state"))
SAMPLES = sa.table(
    "samples",
    sa.column("run_task_id", sa.Uuid()),
    *map(sa.column, ("index", "finish_reason", "finished_s", "mean_logprob", "verdict")),
)


def upgrade() -> None:
    """Reads the samples of one run at a time; a run without any keeps the curve it has."""
    connection = op.get_bind()
    runs = connection.execute(
        sa.select(RUNS.c.id, RUNS.c.budget_s).join(CURVES, CURVES.c.run_id == RUNS.c.id).where(RUNS.c.graded)
    ).all()
    for run_id, budget_s in runs:
        rows = connection.execute(_samples(), {"run": run_id}).all()
        tasks = [list(samples) for _, samples in groupby(rows, key=lambda row: row.run_task_id)]
        graded = [task for task in tasks if all(s.verdict not in (None, "sandbox_error") for s in task)]
        if graded:
            connection.execute(sa.update(CURVES).where(CURVES.c.run_id == run_id).values(_curve(graded, budget_s)))


def downgrade() -> None:
    """Nothing: earlier versions read a curve at whichever budgets it has."""


def _samples() -> sa.Select:
    """The samples of the finished tasks of a run, task by task."""
    return (
        sa.select(SAMPLES)
        .join(JOBS, JOBS.c.id == SAMPLES.c.run_task_id)
        .where(JOBS.c.run_id == sa.bindparam("run", type_=sa.Uuid()), JOBS.c.state == "finished")
        .order_by(SAMPLES.c.run_task_id)
    )


def _curve(tasks: list[list[sa.Row]], budget_s: float) -> dict[str, list[float]]:
    """As `curve` of evaluation/metrics.py computes it, over the tasks with their samples."""
    gains: dict[float, list[int]] = {}
    for samples in tasks:
        before = (False, False)
        for time, *after in _progress(samples):
            if time <= budget_s:
                gain = gains.setdefault(time, [0, 0])
                for figure in (0, 1):
                    gain[figure] += after[figure] - before[figure]
                before = tuple(after)
    points = [*_points(gains)]
    if not points or points[-1][0] < budget_s:
        points.append((budget_s, *(points[-1][1:] if points else (0, 0))))
    budgets, first, every = zip(*points, strict=True)
    return {
        "budgets": list(budgets),
        "pass_first": [count / len(tasks) for count in first],
        "pass_all": [count / len(tasks) for count in every],
    }


def _progress(samples: Iterable[sa.Row]) -> Iterator[tuple[float, bool, bool]]:
    """After each finished sample: its time, and whether the sample chosen by then passes, and whether any does."""
    ended = [s for s in samples if s.finish_reason in ("stop", "length") and s.finished_s is not None]
    best, chosen, any_passed = None, False, False
    for sample in sorted(ended, key=lambda s: (s.finished_s, s.index)):
        logprob = sample.mean_logprob
        rank = (-math.inf if logprob is None or math.isnan(logprob) else logprob, -sample.index)
        passed = sample.verdict == "passed"
        if best is None or rank > best:
            best, chosen = rank, passed
        any_passed = any_passed or passed
        yield sample.finished_s, chosen, any_passed


def _points(gains: dict[float, list[int]]) -> Iterator[tuple[float, int, int]]:
    """(budget, tasks by Pass@First, tasks by Pass@All) wherever one of them changes."""
    first = every = 0
    for time in sorted(gains):
        if any(gains[time]):
            first, every = first + gains[time][0], every + gains[time][1]
            yield time, first, every
