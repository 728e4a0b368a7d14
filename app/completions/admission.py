"""Whether one more completion can be decoded in time: what waits is compared with what was done lately.

A request that would only wait until its budget is over is refused at once, with the time after which it is worth
asking again. So a client knows early, and those that wait are answered. Until some completions have ended lately, the
costs that the worker's engine measured say how long they will take, and before these are known, the size of a batch.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import NamedTuple

from sqlalchemy import ColumnElement, Text, cast, func, select
from sqlalchemy.orm import Session

from app.completions.models import CompletionRun
from app.core.broker import queues
from app.core.context import Context
from app.core.db.types import get_utc_time
from app.core.errors import OverloadedError
from app.core.states import OPEN_RUN_STATES, UNDECODED_TASK_STATES, TaskState
from app.datasets.models import Task
from app.runs.models import Run, RunTask
from app.runs.schemas import DecodingSpec
from app.samples.models import FINISHED_REASONS, Sample
from app.workers import service as workers
from decoding.limits import MAX_SERVED
from evaluation import datasets as evaluation_datasets

RECENT_WINDOW_S = 120.0  # completions that ended longer ago say little of the machine's pace now
QUEUE_WINDOW_S = 10.0  # those that ended within this waited as long as one that comes now will
MIN_FINISHED = 3  # ended completions from which a pace is inferred
MAX_FINISHED = 20
USUAL_ROUNDS = 32  # of an answer, where none has ended lately
CHARACTERS_PER_TOKEN = 2.5  # of code, which is not tokenized here; fewer make the estimate longer


class FinishedPrompt(NamedTuple):
    """A prompt that was decoded: seconds of waiting and of decoding, when it ended (aware), and on the clock from
    its acceptance its first finished sample, None if none finished."""

    queue_s: float
    wall_s: float
    at: dt.datetime
    first_finished_s: float | None


class OpenPrompt(NamedTuple):
    """A prompt not decoded yet: whether it waits, the seconds since it was accepted, its samples, budget, most
    tokens and characters (of token ids an estimate)."""

    waits: bool
    age_s: float
    n: int
    budget_s: float
    max_tokens: int
    characters: float


class RoundCosts(NamedTuple):
    """What a worker's engine measured: seconds of a round and of a prompt's token."""

    round_s: float
    prompt_token_s: float

    def estimate_prompt_s(self, characters: float) -> float:
        """Seconds to read a prompt."""
        return self.prompt_token_s * characters / CHARACTERS_PER_TOKEN

    def estimate_answer_s(self, one: OpenPrompt) -> float:
        """Seconds that a completion usually keeps its places in the batch; its budget ends it."""
        rounds = min(one.max_tokens, USUAL_ROUNDS)
        return min(self.estimate_prompt_s(one.characters) + rounds * self.round_s, one.budget_s)


@contextmanager
def admit_completion(ctx: Context, spec: DecodingSpec, tasks: Sequence[evaluation_datasets.Task]) -> Iterator[None]:
    """Store the completion inside the block: meanwhile this process admits no other completion.

    Raises OverloadedError if the completions for the target leave no time for one more within its budget.
    """
    with ctx.admission_lock:
        _require_capacity(ctx, spec, sum(map(_count_characters, tasks)))
        yield


def _require_capacity(ctx: Context, spec: DecodingSpec, characters: float) -> None:
    with ctx.database.read() as session:
        ahead = _list_open_prompts(session, spec.target)
        if not ahead:
            return
        ended = _find_ended_lately(session, spec.target)
        if len(ended) >= MIN_FINISHED:
            waiting = sum(one.waits for one in ahead)
            wait_s, needed_s = (
                estimate_wait_s(waiting, len(ahead) - waiting, ended, get_utc_time()),
                estimate_first_answer_s(ended),
            )
        else:
            costs, together = _load_measured_costs(session, spec.target), ctx.settings.completions_together
            wait_s = predict_wait_s(ahead, costs, together, _count_workers(ctx, session))
            # One round that is already running, and one of its own.
            needed_s = 0.0 if costs is None else costs.estimate_prompt_s(characters) + 2 * costs.round_s
    if wait_s + needed_s >= spec.budget_s:
        raise OverloadedError(
            f"{spec.target} has {len(ahead)} prompts to decode: one more waits about {wait_s:.0f} seconds "
            f"and takes {needed_s:.0f}, which exceeds the budget of {spec.budget_s:g} seconds; ask again later, or "
            "with more time",
            max(math.ceil(wait_s + needed_s - spec.budget_s), 1),
        )


def predict_wait_s(ahead: Sequence[OpenPrompt], costs: RoundCosts | None, together: int, n_workers: int) -> float:
    """Seconds until a new completion behind these starts, if none has ended lately.

    `together` of them, and at most MAX_SERVED samples, share the batch of each worker; the rest wait until places are
    free. Prompts are prefilled one after the other, so a running completion may still be in prefill.
    Without costs, each keeps its places for its whole budget.
    """
    batches = max(len(ahead) / together, sum(one.n for one in ahead) / MAX_SERVED) / n_workers
    kept_s = median(one.budget_s if costs is None else costs.estimate_answer_s(one) for one in ahead)
    if costs is None:
        return math.floor(batches) * kept_s
    waiting_s = sum(costs.estimate_prompt_s(one.characters) for one in ahead if one.waits) / n_workers
    all_s = sum(costs.estimate_prompt_s(one.characters) for one in ahead) / n_workers
    return math.floor(batches) * kept_s + max(waiting_s, all_s - max(one.age_s for one in ahead))


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


def _count_characters(task: evaluation_datasets.Task) -> float:
    """The characters that a prompt has or, of token ids, probably had."""
    return len(task.prompt) + len(task.suffix or "") + CHARACTERS_PER_TOKEN * len(task.prompt_token_ids or ())


def _build_character_count() -> ColumnElement[float]:
    """_count_characters of a stored prompt. The commas of a list are counted: databases differ in its length's name."""
    ids = cast(Task.prompt_token_ids, Text)
    n_ids = func.length(ids) - func.length(func.replace(ids, ",", "")) + 1
    texts = func.length(Task.prompt) + func.coalesce(func.length(Task.suffix), 0)
    return texts + CHARACTERS_PER_TOKEN * func.coalesce(n_ids, 0)


