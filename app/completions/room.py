"""Whether one more completion can be decoded in time: what waits is compared with what was done lately.

A request that would only wait until its budget is over is refused at once, with the time after which it is worth
asking again. So a client knows early, and those that wait are answered.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.context import Context
from app.db.types import utcnow
from app.errors import Overloaded
from app.runs.models import Run, RunTask
from app.runs.schemas import DecodingSpec
from app.samples.models import Sample
from app.states import RunKind, RunState, TaskState

LATELY_S = 120.0  # completions that ended longer ago say little of the machine's pace now
JUST_S = 10.0  # those that ended within this waited as long as one that comes now will
FEWEST = 3  # ended completions from which a pace is inferred
MOST = 20


class Ended(NamedTuple):
    """A completion that was decoded: seconds of waiting and of decoding, when it ended (aware), and on the clock from
    its acceptance its first finished sample, None if none finished."""

    queue_s: float
    wall_s: float
    at: dt.datetime
    first_finished_s: float | None


def require_room(ctx: Context, spec: DecodingSpec) -> None:
    """Raises Overloaded if the completions for the target leave no time for one more within its budget."""
    with ctx.database.read() as session:
        waiting, at_work = (_count(session, spec.target, state) for state in (TaskState.QUEUED, TaskState.DECODING))
        if not waiting and not at_work:
            return
        ended = _ended_lately(session, spec.target)
    wait_s = expected_wait_s(waiting, at_work, ended, utcnow())
    needed_s = usual_s(ended)
    if wait_s is not None and wait_s + needed_s > spec.budget_s:
        raise Overloaded(
            f"{spec.target} has {waiting + at_work} completions to decode: one more waits about {wait_s:.0f} seconds "
            f"and takes {needed_s:.0f}, so a budget of {spec.budget_s:g} seconds would be over; ask again later, or "
            "with more time",
            max(math.ceil(wait_s + needed_s - spec.budget_s), 1),
        )


def expected_wait_s(waiting: int, at_work: int, ended: Sequence[Ended], now: dt.datetime) -> float | None:
    """Seconds until a completion that comes after `waiting` others is begun; None if too little is known.

    By Little's law `at_work` completions end at a rate of their number over the time that each takes; if more have
    ended than that, their rate counts. A worker takes some that wait ahead of time, so those that have just ended tell
    more: if they waited longer than that, one that comes now will, too.
    """
    if len(ended) < FEWEST:
        return None
    each_s = max(median(one.wall_s for one in ended), 0.001)
    span_s = max((now - min(one.at for one in ended)).total_seconds(), each_s)
    per_s = max(max(at_work, 1) / each_s, len(ended) / span_s)
    just = [one.queue_s for one in ended if (now - one.at).total_seconds() <= JUST_S]
    return max(waiting / per_s, median(just) if len(just) >= FEWEST else 0.0)


def usual_s(ended: Sequence[Ended]) -> float:
    """Seconds from the begin of decoding to the first finished sample, of those that had one; 0 if none did."""
    needed = [one.first_finished_s - one.queue_s for one in ended if one.first_finished_s is not None]
    return median(needed) if needed else 0.0


def _count(session: Session, target: str, state: TaskState) -> int:
    of_target = (Run.kind == RunKind.COMPLETION, Run.state == RunState.RUNNING, Run.target == target)
    query = select(func.count()).select_from(RunTask).join(RunTask.run).where(RunTask.state == state, *of_target)
    return session.scalar(query) or 0


def _ended_lately(session: Session, target: str) -> list[Ended]:
    since = utcnow() - dt.timedelta(seconds=LATELY_S)
    finished = Sample.finish_reason.in_(("stop", "length"))
    first = select(func.min(Sample.finished_s)).where(Sample.run_task_id == RunTask.id, finished).scalar_subquery()
    rows = session.execute(
        select(RunTask.queue_s, RunTask.wall_s, RunTask.finished_at, first)
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
    return [Ended(queue_s or 0.0, wall_s, at, first_s) for queue_s, wall_s, at, first_s in rows if wall_s and at]
