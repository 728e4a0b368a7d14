"""A load test as `bassline bench load` sends it: the body of POST /api/v1/capacity, and the content of a row."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from app.db.storable import DisplayName, Text
from app.http.schemas import RequestModel
from app.runs.schemas import MAX_N, MAX_TOKENS, PromptMode
from app.settings import MAX_BUDGET_S

MAX_POINTS, MAX_PROMPTS = 100, 10_000
Rate = Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Interval = tuple[Share, Share]
Seconds = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
PerSecond = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=10_000_000)]
Word = Annotated[Text, Field(max_length=500)]
Facts = Annotated[dict[Word, Word | Annotated[int, Field(ge=-(2**53), le=2**53)]], Field(max_length=50)]


class LoadPoint(RequestModel):
    """A service at one rate: the fields of evaluation.load_metrics.Point. Times count from when a request was due."""

    rate: Rate | None = Field(
        None, description="requests per second; null: idle, one request at a time", examples=[0.5]
    )
    window_s: Annotated[Seconds, Field(gt=0)] = Field(description="seconds for which requests arrived", examples=[60])
    requests: Annotated[Count, Field(ge=1)] = Field(examples=[30])
    answered: Count = Field(examples=[28])
    refused: Count = Field(description="answered with 429 or 503", examples=[2])
    failed: Count = Field(description="not answered at all, or with an error", examples=[0])
    retry_after_s: Seconds | None = Field(None, description="median of the waits that refusals asked for", examples=[3])
    pass_first: Share = Field(
        description="share of all requests whose chosen sample is right, among those finished in time", examples=[0.5]
    )
    pass_first_interval: Interval = Field(description="95 %, over prompts", examples=[[0.3, 0.7]])
    pass_all: Share = Field(description="share of all requests with a right sample finished in time", examples=[0.6])
    pass_all_interval: Interval = Field(description="95 %, over prompts", examples=[[0.4, 0.8]])
    first_finished_p50_s: Seconds | None = Field(None, examples=[1.5])
    first_finished_p95_s: Seconds | None = Field(None, examples=[3.5])
    answer_p50_s: Seconds | None = Field(None, description="whole answers", examples=[2.5])
    answer_p95_s: Seconds | None = Field(None, examples=[5.0])
    over_budget: Share = Field(0.0, description="share of the answers that came after the budget", examples=[0.1])
    over_budget_max_s: Seconds = Field(0.0, description="by how much at most", examples=[0.2])
    unclocked_p95_s: Seconds | None = Field(
        None, description="the part of the wait that the service's own times do not cover", examples=[0.05]
    )
    tokens_per_s: PerSecond = Field(examples=[120.0])
    right_in_time: Count = Field(description="requests whose chosen sample is right in time", examples=[15])
    right_in_time_per_s: PerSecond = Field(examples=[0.25])
    n_given: Annotated[float, Field(ge=0, le=MAX_N, allow_inf_nan=False)] | None = Field(
        None, description="mean number of samples of an answer", examples=[4.0]
    )
    lost_to_others: Share | None = Field(
        None, description="share of the machine that other programs took meanwhile; null: unknown", examples=[0.01]
    )
    by_prompt: Annotated[tuple[tuple[Count, Count], ...], Field(min_length=1, max_length=MAX_PROMPTS)] | None = Field(
        None,
        description="for each prompt, in the order in which every rate asks for them: its requests, and those right in "
        "time; null: not stored, so that comparisons have no interval",
        examples=[[[3, 2], [2, 0]]],
    )

    @model_validator(mode="after")
    def _right_ones_were_asked_for(self) -> Self:
        if any(right > asked or not asked for asked, right in self.by_prompt or ()):
            raise ValueError("by_prompt has a prompt with more right requests than requests, or with none: correct it")
        return self


class LoadSettings(RequestModel):
    """What was measured, and with what."""

    target: Word = Field(min_length=1, examples=["qwen2.5-coder-0.5b"])
    drafter: Word = Field("", description="empty: the service's default", examples=["sibling"])
    n: int = Field(ge=1, le=MAX_N, examples=[4])
    budget_s: float = Field(gt=0, le=MAX_BUDGET_S, allow_inf_nan=False, examples=[5.0])
    temperature: float = Field(ge=0, le=10, allow_inf_nan=False, examples=[0.2])
    max_tokens: int = Field(ge=1, le=MAX_TOKENS, examples=[256])
    prompt_mode: PromptMode = Field("auto", examples=["auto"])
    dataset: Word = Field(examples=["humaneval"])
    dataset_sha256: Word = Field(examples=["b796127e"])
    dataset_tasks: Count | None = Field(None, description="tasks of the dataset; null: unknown", examples=[164])
    prompts: Count = Field(description="different prompts; every rate asks for the same ones", examples=[12])
    duration_s: Seconds = Field(description="seconds for which requests arrived at each rate", examples=[60.0])
    seed: int = Field(ge=0, le=2**63 - 1, description="of arrivals, prompts and samples", examples=[0])
    arm: Word = Field(description="together, alone, or service for a running service", examples=["together"])
    device: Word = Field(description="where the service decodes", examples=["AMD EPYC"])
    machine: Facts = Field({}, examples=[{"cpu_count": 2}])
    versions: Facts = Field({}, examples=[{"torch_version": "2.11.0"}])
    measured_elsewhere: bool = Field(False, description="loaded from a file that another machine made")


class LoadTestSpec(RequestModel):
    """A load test of one service."""

    name: Annotated[DisplayName, Field(min_length=1, max_length=200)] = Field(examples=["qwen2.5-coder-0.5b, together"])
    settings: LoadSettings
    idle: LoadPoint
    points: Annotated[tuple[LoadPoint, ...], Field(min_length=1, max_length=MAX_POINTS)]

    @model_validator(mode="after")
    def _rates_ascend(self) -> Self:
        rates = [point.rate for point in self.points if point.rate is not None]
        if len(rates) < len(self.points) or rates != sorted(set(rates)):
            raise ValueError("points name no rate, or one twice, or not in ascending order: sort them by rate")
        if self.idle.rate is not None:
            raise ValueError("idle names a rate: leave it out, the idle service answers one request at a time")
        return self
