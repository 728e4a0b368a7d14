"""Whether one more completion can be decoded in time: what waits is compared with what was done lately.

A request that would only wait until its budget is over is refused at once, with the time after which it is worth
asking again. So a client knows early, and those that wait are answered.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from statistics import median

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.context import Context
from app.db.types import utcnow
from app.errors import Overloaded
from app.runs.models import Run, RunTask
from app.runs.schemas import DecodingSpec
from app.states import RunKind, RunState, TaskState

LATELY_S = 120.0  # completions that ended longer ago say little of the machine's pace now
FEWEST = 3  # ended completions from which a pace is inferred
MOST = 20


def require_room(ctx: Context, spec: DecodingSpec) -> None:
    """Raises Overloaded if the completions that wait for the target leave no time for one more within its budget."""
    with ctx.database.read() as session:
        waiting, at_work = (_count(session, spec.target, state) for state in (TaskState.QUEUED, TaskState.DECODING))
        if not waiting:
            return
        ended = _ended_lately(session, spec.target)
    wait_s = expected_wait_s(waiting, at_work, ended, utcnow())
    if wait_s is None:
        return
    decode_s = median(wall_s for wall_s, _ in ended)
    if wait_s + decode_s > spec.budget_s:
        raise Overloaded(
            f"{waiting} completions wait for {spec.target}, about {wait_s:.0f} seconds of work: a budget of "
            f"{spec.budget_s:g} seconds would be over before this one is decoded; ask again later, or with more time",
            max(math.ceil(wait_s + decode_s - spec.budget_s), 1),
        )


def expected_wait_s(
    waiting: int, at_work: int, ended: Sequence[tuple[float, dt.datetime]], now: dt.datetime
) -> float | None:
    """Seconds until a completion that comes after `waiting` others is begun; None if too little is known.

    `ended` are (seconds of decoding, end) of those that were decoded lately. By Little's law `at_work` completions that
    take that long end at a rate of their number over the time; if more have ended than that, their rate counts.
    """
    if len(ended) < FEWEST:
        return None
    usual_s = max(median(wall_s for wall_s, _ in ended), 0.001)
    span_s = max((now - min(end for _, end in ended)).total_seconds(), usual_s)
    per_s = max(max(at_work, 1) / usual_s, len(ended) / span_s)
    return waiting / per_s


def _count(session: Session, target: str, state: TaskState) -> int:
    of_target = (Run.kind == RunKind.COMPLETION, Run.state == RunState.RUNNING, Run.target == target)
    query = select(func.count()).select_from(RunTask).join(RunTask.run).where(RunTask.state == state, *of_target)
    return session.scalar(query) or 0


def _ended_lately(session: Session, target: str) -> list[tuple[float, dt.datetime]]:
    since = utcnow() - dt.timedelta(seconds=LATELY_S)
    rows = session.execute(
        select(RunTask.wall_s, RunTask.finished_at)
        .join(RunTask.run)
        .where(
            Run.kind == RunKind.COMPLETION,
            Run.target == target,
            RunTask.state == TaskState.FINISHED,
            RunTask.finished_at >= since,
            RunTask.wall_s > 0,
        )
        .order_by(RunTask.finished_at.desc())
        .limit(MOST)
    )
    return [(wall_s, finished_at) for wall_s, finished_at in rows if wall_s is not None and finished_at is not None]
