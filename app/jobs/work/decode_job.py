"""One job that this worker has claimed for decoding: its prompt, its engine and its samples."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import uuid
from dataclasses import fields
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import delete, insert, update
from sqlalchemy.orm import Session, joinedload

from app.background.leases import StopReason
from app.core.context import Context
from app.core.db.database import OUTAGES, call_after_commit
from app.core.db.types import get_utc_time
from app.core.errors import BadInputError
from app.core.events import event_types
from app.core.provenance import get_process_provenance
from app.core.remote import target as remote
from app.core.remote.servers import StopAskedError
from app.core.states import RunState, TaskState, WorkStep
from app.datasets.service import to_evaluation_task
from app.jobs import claims
from app.jobs.claims import Claim
from app.jobs.job import CannotLoadError, Job, WorkStoppedError
from app.jobs.work import logprobs, machine_use
from app.jobs.work.live_updates import LiveUpdates, encode_origins
from app.language_models import heads
from app.language_models.service import require_infilling
from app.runs import transitions
from app.runs.configuration import build_engine_config
from app.runs.figures import get_finish_time
from app.runs.models import Run, RunTask
from app.runs.provenance import TEMPLATE_KWARGS
from app.samples.models import Sample
from app.workers import service as workers
from decoding.drafters.registry import parse_drafter
from decoding.models.errors import ModelError
from decoding.request import Completion, Request, RequestError, SamplingParams
from evaluation import prompting
from evaluation.datasets import Task as PlainTask

if TYPE_CHECKING:
    from app.core.ports import Engine

COPIED = (
    "index", "seed", "n_tokens", "mean_logprob", "first_token_s", "finished_s", "n_rounds", "n_drafted", "n_accepted",
    "token_ids", "eos_logprob", "ends",
)  # fmt: skip
"""The columns that have the names of a sample's fields."""
log = structlog.get_logger(__name__)


