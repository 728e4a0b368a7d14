"""The decode step of a job: engine ready, claim, prompt, generate before the deadline, store."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import structlog
from sqlalchemy import delete, update

from app import engines
from app.context import Context
from app.datasets.service import as_plain
from app.db import reason, utcnow
from app.events import kinds
from app.provenance import of_this_process
from app.runs import doorbell, ending, lifecycle
from app.runs.lease import Lease, Stop
from app.runs.lifecycle import Claim, LostClaim, Step
from app.runs.models import Run, RunTask
from app.samples.models import Sample
from app.samples.origins import pieces
from app.states import RunKind, RunState, TaskState
from decoding.config import EngineConfig
from decoding.model_errors import ModelError
from decoding.request import Completion, Request, RequestError, SamplingParams, Update
from evaluation import prompting
from evaluation.datasets import Task as PlainTask

if TYPE_CHECKING:
    from app.ports import Engine

TOKENS_EVERY_S = 0.25
TEXT_EVERY_S = 0.1
FAULT = "decoding failed: "
log = structlog.get_logger(__name__)


class CannotLoad(Exception):  # noqa: N818 (reads as what happened)
    """The run's engine cannot be had, so none of its tasks can be decoded here; the message says why."""


def decode_task(ctx: Context, run_task_id: uuid.UUID) -> None:
    """Works the job's decode step if it waits for one. Safe to call for any id, any number of times."""
    with ctx.database.read() as session:
        row = session.get(RunTask, run_task_id)
        if row is None or row.state != TaskState.QUEUED or row.run.state != RunState.RUNNING:
            return
        run, task = row.run, as_plain(row.task)
    if _out_of_time(run):
        ending.skip_rest(ctx, run.id)
        return
    held = lifecycle.claim(ctx, run_task_id, Step.DECODE)
    if held is None:
        return
    try:
        with Lease(ctx, held) as lease:
            _work(ctx, run, task, held, lease)
    except LostClaim:
        log.warning("decoded for nothing: the job has another owner", run_task=str(run_task_id))
    except CannotLoad as error:
        ending.fail_run(ctx, run.id, str(error))
        with contextlib.suppress(LostClaim):
            lifecycle.give_back(ctx, held)
    except (RequestError, prompting.PromptError) as error:
        lifecycle.fail(ctx, held, str(error))
        _tell(ctx, held, task, TaskState.FAILED, str(error))
    except Exception as error:
        # First the row, while the lease lasts: a traceback may take its time to be written.
        again = lifecycle.retry_or_fail(ctx, held, f"{FAULT}{reason(error)}")
        log.exception("decoding failed", run_task=str(run_task_id))
        if again:
            doorbell.ring_decode([run_task_id], run.kind)
    ending.close_if_done(ctx, run.id)


def engine_config(run: Run) -> EngineConfig:
    """The engine a run asks for."""
    return EngineConfig(
        target=run.target,
        drafter=run.drafter,
        draft_length=run.draft_length,
        acceptance=run.acceptance,
        dtype=run.dtype,
        device=run.device,
    )


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


def _engine(ctx: Context, run: Run) -> Engine:
    """The run's engine, ready. Raises CannotLoad."""
    try:
        return engines.get(ctx, engine_config(run), lambda m: ctx.bus.publish(run.id, kinds.LOADING, {"message": m}))
    except (ModelError, RequestError) as error:
        raise CannotLoad(str(error)) from error
    except Exception as error:
        log.exception("loading failed", run=str(run.id))
        raise CannotLoad(f"{run.target} cannot be loaded: {type(error).__name__}: {error}") from error


def _work(ctx: Context, run: Run, task: PlainTask, held: Claim, lease: Lease) -> None:
    # Loading is under the lease, so that a model that kills its worker costs an attempt, but on no task's clock.
    engine = _engine(ctx, run)
    prompt, text = prompt_for(engine, run, task)
    request = Request(
        prompt=text,
        n=run.n,
        sampling=SamplingParams(run.temperature, run.top_p),
        seed=run.seed,
        budget_s=run.budget_s,
        max_new_tokens=run.max_tokens,
        stop=prompt.stop,
    )
    lease.store(lambda: _mark_started(ctx, engine, run, prompt.mode))
    _tell(ctx, held, task, TaskState.DECODING)
    taken_up = utcnow()
    completion = engine.generate(request, _Narrator(ctx, run, task), lambda: lease.stop is not None)
    if lease.stop is Stop.INTERRUPTED:
        lifecycle.give_back(ctx, held)
        return
    state = (
        TaskState.CANCELLED if lease.stop is Stop.CANCELLED else TaskState.DECODED if run.graded else TaskState.FINISHED
    )
    lease.store(lambda: _store(ctx, held, state, completion, text, prompt.version, taken_up))
    for sample in completion.samples:
        ctx.bus.publish(
            run.id,
            kinds.SAMPLE,
            {
                "task_id": task.task_id,
                "index": sample.index,
                "finish_reason": sample.finish_reason,
                "n_tokens": sample.n_tokens,
                "mean_logprob": sample.mean_logprob,
                "finished_s": sample.finished_s,
            },
        )
    _tell(ctx, held, task, state)
    if state is TaskState.DECODED:
        doorbell.ring_grade([held.run_task_id], run.kind)


