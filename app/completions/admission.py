"""Whether one more completion can be decoded in time: what waits is compared with what was done lately.

A request that would only wait until its budget is over is refused at once, with the time after which to ask again.
Until some completions have ended lately, each is expected to keep its places in the batch for its whole budget.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.completions.models import CompletionRun
from app.core.broker import queues
from app.core.context import Context
from app.core.db.types import get_utc_time
from app.core.errors import OverloadedError
from app.core.states import OPEN_RUN_STATES, UNDECODED_TASK_STATES, TaskState
from app.runs.models import RunTask
from app.runs.schemas import DecodingSpec
from app.samples.models import FINISHED_REASONS, Sample
from app.workers import service as workers
from decoding.limits import MAX_SERVED

RECENT_WINDOW_S = 120.0  # completions that ended longer ago say little of the machine's pace now
QUEUE_WINDOW_S = 10.0  # those that ended within this waited as long as one that comes now will
MIN_FINISHED = 3  # ended completions from which a pace is inferred
MAX_FINISHED = 20


class FinishedPrompt(NamedTuple):
    """A prompt that was decoded: seconds of waiting and of decoding, when it ended (aware), and on the clock from
    its acceptance its first finished sample, None if none finished."""

    queue_s: float
    wall_s: float
    at: dt.datetime
    first_finished_s: float | None


class OpenPrompts(NamedTuple):
    """The prompts not decoded yet: how many, how many of them wait, their samples, and their budget on average."""

    number: int
    waiting: int
    samples: int
    budget_s: float


@contextmanager
def admit_completion(ctx: Context, spec: DecodingSpec) -> Iterator[None]:
    """Store the completion inside the block: meanwhile this process admits no other completion.

    Raises OverloadedError if the completions for the target leave no time for one more within its budget.
    """
    with ctx.admission_lock:
        with ctx.database.read() as session:
            ahead = _count_open_prompts(session, spec.target)
            wait_s, needed_s = _estimate_times(ctx, session, spec.target, ahead) if ahead.number else (0.0, 0.0)
        if wait_s + needed_s >= spec.budget_s:
            raise OverloadedError(
                f"{spec.target} has {ahead.number} prompts to decode: one more waits about {wait_s:.0f} seconds "
                f"and takes {needed_s:.0f}, which exceeds the budget of {spec.budget_s:g} seconds; ask again later, or "
                "with more time",
                max(math.ceil(wait_s + needed_s - spec.budget_s), 1),
            )
        yield


def _estimate_times(ctx: Context, session: Session, target: str, ahead: OpenPrompts) -> tuple[float, float]:
    """Seconds until a new completion starts, and from then to its first finished sample."""
    ended = _find_ended_lately(session, target)
    if len(ended) < MIN_FINISHED:
        return predict_wait_s(ahead, ctx.settings.completions_together, _count_workers(ctx, session)), 0.0
    wait_s = estimate_wait_s(ahead.waiting, ahead.number - ahead.waiting, ended, get_utc_time())
    return wait_s, estimate_first_answer_s(ended)


def predict_wait_s(ahead: OpenPrompts, together: int, n_workers: int) -> float:
    """Seconds until a new completion behind these starts, if none has ended lately.

    `together` of them, and at most MAX_SERVED samples, share the batch of each worker; the rest wait until places are
    free.
    """
    batches = max(ahead.number / together, ahead.samples / MAX_SERVED) / n_workers
    return math.floor(batches) * ahead.budget_s


def estimate_wait_s(waiting: int, decoding: int, ended: Sequence[FinishedPrompt], now: dt.datetime) -> float:
    """Seconds until a completion that comes after `waiting` others is begun, by those that have ended lately.

    By Little's law, `decoding` completions end at `decoding` / (median time of one) per second; if more have
    ended than that, their rate counts. Workers claim some waiting completions early, so those that have just ended tell
    more: if they waited longer than that, one that comes now will, too.
    """
    each_s = max(median(one.wall_s for one in ended), 0.001)
    span_s = max((now - min(one.at for one in ended)).total_seconds(), each_s)
    per_s = max(max(decoding, 1) / each_s, len(ended) / span_s)
    just = [one.queue_s for one in ended if (now - one.at).total_seconds() <= QUEUE_WINDOW_S]
    return max(waiting / per_s, median(just) if len(just) >= MIN_FINISHED else 0.0)


def estimate_first_answer_s(ended: Sequence[FinishedPrompt]) -> float:
    """Seconds from the start of decoding to the first finished sample, of those that had one; 0 if none did."""
    needed = [one.first_finished_s - one.queue_s for one in ended if one.first_finished_s is not None]
    return median(needed) if needed else 0.0


def _count_open_prompts(session: Session, target: str) -> OpenPrompts:
    number = func.count(RunTask.id)
    samples, budget_s = func.coalesce(func.sum(CompletionRun.n), 0), func.coalesce(func.avg(CompletionRun.budget_s), 0)
    row = session.execute(
        select(number, number.filter(RunTask.state == TaskState.QUEUED), samples, budget_s)
        .join(CompletionRun, CompletionRun.id == RunTask.run_id)
        .where(
            CompletionRun.state.in_(OPEN_RUN_STATES),
            CompletionRun.after_id.is_(None),  # plain decoding beside another waits for its turn outside of its clock
            CompletionRun.target == target,
            RunTask.state.in_(UNDECODED_TASK_STATES),
        )
    ).one()
    return OpenPrompts(*row)


def _count_workers(ctx: Context, session: Session) -> int:
    """The workers that decode completions; one where messages stay in this process."""
    if not ctx.broker.shared:
        return 1
    consuming = (workers.is_consuming(each, queues.GPU_INTERACTIVE) for each in workers.find_alive_workers(session))
    return max(sum(consuming), 1)


def _find_ended_lately(session: Session, target: str) -> list[FinishedPrompt]:
    since = get_utc_time() - dt.timedelta(seconds=RECENT_WINDOW_S)
    finished = Sample.finish_reason.in_(FINISHED_REASONS)
    first = select(func.min(Sample.finished_s)).where(Sample.run_task_id == RunTask.id, finished).scalar_subquery()
    rows = session.execute(
        select(func.coalesce(RunTask.queue_s, 0.0), RunTask.wall_s, RunTask.finished_at, first)
        .join(CompletionRun, CompletionRun.id == RunTask.run_id)
        .where(
            CompletionRun.after_id.is_(None),  # another pace: plain decoding beside another
            CompletionRun.target == target,
            RunTask.state == TaskState.FINISHED,
            RunTask.finished_at >= since,
            RunTask.wall_s > 0,
        )
        .order_by(RunTask.finished_at.desc())
        .limit(MAX_FINISHED)
    )
    return [FinishedPrompt(*row) for row in rows]
