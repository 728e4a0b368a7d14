"""The request of POST /v1/completions, as OpenAI documents it, and `budget`."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from app.complete.schemas import MAX_CHARACTERS
from app.runs.schemas import MAX_BUDGET_S, MAX_N, MAX_TOKENS, DecodingSpec
from app.schemas import Text
from evaluation.datasets import Task

MAX_PROMPTS = 128
MAX_STOPS = 256
# What other servers do and this one cannot, with the values that ask for nothing.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "echo": (None, False),
    "best_of": (None, 1),
    "frequency_penalty": (None, 0),
    "presence_penalty": (None, 0),
    "logit_bias": (None, {}),
}


OneOrMore = Annotated[tuple[Text, ...], BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)]


class StreamOptions(BaseModel):
    """`include_usage`: a last chunk carries the usage."""

    model_config = ConfigDict(extra="ignore")

    include_usage: bool = False


class CompletionRequest(BaseModel):
    """n samples of each prompt. `budget` is the seconds of wall clock for a prompt, queueing not counted; where it is
    missing, BASSLINE_COMPLETION_BUDGET_S holds.

    Unknown fields are ignored, as clients send fields of their own; those of OpenAI's that would change the answer
    and are not honoured are refused. `null` means the default, as there.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    model: Text = Field(min_length=1, max_length=500)
    prompt: OneOrMore
    suffix: Text | None = Field(None, max_length=MAX_CHARACTERS)
    n: int = Field(1, ge=1, le=MAX_N)
    max_tokens: int = Field(16, ge=1, le=MAX_TOKENS)
    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    seed: int = Field(default_factory=lambda: secrets.randbelow(2**31), ge=0, le=2**63 - 1)
    stop: OneOrMore = ()
    logprobs: int | None = Field(None, ge=0, le=5)
    stream: bool = False
    stream_options: StreamOptions = Field(default_factory=StreamOptions)
    budget: float | None = Field(None, gt=0, le=MAX_BUDGET_S)

    @model_validator(mode="before")
    @classmethod
    def _null_is_the_default(cls, values: Any) -> Any:
        return {k: v for k, v in values.items() if v is not None} if isinstance(values, dict) else values

    @model_validator(mode="after")
    def _can_be_honoured(self) -> Self:
        for name, neutral in NEUTRAL.items():
            given = (self.model_extra or {}).get(name)
            if given not in neutral and (name, given) != ("best_of", self.n):
                raise ValueError(f"{name} is not offered here: leave it out")
        if not 1 <= len(self.prompt) <= MAX_PROMPTS:
            raise ValueError(f"prompt holds {len(self.prompt)} prompts: give 1 to {MAX_PROMPTS}")
        for prompt in self.prompt:
            if not 1 <= len(prompt) <= MAX_CHARACTERS:
                raise ValueError(f"prompt has {len(prompt)} characters: give 1 to {MAX_CHARACTERS}")
        if len(self.stop) > MAX_STOPS or "" in self.stop:
            raise ValueError(f"stop holds {len(self.stop)} strings: give at most {MAX_STOPS}, none of them empty")
        return self

    def decoding(self, usual_budget_s: float) -> DecodingSpec:
        """How the samples are decoded, by default within `usual_budget_s`. Raises ValidationError."""
        return DecodingSpec(
            target=self.model,
            n=self.n,
            budget_s=usual_budget_s if self.budget is None else self.budget,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=self.seed,
            max_tokens=self.max_tokens,
            prompt_mode="raw" if self.suffix is None else "infill",
        )

    def tasks(self) -> tuple[Task, ...]:
        """The prompts as tasks without tests; their order is the order of the answer's choices."""
        return tuple(
            Task(f"prompt/{i}", prompt, "", "", "", suffix=self.suffix, stop=self.stop)
            for i, prompt in enumerate(self.prompt)
        )
