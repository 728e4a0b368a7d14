"""One task that this worker has claimed for decoding: from its claim to its stored samples or its error."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import uuid
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import delete, insert, update
from sqlalchemy.orm import joinedload

from app.context import Context
from app.datasets.service import as_plain
from app.db.database import error_summary
from app.db.types import utcnow
from app.events import event_types
from app.jobs import claims
from app.jobs.claims import Claim, LostClaim, Step
from app.jobs.lease import Lease, Stop
from app.jobs.work.live_updates import Narrator, letters, task_changed
from app.provenance import of_this_process
from app.runs import enqueue, transitions
from app.runs.configuration import engine_config
from app.runs.models import Run, RunTask
from app.samples.models import Sample
from app.states import RunState, TaskState
from app.workers import engines
from decoding.models.errors import ModelError
from decoding.request import Completion, Request, RequestError, SamplingParams
from evaluation import prompting
from evaluation.datasets import Task as PlainTask

if TYPE_CHECKING:
    from app.ports import Engine

FAULT = "decoding failed: "
log = structlog.get_logger(__name__)


class CannotLoad(Exception):  # noqa: N818 (reads as what happened)
    """The run's engine cannot be had, so none of its tasks can be decoded here; the message says why."""


class Taken:
    """A claimed task of a run: `start` makes its request, `settle` puts it down with what came of it.

    Both are to be called while its `lease` is kept, which is the caller's to begin and to end.
    """

    _text: str
    _prompt: prompting.Prompt
    _taken_up: dt.datetime

    def __init__(self, ctx: Context, run: Run, task: PlainTask, queued_at: dt.datetime, held: Claim) -> None:
        self.run = run
        self.to_be_graded = False
        self.lease = Lease(ctx, held)
        self.narrator = Narrator(ctx, run, task)
        self._ctx, self._task, self._queued_at, self._held = ctx, task, queued_at, held

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._held.attempt

    def start(self, engine: Engine) -> Request:
        """The request, to be handed to the engine at once: the task's wait ends here. Raises PromptError, LostClaim."""
        run = self.run
        prompt, self._text = prompt_for(engine, run, self._task)
        self._prompt = prompt
        request = Request(
            prompt=self._text,
            n=run.n,
            sampling=SamplingParams(run.temperature, run.top_p),
            seed=run.seed,
            budget_s=run.budget_s,
            max_new_tokens=run.max_tokens,
            stop=prompt.stop,
        )
        self.lease.store(lambda: _mark_started(self._ctx, engine, run, prompt.mode))
        self._tell(TaskState.DECODING)
        self._taken_up = utcnow()
        return request

    def settle(self, outcome: Completion | Exception, stop: Stop | None) -> None:
        """Stores the samples, or ends the task with its error, or gives it back: as outcome and `stop` want it."""
        try:
            if isinstance(outcome, Exception):
                raise outcome
            self._keep(outcome, stop)
        except LostClaim:
            log.warning("decoded for nothing: the job has another owner", run_task=str(self._held.run_task_id))
        except Exception as error:
            with contextlib.suppress(LostClaim):
                self._give_up(error)

    def _keep(self, completion: Completion, stop: Stop | None) -> None:
        run = self.run
        if stop is Stop.INTERRUPTED:
            claims.give_back(self._ctx, self._held)
            self._tell(TaskState.QUEUED)
            return
        state = (
            TaskState.CANCELLED if stop is Stop.CANCELLED else TaskState.DECODED if run.graded else TaskState.FINISHED
        )
        self.lease.store(lambda: self._store(state, completion))
        for sample in completion.samples:
            self._ctx.bus.publish(
                run.id,
                event_types.SAMPLE,
                {
                    "task_id": self._task.task_id,
                    "index": sample.index,
                    "finish_reason": sample.finish_reason,
                    "n_tokens": sample.n_tokens,
                    "mean_logprob": sample.mean_logprob,
                    "finished_s": sample.finished_s,
                },
            )
        self._tell(state)
        if state is TaskState.DECODED:
            self.to_be_graded = True
            enqueue.ring_grade([self._held.run_task_id], self.run.kind)

    def _give_up(self, error: Exception) -> None:
        ctx, held = self._ctx, self._held
        if isinstance(error, CannotLoad):
            transitions.fail_run(ctx, held.run_id, str(error))
            claims.give_back(ctx, held)
            self._tell(TaskState.QUEUED)
        elif isinstance(error, RequestError | prompting.PromptError):
            claims.fail(ctx, held, str(error))
            self._tell(TaskState.FAILED, str(error))
        else:
            # First the row, while the lease lasts: a traceback may take its time to be written.
            again = claims.retry_or_fail(ctx, held, f"{FAULT}{error_summary(error)}")
            log.error("decoding failed", run_task=str(held.run_task_id), exc_info=error)
            if again:
                self._tell(TaskState.QUEUED)
                enqueue.ring_decode([held.run_task_id], self.run.kind)
            else:
                self._tell(TaskState.FAILED, f"{FAULT}{error_summary(error)}")

    def _tell(self, state: TaskState, error: str | None = None) -> None:
        task_changed(self._ctx, self.run.id, self._held.task_id, self._held.position, state, error)

    def _store(self, state: TaskState, completion: Completion) -> None:
        rounds, now = completion.rounds, utcnow()
        with self._ctx.database.session() as session:
            claims.put_down(
                session,
                self._held,
                state,
                attempt=0,
                error=None,
                prompt_sent=self._text,
                prompt_version=self._prompt.version,
                rung_at=now,
                finished_at=None if state is TaskState.DECODED else now,
                n_prompt_tokens=completion.n_prompt_tokens,
                started_at=self._taken_up,
                queue_s=(self._taken_up - self._queued_at).total_seconds(),
                prefill_s=completion.prefill_s,
                wall_s=completion.wall_s,
                n_rounds=len(rounds),
                draft_s=math.fsum(r.draft_s for r in rounds),
                verify_s=math.fsum(r.verify_s for r in rounds),
                other_s=math.fsum(r.other_s for r in rounds),
                peak_memory_bytes=completion.peak_memory_bytes,
            )
            if self.attempt > 1:
                session.execute(delete(Sample).where(Sample.run_task_id == self._held.run_task_id))
            session.execute(
                insert(Sample).returning(Sample.id),  # so they go in one statement, not in one each
                [
                    {
                        "run_id": self._held.run_id,
                        "run_task_id": self._held.run_task_id,
                        "index": s.index,
                        "seed": s.seed,
                        # The fence that ends a chat answer belongs to it: without it the answer would look cut off.
                        "raw": s.text + s.stop_string if self._prompt.mode == "chat" else s.text,
                        "n_tokens": s.n_tokens,
                        "mean_logprob": s.mean_logprob,
                        "finish_reason": s.finish_reason or "error",
                        "first_token_s": s.first_token_s,
                        "finished_s": s.finished_s,
                        "n_rounds": s.n_rounds,
                        "n_drafted": s.n_drafted,
                        "n_accepted": s.n_accepted,
                        "token_ids": s.token_ids,
                        "logprobs": [round(x, 5) for x in s.logprobs],
                        "origins": letters(s.origins),
                        "ends": s.ends,
                    }
                    for s in completion.samples
                ],
            )


