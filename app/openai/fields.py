"""The common part of requests for samples: OpenAI's fields, ours, and those that are refused or ignored."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StrictFloat,
    StrictInt,
    model_validator,
)

from app.core.db.storable import InputText
from app.core.errors import BadInputError
from app.core.settings import MAX_BUDGET_S, MIN_BUDGET_S
from app.runs.schemas import MAX_N, DecodingSpec, PromptMode
from evaluation.datasets import Task

MAX_STOPS = 256
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "add_generation_prompt": (True,),
    "add_special_tokens": (True,),
    "best_of": (1,),
    "function_call": ("none",),
    "length_penalty": (1,),
    "modalities": (["text"],),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "tool_choice": ("none",),
    "top_k": (0, -1),
    "typical_p": (1,),
}
"""Parameters of OpenAI's API, and of vLLM, SGLang, llama.cpp and others beyond it, that would change the text but are
not supported, each with its neutral values, which clients send by default."""
OFF = frozenset(
    {
        "allowed_token_ids",
        "bad_words",
        "chat_template_kwargs",
        "continue_final_message",
        "echo",
        "frequency_penalty",
        "functions",
        "ignore_eos",
        "include_stop_str_in_output",
        "logit_bias",
        "min_p",
        "min_tokens",
        "presence_penalty",
        "return_token_ids",
        "return_tokens_as_token_ids",
        "stop_token_ids",
        "tools",
        "use_beam_search",
    }
)
"""More of them, whose neutral values are those of NOTHING."""
NOTHING: tuple[Any, ...] = (False, 0, "", [], {})
# Ignored: they only affect attribution, records, priority or caching, not the text.
IGNORED = frozenset(
    {
        "cache_prompt",
        "cache_salt",
        "metadata",
        "parallel_tool_calls",
        "prediction",
        "priority",
        "prompt_cache_key",
        "request_id",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    }
)


OneOrMore = Annotated[
    tuple[InputText, ...], BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)
]


class StreamOptions(BaseModel):
    """`include_usage`: a last chunk carries the usage. The others have no effect."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    include_usage: StrictBool = False
    include_obfuscation: StrictBool = False  # padding against listeners, which clients must not rely on
    continuous_usage_stats: Literal[False] = False


class SamplesRequest(BaseModel, ABC):
    """n samples of each prompt, or under load as few as `n_min`. `budget` is the seconds of wall clock for all prompts
    together, from the moment the request is accepted; if missing, each prompt adds BASSLINE_COMPLETION_BUDGET_S.
    `drafter` is the option of a run.

    A field that has no effect here is refused, unless its value asks for nothing or cannot change the text: an error is
    better than figures for other settings than those asked for. `null` means the default. Numbers and booleans are not
    read from texts or from each other.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    model: InputText = Field(min_length=1, max_length=500)
    n: StrictInt = Field(1, ge=1, le=MAX_N)
    temperature: StrictFloat = Field(1.0, ge=0, le=2)
    top_p: StrictFloat = Field(1.0, gt=0, le=1)
    seed: StrictInt = Field(default_factory=lambda: secrets.randbelow(2**31), ge=0, le=2**63 - 1)
    stop: OneOrMore = ()
    stream: StrictBool = False
    stream_options: StreamOptions = Field(default_factory=StreamOptions)
    budget: StrictFloat | None = Field(None, ge=MIN_BUDGET_S, le=MAX_BUDGET_S)
    n_min: StrictInt | None = Field(None, ge=1, le=MAX_N)
    drafter: InputText | None = Field(None, max_length=500)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, values: Any) -> Any:
        return {k: v for k, v in values.items() if v is not None} if isinstance(values, dict) else values

    @model_validator(mode="after")
    def _require_supported_fields(self) -> Self:
        for name, given in (self.model_extra or {}).items():
            if name in IGNORED or (name, given) == ("best_of", self.n):
                continue
            if given not in NEUTRAL.get(name, NOTHING if name in OFF else ()):
                raise BadInputError(f"{name[:60]} is not offered here: leave it out", name)
        if len(self.stop) > MAX_STOPS or "" in self.stop:
            raise ValueError(f"stop holds {len(self.stop)} strings: give at most {MAX_STOPS}, none of them empty")
        return self

    @property
    @abstractmethod
    def max_sample_tokens(self) -> int:
        """The most tokens of a sample."""

    @property
    def prompt_mode(self) -> PromptMode:
        """How the prompts are sent."""
        return "raw"

    def build_decoding_spec(self, usual_budget_s: float) -> DecodingSpec:
        """How the samples are decoded, by default within `usual_budget_s` a prompt. Raises ValidationError."""
        usual_s = min(usual_budget_s * len(self.build_tasks()), MAX_BUDGET_S)
        return DecodingSpec(
            target=self.model,
            n=self.n,
            budget_s=usual_s if self.budget is None else self.budget,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=self.seed,
            max_tokens=self.max_sample_tokens,
            prompt_mode=self.prompt_mode,
            **({} if self.drafter is None else {"drafter": self.drafter}),
        )

    @abstractmethod
    def build_tasks(self) -> tuple[Task, ...]:
        """The prompts as tasks without tests; their order is the order of the answer's choices."""

    @property
    def template_kwargs(self) -> dict[str, JsonValue]:
        """What the chat template can read beside the messages."""
        return {}

    @property
    @abstractmethod
    def logprob_options(self) -> dict[str, Any]:
        """`prompt_logprobs` and `top_logprobs` of decoding.request.Request."""