class DecodeJob(Job):
    """A job claimed for decoding: `start` makes its request, `store` keeps its samples. Call both inside of it."""

    _text: str
    _prompt: prompting.Prompt
    _started_at: dt.datetime
    _before: machine_use.CpuCounters | None
    _use: machine_use.MachineUse | None = None

    def __init__(self, ctx: Context, claim: Claim, run: Run, task: PlainTask, queued_at: dt.datetime) -> None:
        super().__init__(ctx, claim)
        self.run = run
        self.live_updates = LiveUpdates(ctx, run, task, texts=claim.policy.interactive)
        self._queued_at = queued_at
        self._task = task

    def ready_engine(self) -> Engine:
        """The engine, after the policy's `on_start`. Raises CannotLoadError, WorkStoppedError, PromptError."""
        self._queued_at = self.claim.policy.on_start(self._ctx, self.run) or self._queued_at
        return prepare_engine(self._ctx, self.run)

    def start(self, engine: Engine) -> Request:
        """The request, to be handed to the engine at once: the task's wait ends here.

        Raises PromptError, LostClaimError.
        """
        run = self.run
        prompt, self._text = build_task_prompt(engine, run, self._task)
        self._prompt = prompt
        is_interactive = self.claim.policy.interactive
        self.lease.store(lambda: _mark_started(self._ctx, engine, run, prompt.mode))
        self.announce()
        self._started_at = get_utc_time()
        # The clock of an interactive task started when it was accepted.
        waited_s = self._compute_queue_s() if is_interactive else 0.0
        lease_s = self.claim.policy.get_lease_s(self._ctx, run.budget_s)
        if lease_s is not None:
            self.lease.store(lambda: self.lease.shorten(lease_s))
        # What others take of this machine says nothing about another one's times.
        self._before = None if remote.is_remote(run.target) else machine_use.read_cpu_counters()
        return Request(
            prompt=prompt.token_ids or self._text,
            n=run.n,
            sampling=SamplingParams(run.temperature, run.top_p),
            seed=run.seed,
            budget_s=run.budget_s,
            max_new_tokens=run.max_tokens,
            stop=prompt.stop,
            prefix_cache=run.prefix_cache,
            waited_s=waited_s,
            **self.claim.policy.get_request_options(run),
        )

    def end_clock(self) -> None:
        """Ends the reading of what others take from the task; call it as soon as the engine is done."""
        self._use = machine_use.compute_use_since(self._before)

    def store(self, completion: Completion, stop: StopReason | None) -> None:
        """Stores the samples, also for a cancelled run.

        Raises WorkStoppedError for an interrupted run, and LostClaimError.
        """
        if stop is StopReason.INTERRUPTED:
            raise WorkStoppedError
        now = get_utc_time()
        if stop is StopReason.CANCELLED:
            state = TaskState.CANCELLED
        else:
            state = TaskState.DECODED if self.run.graded else TaskState.FINISHED
        rounds = completion.rounds
        self.finish(
            state,
            lambda session: self._write(session, completion),
            attempt=0,
            prompt_sent=self._text,
            prompt_version=self._prompt.version,
            enqueued_at=now,
            finished_at=None if state is TaskState.DECODED else now,
            n_prompt_tokens=completion.n_prompt_tokens,
            cached_tokens=completion.cached_tokens,
            prompt_logprobs=logprobs.encode_prompt_logprobs(completion),
            started_at=self._started_at,
            queue_s=completion.waited_s or self._compute_queue_s(),
            prefill_s=completion.prefill_s,
            wall_s=completion.wall_s,
            n_rounds=len(rounds),
            n_verified=sum(r.n_verified for r in rounds),
            draft_s=math.fsum(r.draft_s for r in rounds),
            verify_s=math.fsum(r.verify_s for r in rounds),
            other_s=math.fsum(r.other_s for r in rounds),
            peak_memory_bytes=completion.peak_memory_bytes,
            **{field.name: getattr(self._use, field.name, None) for field in fields(machine_use.MachineUse)},
        )

    def _compute_queue_s(self) -> float:
        return max((self._started_at - self._queued_at).total_seconds(), 0.0)

    def _write(self, session: Session, completion: Completion) -> None:
        if self.claim.attempt > 1:
            session.execute(delete(Sample).where(Sample.run_task_id == self.claim.run_task_id))
        session.execute(
            insert(Sample).returning(Sample.id),  # so they go in one statement, not in one each
            [
                {
                    "run_id": self.claim.run_id,
                    "run_task_id": self.claim.run_task_id,
                    **{name: getattr(s, name) for name in COPIED},
                    # With the fence that ends a chat answer: without it the answer would look cut off.
                    "raw": s.text + s.stop_string if self._prompt.mode == "chat" else s.text,
                    "finish_reason": s.finish_reason or "error",
                    "logprobs": [logprobs.round_logprob(x) for x in s.logprobs],
                    "top_logprobs": logprobs.encode_sample_logprobs(s),
                    "origins": encode_origins(s.origins),
                }
                for s in completion.samples
            ],
        )
        for sample in completion.samples:
            call_after_commit(
                session,
                self._ctx.bus.publish,
                self.run.id,
                event_types.SAMPLE,
                {
                    "task_id": self._task.task_id,
                    "index": sample.index,
                    "finish_reason": sample.finish_reason,
                    "n_tokens": sample.n_tokens,
                    "mean_logprob": sample.mean_logprob,
                    "finished_s": get_finish_time(sample),
                },
            )


def claim_decode_job(ctx: Context, run_task_id: uuid.UUID) -> DecodeJob | None:
    """Claims the job; None if it does not wait to be decoded. Past the run's time limit, all waiting jobs are skipped.

    Looks before it claims: most late messages then cost no write transaction.
    """
    with ctx.database.read() as session:
        row = session.get(RunTask, run_task_id, options=[joinedload(RunTask.run, innerjoin=True)])
        if row is None or row.state != TaskState.QUEUED or row.run.state != RunState.RUNNING:
            return None
        run, task = row.run, to_evaluation_task(row.task)
    if is_out_of_time(run):
        transitions.skip_rest(ctx, run.id)
        return None
    claim = claims.claim_job(ctx, run_task_id, WorkStep.DECODE)
    return DecodeJob(ctx, claim, run, task, row.queued_at) if claim else None


