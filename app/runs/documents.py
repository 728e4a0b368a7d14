"""Runs, samples and the board as the API, `--json` and exports show them. Times are ISO 8601, durations seconds."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import TYPE_CHECKING

from pydantic import ConfigDict, Field, JsonValue, create_model

from app.http.schemas import ResponseModel
from app.runs.options import options_of
from app.runs.schemas import RunOptions
from app.states import RunKind, RunState, TaskState


class _RunHead(ResponseModel):
    id: uuid.UUID
    name: str
    kind: RunKind
    state: RunState
    error: str | None = Field(description="why it failed or was interrupted, or how many of its tasks failed")
    dataset: str
    dataset_sha256: str
    dataset_tasks: int
    n_tasks: int = Field(description="tasks asked for, after exclusion")
    excluded: list[dict[str, JsonValue]] = Field(description="tasks whose own solution fails here, with the reason")


if TYPE_CHECKING:
    _Configured = _RunHead
else:
    _OPTIONS = options_of(RunOptions).values()
    _Configured = create_model(
        "_Configured", __base__=_RunHead, **{o.name: (o.stored_type, Field(description=o.help)) for o in _OPTIONS}
    )


class RunInfo(_Configured):
    """A run: state, configuration (every option of RunOptions), and everything needed to repeat it."""

    prompt_mode_used: str | None
    command: str = Field(description="repeats the run from a shell")
    provenance: dict[str, JsonValue] = Field(description="model hashes, versions, device, git commit")
    created_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None


class Figures(ResponseModel):
    """What was measured (docs/metrics.md); empty until the run has ended once."""

    model_config = ConfigDict(extra="allow")

    tasks: int | None = Field(None, description="tasks that were graded")
    samples: int | None = None
    budget_s: float | None = None
    pass_first: float | None = Field(None, description="Pass@First at the run's budget")
    pass_first_interval: tuple[float, float] | None = Field(None, description="Wilson's, at 95 %")
    pass_all: float | None = Field(None, description="Pass@All at the run's budget")
    pass_all_interval: tuple[float, float] | None = Field(None, description="Wilson's, at 95 %")
    in_guest_tasks: int | None = Field(None, description="tasks with verdicts that a program could have forged")
    in_guest_samples: int | None = Field(None, description="samples with such a verdict (trust: in-guest)")
    in_guest_passed: int | None = Field(None, description="of those, passed")
    pass_first_proxy: float | None = Field(None, description="Pass@First if none of those had passed")
    pass_all_proxy: float | None = Field(None, description="Pass@All if none of those had passed")
    tasks_decoded: int | None = Field(None, description="tasks whose samples are stored, graded or not")
    tasks_left: int | None = Field(None, description="tasks that are not finished; resuming the run works them")
    ms_per_token_first: float | None = None
    ms_per_token_last: float | None = None
    ms_per_token_all: float | None = None
    tokens_per_s: float | None = None
    mean_acceptance_length: float | None = None
    budget_overrun_max_s: float | None = None


class RunDocument(ResponseModel):
    """A run with its figures."""

    run: RunInfo
    figures: Figures


class ProgressDocument(ResponseModel):
    """How far a run is."""

    tasks: dict[TaskState, int]
    tasks_decoded: int = Field(description="tasks whose samples are stored, graded or not")
    tasks_finished: int = Field(description="tasks that need no more work")
    tasks_left: int = Field(description="tasks that are not finished")
    resumable: bool = Field(description="the run has ended, and resuming it would work the tasks left")
    samples: int
    graded: int
    tokens_per_s: float | None
    remaining_s: float | None = Field(description="an estimate; null until the first task is decoded")


class RunWithProgress(RunDocument):
    """A run with its figures, and how far it is."""

    progress: ProgressDocument


class RunPage(ResponseModel):
    """Runs in the order asked for."""

    runs: list[RunDocument]
    next: str | None


class SampleDocument(ResponseModel):
    """One sample. Times are seconds since the engine took the task up; `verdict` is null until it was graded."""

    task_id: str
    index: int
    seed: int
    raw: str = Field(description="what the model wrote")
    program: str | None = Field(description="what was run")
    extraction: str | None = Field(description="how the one became the other")
    extraction_version: str | None
    finish_reason: str
    n_tokens: int
    mean_logprob: float | None
    first_token_s: float | None
    finished_s: float | None
    n_rounds: int
    n_drafted: int
    n_accepted: int
    verdict: str | None
    failure: str | None
    detail: str | None
    traceback: str | None
    cpu_s: float | None
    isolation: str | None
    trust: str | None


class SamplePage(ResponseModel):
    """Samples by task and index."""

    samples: list[SampleDocument]
    next: str | None


class CompletionDocument(RunDocument):
    """A completion that has ended, with its samples."""

    samples: list[SampleDocument]


class CurveDocument(ResponseModel):
    """Pass@First and Pass@All at each budget (seconds), as shares of `n_tasks` graded tasks."""

    n_tasks: int
    budgets: list[float]
    pass_first: list[float]
    pass_all: list[float]