def take_up(ctx: Context, run_task_id: uuid.UUID) -> Taken | None:
    """Claims the task; None if it waits for no decoding. Past the run's time limit all that waits is skipped."""
    with ctx.database.read() as session:
        row = session.get(RunTask, run_task_id, options=[joinedload(RunTask.run, innerjoin=True)])
        if row is None or row.state != TaskState.QUEUED or row.run.state != RunState.RUNNING:
            return None
        run, task = row.run, as_plain(row.task)
    if _out_of_time(run):
        transitions.skip_rest(ctx, run.id)
        return None
    held = claims.claim(ctx, run_task_id, Step.DECODE)
    return Taken(ctx, run, task, row.queued_at, held) if held else None


def prompt_for(engine: Engine, run: Run, task: PlainTask) -> tuple[prompting.Prompt, str]:
    """(prompt, text as the model shall see it). Raises PromptError for a mode the model or task cannot do."""
    mode = run.prompt_mode
    if mode == "auto":
        infill = task.suffix is not None and engine.fim_tokens is not None
        mode = "infill" if infill else "chat" if engine.has_chat_template else "completion"
    if mode == "chat" and not engine.has_chat_template:
        raise prompting.PromptError(f"{run.target} has no chat template: use --prompt-mode completion")
    prompt = prompting.build(task, mode, engine.fim_tokens)  # type: ignore[arg-type]
    if prompt.text is not None:
        return prompt, prompt.text
    return prompt, engine.render_chat(prompt.messages or [], prompt.reply_prefix)


def ready_engine(ctx: Context, run: Run) -> Engine:
    """The run's engine, ready. Raises CannotLoad."""
    try:
        return engines.get(
            ctx, engine_config(run), lambda m: ctx.bus.publish(run.id, event_types.LOADING, {"message": m})
        )
    except (ModelError, RequestError) as error:
        raise CannotLoad(str(error)) from error
    except Exception as error:
        log.exception("loading failed", run=str(run.id))
        raise CannotLoad(f"{run.target} cannot be loaded: {type(error).__name__}: {error}") from error


def _mark_started(ctx: Context, engine: Engine, run: Run, mode: str) -> None:
    """The first task to be decoded starts the run's clock and says what it is measured with."""
    if run.started_at is not None and run.provenance:
        return
    with ctx.database.session() as session:
        session.execute(
            update(Run)
            .where(Run.id == run.id, Run.started_at.is_(None))
            .values(started_at=utcnow(), prompt_mode_used=mode, provenance={**of_this_process(), **engine.provenance()})
        )


def _out_of_time(run: Run) -> bool:
    return (
        run.time_limit_s is not None
        and run.started_at is not None
        and utcnow() >= run.started_at + dt.timedelta(seconds=run.time_limit_s)
    )
