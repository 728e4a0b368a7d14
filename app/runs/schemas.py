"""What a run is asked to be: typed, checked, with the ranges the engine and the queues can honour."""

from __future__ import annotations

from typing import Any, Literal, Self, TypeVar, get_args

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from app.http.schemas import RequestModel, Text, bad_input
from app.remote.target import is_remote
from app.settings import MAX_BUDGET_S
from decoding.config import NAMED_LENGTHS, EngineConfig
from decoding.request import RequestError, SamplingParams

MAX_N = 256
MAX_TOKENS = 8192
MAX_TIME_LIMIT_S = 30 * 24 * 3600.0
PromptMode = Literal["auto", "chat", "completion", "infill", "raw"]
PROMPT_MODES: tuple[PromptMode, ...] = get_args(PromptMode)
_DEFAULTS = EngineConfig(target="any")
S = TypeVar("S", bound=RequestModel)


class DecodingSpec(RequestModel):
    """How n samples of a prompt are decoded: what runs and single completions have in common."""

    target: Text = Field(
        min_length=1,
        max_length=500,
        description="a registry key, hf:owner/name, a folder, a GGUF file, or openai:MODEL@URL",
    )
    drafter: Text = Field(
        _DEFAULTS.drafter,
        max_length=500,
        validate_default=True,
        description="none, ngram, sibling, a model, or sibling+MODEL",
    )
    n: int = Field(8, ge=1, le=MAX_N, description="samples per task")
    budget_s: float = Field(10.0, gt=0, le=MAX_BUDGET_S, description="seconds of wall clock per task")
    temperature: float = Field(0.2, ge=0, le=10)
    top_p: float = Field(0.95, gt=0, le=1)
    seed: int = Field(0, ge=0, le=2**63 - 1)
    max_tokens: int = Field(512, ge=1, le=MAX_TOKENS, description="tokens per sample at most")
    draft_length: Text = Field(_DEFAULTS.draft_length, description=f"{', '.join(NAMED_LENGTHS)} or fixed:K")
    acceptance: Text = Field(_DEFAULTS.acceptance, description="coupled or maximal")
    dtype: Text = Field("auto", description="auto, float32, bfloat16 or float16")
    device: Text = Field("auto", description="auto, cpu or cuda")
    prompt_mode: PromptMode = "auto"

    @field_validator("drafter")
    @classmethod
    def _a_remote_target_drafts_by_itself(cls, drafter: str, given: ValidationInfo) -> str:
        if not is_remote(str(given.data.get("target"))):
            return drafter
        if drafter not in (_DEFAULTS.drafter, "none"):
            raise ValueError("a remote target drafts as it likes, leave it out")
        return "none"

    @field_validator("drafter", "draft_length", "acceptance", "dtype", "device")
    @classmethod
    def _engine_can_honour_it(cls, value: str, given: ValidationInfo) -> str:
        name = str(given.field_name)
        try:
            EngineConfig(**{"target": "any", name: value})  # type: ignore[arg-type]
        except RequestError as error:
            raise ValueError(str(error).removeprefix(f"{name} is {value!r}: ")) from None
        return value

    @model_validator(mode="after")
    def _sampler_can_honour_it(self) -> Self:
        try:
            SamplingParams(temperature=self.temperature, top_p=self.top_p)
        except RequestError as error:
            raise ValueError(str(error)) from None
        return self

    def engine_config(self) -> EngineConfig:
        """The engine this needs."""
        return EngineConfig(
            target=self.target,
            drafter=self.drafter,
            draft_length=self.draft_length,
            acceptance=self.acceptance,
            dtype=self.dtype,
            device=self.device,
        )


class RunSpec(DecodingSpec):
    """One configuration over (some of) the tasks of a dataset; the body of POST /api/v1/runs and of New run."""

    dataset: Text = Field("humaneval", max_length=200, description="name of a dataset")
    task_ids: tuple[Text, ...] = Field((), description="only these tasks; empty: all")
    limit: int | None = Field(None, ge=1, description="only the first so many tasks")
    time_limit_s: float | None = Field(
        None, gt=0, le=MAX_TIME_LIMIT_S, description="take up no further task after so many seconds"
    )
    throughput: bool = Field(
        False, description="decode several tasks in one batch: more tokens per second, later answers; not ranked"
    )
    name: Text = Field("", max_length=200)

    @field_validator("throughput")
    @classmethod
    def _a_remote_target_decodes_one_task_at_a_time(cls, throughput: bool, given: ValidationInfo) -> bool:
        if throughput and is_remote(str(given.data.get("target"))):
            raise ValueError("a remote target decodes one task at a time, leave it out")
        return throughput


class ImportSpec(RequestModel):
    """Samples that another tool made: what they are to be called, and over which dataset they are judged."""

    target: Text = Field(min_length=1, max_length=500, description="the model that wrote the samples, as lists call it")
    dataset: Text = Field("humaneval", max_length=200, description="name of a dataset")
    name: Text = Field("", max_length=200, description="how lists call the run; empty: target and file")


def parse_spec(kind: type[S], values: dict[str, Any]) -> S:
    """The checked specification. Raises BadInput with one sentence naming the field and the remedy."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise bad_input(error) from None
