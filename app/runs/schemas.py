"""What a run is asked to be: typed, checked, with the ranges the engine and the queues can honour."""

from __future__ import annotations

from typing import Any, Literal, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from app.errors import BadInput
from app.remote.target import is_remote
from decoding.config import NAMED_LENGTHS, EngineConfig
from decoding.request import RequestError, SamplingParams

MAX_BUDGET_S = 600.0
MAX_N = 256
MAX_TOKENS = 8192
MAX_TIME_LIMIT_S = 30 * 24 * 3600.0
LONGEST_ECHO = 60
PromptMode = Literal["auto", "chat", "completion", "infill", "raw"]
PROMPT_MODES: tuple[PromptMode, ...] = get_args(PromptMode)
_DEFAULTS = EngineConfig(target="any")
S = TypeVar("S", bound="DecodingSpec")


class DecodingSpec(BaseModel):
    """How n samples of a prompt are decoded: what runs and single completions have in common."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: str = Field(
        min_length=1,
        max_length=500,
        description="a registry key, hf:owner/name, a folder, a GGUF file, or openai:MODEL@URL",
    )
    drafter: str = Field(_DEFAULTS.drafter, description="none, ngram, sibling, a model, or sibling+MODEL")
    n: int = Field(8, ge=1, le=MAX_N, description="samples per task")
    budget_s: float = Field(10.0, gt=0, le=MAX_BUDGET_S, description="seconds of wall clock per task")
    temperature: float = Field(0.2, ge=0, le=10)
    top_p: float = Field(0.95, gt=0, le=1)
    seed: int = Field(0, ge=0, le=2**63 - 1)
    max_tokens: int = Field(512, ge=1, le=MAX_TOKENS, description="tokens per sample at most")
    draft_length: str = Field(_DEFAULTS.draft_length, description=f"{', '.join(NAMED_LENGTHS)} or fixed:K")
    acceptance: str = _DEFAULTS.acceptance
    dtype: str = "auto"
    device: str = "auto"
    prompt_mode: PromptMode = "auto"

    @model_validator(mode="before")
    @classmethod
    def _a_remote_target_drafts_by_itself(cls, values: Any) -> Any:
        if isinstance(values, dict) and is_remote(str(values.get("target"))):
            if values.get("drafter", _DEFAULTS.drafter) not in (_DEFAULTS.drafter, "none"):
                raise ValueError(f"drafter is {values['drafter']!r}: a remote target drafts as it likes, leave it out")
            return {**values, "drafter": "none"}
        return values

    @model_validator(mode="after")
    def _engine_can_honour_it(self) -> Self:
        try:
            self.engine_config()
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

    dataset: str = Field("humaneval", description="name of a dataset")
    task_ids: tuple[str, ...] = Field((), description="only these tasks; empty: all")
    limit: int | None = Field(None, ge=1, description="only the first so many tasks")
    time_limit_s: float | None = Field(
        None, gt=0, le=MAX_TIME_LIMIT_S, description="take up no further task after so many seconds"
    )
    name: str = Field("", max_length=200)


def parse_spec(kind: type[S], values: dict[str, Any]) -> S:
    """The checked specification. Raises BadInput with one sentence naming the field and the remedy."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise bad_input(error) from None


def bad_input(error: ValidationError) -> BadInput:
    """The first fault of a pydantic error as one sentence."""
    fault = error.errors()[0]
    field = ".".join(str(part) for part in fault["loc"]) or None
    message = fault["msg"].removeprefix("Value error, ")
    if field is None:
        return BadInput(message)
    if fault["type"] == "extra_forbidden":
        return BadInput(f"{field} is not a known field: remove it", field)
    if fault["type"] == "missing":
        return BadInput(f"{field} is missing: give one", field)
    given = repr(fault["input"])
    given = given if len(given) <= LONGEST_ECHO else f"{given[:LONGEST_ECHO]}... ({len(given)} characters)"
    return BadInput(f"{field} is {given}: {message[0].lower() + message[1:]}", field)