def _store(
    ctx: Context,
    held: Claim,
    state: TaskState,
    completion: Completion,
    text: str,
    version: str,
    taken_up: dt.datetime,
) -> None:
    rounds, now = completion.rounds, utcnow()
    with ctx.database.session() as session:
        row = session.get_one(RunTask, held.run_task_id)
        lifecycle.put_down(
            session,
            held,
            state,
            attempt=0,
            error=None,
            prompt_sent=text,
            prompt_version=version,
            rung_at=now,
            finished_at=None if state is TaskState.DECODED else now,
            n_prompt_tokens=completion.n_prompt_tokens,
            started_at=taken_up,
            queue_s=(taken_up - row.queued_at).total_seconds(),
            prefill_s=completion.prefill_s,
            wall_s=completion.wall_s,
            n_rounds=len(rounds),
            draft_s=math.fsum(r.draft_s for r in rounds),
            verify_s=math.fsum(r.verify_s for r in rounds),
            other_s=math.fsum(r.other_s for r in rounds),
            peak_memory_bytes=completion.peak_memory_bytes,
        )
        session.execute(delete(Sample).where(Sample.run_task_id == held.run_task_id))
        session.add_all(
            Sample(
                run_id=held.run_id,
                run_task_id=held.run_task_id,
                index=s.index,
                seed=s.seed,
                raw=s.text,
                n_tokens=s.n_tokens,
                mean_logprob=s.mean_logprob,
                finish_reason=s.finish_reason or "error",
                first_token_s=s.first_token_s,
                finished_s=s.finished_s,
                n_rounds=s.n_rounds,
                n_drafted=s.n_drafted,
                n_accepted=s.n_accepted,
                token_ids=s.token_ids,
                logprobs=[round(x, 5) for x in s.logprobs],
                origins=_letters(s.origins),
                ends=s.ends,
            )
            for s in completion.samples
        )


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


def _tell(ctx: Context, held: Claim, task: PlainTask, state: TaskState, error: str | None = None) -> None:
    ctx.bus.publish(held.run_id, kinds.TASK, {"task_id": task.task_id, "state": state, "error": error})


def _letters(origins: Sequence[str]) -> str:
    return "".join("d" if origin == "draft" else "t" for origin in origins)


class _Narrator:
    """Turns the engine's updates into events at a bearable rate: counts for a run, whole texts for a completion."""

    def __init__(self, ctx: Context, run: Run, task: PlainTask) -> None:
        self._ctx, self._run, self._task = ctx, run, task
        self._texts = run.kind is RunKind.COMPLETE
        self._every_s = TEXT_EVERY_S if self._texts else TOKENS_EVERY_S
        self._latest: dict[int, Update] = {}
        self._origins: dict[int, str] = {}
        self._ends: dict[int, list[int]] = {}
        self._changed: set[int] = set()
        self._said = 0.0

    def __call__(self, updates: Sequence[Update]) -> None:
        for u in updates:
            self._latest[u.index] = u
            self._origins[u.index] = self._origins.get(u.index, "") + _letters(u.origins)
            self._ends.setdefault(u.index, []).extend(u.ends)
            self._changed.add(u.index)
        now = time.monotonic()
        ended = any(u.finish_reason for u in updates)
        if now - self._said >= self._every_s or (ended and self._texts):
            self._said = now
            self._say()

    def _say(self) -> None:
        latest = self._latest.values()
        if self._texts:
            data: dict[str, Any] = {
                "task_id": self._task.task_id,
                "samples": [
                    {
                        "index": u.index,
                        "text": u.text,
                        "origins": self._origins[u.index],
                        "pieces": pieces(u.text, self._ends[u.index], self._origins[u.index]),
                        "n_tokens": u.n_tokens,
                        "mean_logprob": u.mean_logprob,
                        "elapsed_s": u.elapsed_s,
                        "finish_reason": u.finish_reason,
                    }
                    for u in latest
                    if u.index in self._changed
                ],
            }
            self._ctx.bus.publish(self._run.id, kinds.TEXT, data)
        else:
            self._ctx.bus.publish(
                self._run.id,
                kinds.TOKENS,
                {
                    "task_id": self._task.task_id,
                    "elapsed_s": max(u.elapsed_s for u in latest),
                    "tokens": sum(u.n_tokens for u in latest),
                    "finished": sum(u.finish_reason is not None for u in latest),
                },
            )
        self._changed.clear()