def _list_open_prompts(session: Session, target: str) -> list[OpenPrompt]:
    rows = session.execute(
        select(
            RunTask.state,
            RunTask.queued_at,
            CompletionRun.n,
            CompletionRun.budget_s,
            CompletionRun.max_tokens,
            _build_character_count(),
        )
        .join(CompletionRun, CompletionRun.id == RunTask.run_id)
        .join(RunTask.task)
        .where(
            CompletionRun.state.in_(OPEN_RUN_STATES),
            CompletionRun.after_id.is_(None),  # plain decoding beside another waits for its turn outside of its clock
            CompletionRun.target == target,
            RunTask.state.in_(UNDECODED_TASK_STATES),
        )
    )
    now = get_utc_time()
    return [
        OpenPrompt(state is TaskState.QUEUED, (now - at).total_seconds(), n, budget_s, max_tokens, characters)
        for state, at, n, budget_s, max_tokens, characters in rows
    ]


def _load_measured_costs(session: Session, target: str) -> RoundCosts | None:
    """The costs of the completion of the target that was begun last, whenever that was; None if there was none."""
    query = select(Run.provenance).where(Run.is_completion, Run.target == target, Run.started_at.is_not(None))
    found = session.scalar(query.order_by(Run.started_at.desc()).limit(1)) or {}
    costs = [found[name] for name in RoundCosts._fields if name in found]
    return RoundCosts(*costs) if len(costs) == len(RoundCosts._fields) else None


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
        select(RunTask.queue_s, RunTask.wall_s, RunTask.finished_at, first)
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
    return [
        FinishedPrompt(queue_s or 0.0, wall_s, at, first_s) for queue_s, wall_s, at, first_s in rows if wall_s and at
    ]