def build_task_prompt(engine: Engine, run: Run, task: PlainTask) -> tuple[prompting.Prompt, str]:
    """(prompt, text for the model). Raises PromptError for a mode that the model or the task does not have."""
    mode = run.prompt_mode
    if mode == "auto":
        infill = task.suffix is not None and engine.infill_format is not None
        mode = "infill" if infill else "chat" if engine.has_chat_template else "completion"
    if mode == "chat" and not engine.has_chat_template:
        raise prompting.PromptError(f"{run.target} has no chat template: use --prompt-mode completion")
    if task.messages is not None and not engine.has_chat_template:
        raise prompting.PromptError(f"{run.target} has no chat template: send a prompt to /v1/completions")
    prompt = prompting.build_prompt(task, mode, engine.infill_format)  # type: ignore[arg-type]
    if prompt.text is not None:
        return prompt, prompt.text
    if prompt.token_ids is not None:
        return prompt, engine.decode(prompt.token_ids)
    kwargs = run.provenance.get(TEMPLATE_KWARGS)
    values = {"template_kwargs": json.loads(kwargs)} if kwargs else {}
    return prompt, engine.render_chat(prompt.messages or [], prompt.reply_prefix, **values)


def prepare_engine(ctx: Context, run: Run) -> Engine:
    """The run's engine, loaded unless this thread holds it.

    Raises CannotLoadError, WorkStoppedError while this process waits for a server that it starts, and PromptError for a
    mode that the model is known not to have without being loaded.
    """
    if parse_drafter(run.drafter).needs_head:
        try:
            heads.fetch_head(ctx, run.target)
        except ModelError as error:
            raise CannotLoadError(str(error)) from error
    config = build_engine_config(run)
    if run.prompt_mode == "infill" and not remote.is_remote(run.target):
        try:
            require_infilling(run.target)
        except BadInputError as error:
            raise prompting.PromptError(str(error)) from None

    def on_progress(message: str) -> None:
        ctx.bus.publish(run.id, event_types.LOADING, {"message": message})

    def load() -> Engine:
        _report_worker(ctx)  # should the model kill this process, what it did is known
        return ctx.load_engine(config, on_progress)

    try:
        if ctx.servers.make_ready(run.target, ctx.stopping.is_set) and ctx.servers.one_at_a_time:
            ctx.engines.drop()  # our own leaves the memory to it, too
        is_cold = config not in ctx.engines.list_configs() and not remote.is_remote(run.target)
        engine = ctx.engines.get(config, load)
    except StopAskedError:
        raise WorkStoppedError from None
    except (ModelError, RequestError) as error:
        raise CannotLoadError(str(error)) from error
    except Exception as error:
        log.exception("loading failed", run=str(run.id))
        raise CannotLoadError(f"{run.target} cannot be loaded: {type(error).__name__}: {error}") from error
    if is_cold:
        _report_worker(ctx)
    return engine


def _report_worker(ctx: Context) -> None:
    with contextlib.suppress(*OUTAGES):  # the next heartbeat reports the same
        workers.report(ctx)


def _mark_started(ctx: Context, engine: Engine, run: Run, mode: str) -> None:
    """Starts the run's clock and stores its provenance, if this is its first task."""
    if run.started_at is not None and run.provenance:
        return
    facts = {
        **run.provenance,
        **get_process_provenance(),
        **engine.get_provenance(),
        **ctx.servers.get_facts(run.target),
    }
    with ctx.database.session() as session:
        session.execute(
            update(Run)
            .where(Run.id == run.id, Run.started_at.is_(None))
            .values(started_at=get_utc_time(), prompt_mode_used=mode, provenance=facts)
        )


def is_out_of_time(run: Run) -> bool:
    """Whether the run's time limit is over, so that what waits will be skipped."""
    return (
        run.time_limit_s is not None
        and run.started_at is not None
        and get_utc_time() >= run.started_at + dt.timedelta(seconds=run.time_limit_s)
    )
