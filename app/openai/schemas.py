"""The request of POST /v1/completions, as OpenAI documents it, and `budget`."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Discriminator, Field, StrictBool, StrictInt, Tag, model_validator

from app.completions.schemas import MAX_CHARACTERS
from app.db.storable import Text
from app.openai.fields import SamplesRequest, Wanted
from app.runs.schemas import MAX_TOKENS, PromptMode
from evaluation.datasets import Task

MAX_PROMPTS = 128
MAX_PROMPT_TOKENS = 200_000
TokenId = Annotated[StrictInt, Field(ge=0, lt=2**31)]
Prompt = Annotated[
    Annotated[Text, Tag("text")] | Annotated[tuple[TokenId, ...], Tag("token_ids")],
    Discriminator(lambda given: "token_ids" if isinstance(given, list | tuple) else "text"),
]


def _each(given: Any) -> Any:
    """A text or a list of token ids is one prompt; a list of either is several."""
    is_one = isinstance(given, str) or (isinstance(given, list) and given and isinstance(given[0], int))
    return [given] if is_one else given


class CompletionRequest(SamplesRequest):
    """n samples of each prompt, which is a text or a list of token ids."""

    prompt: Annotated[tuple[Prompt, ...], BeforeValidator(_each)]
    suffix: Text | None = Field(None, max_length=MAX_CHARACTERS)
    max_tokens: StrictInt = Field(16, ge=0, le=MAX_TOKENS)
    logprobs: StrictInt | None = Field(None, ge=0, le=5)
    echo: StrictBool = False

    @model_validator(mode="after")
    def _prompts_and_fields_agree(self) -> Self:
        if not 1 <= len(self.prompt) <= MAX_PROMPTS:
            raise ValueError(f"prompt holds {len(self.prompt)} prompts: give 1 to {MAX_PROMPTS}")
        for prompt in self.prompt:
            unit, most = ("characters", MAX_CHARACTERS) if isinstance(prompt, str) else ("token ids", MAX_PROMPT_TOKENS)
            if not 1 <= len(prompt) <= most:
                raise ValueError(f"prompt has {len(prompt)} {unit}: give 1 to {most}")
            if self.suffix is not None and not isinstance(prompt, str):
                raise ValueError("prompt holds token ids and there is a suffix: send the prompt as text")
        if self.max_tokens == 0 and not self.echo:
            raise ValueError("max_tokens is 0: give at least 1, or echo true to get the prompt back")
        if self.echo and self.suffix is not None:
            raise ValueError("echo is true and there is a suffix: leave one of them out")
        if self.echo and self.stream:
            raise ValueError("echo is true and so is stream: leave one of them out")
        return self

    @property
    def longest(self) -> int:
        """At least 1: every request to the engine draws a token, which is left out of the answer for max_tokens 0."""
        return max(self.max_tokens, 1)

    @property
    def prompt_mode(self) -> PromptMode:
        """`infill` if there is a suffix."""
        return "raw" if self.suffix is None else "infill"

    def wanted(self) -> Wanted:
        """`logprobs` top tokens at each position; with `echo` at the positions of the prompt as well."""
        return Wanted(self.logprobs if self.echo else None, self.logprobs or 0)

    def tasks(self) -> tuple[Task, ...]:
        """Each prompt as a task without tests."""
        return tuple(self._task(f"prompt/{i}", prompt) for i, prompt in enumerate(self.prompt))

    def _task(self, task_id: str, prompt: str | tuple[int, ...]) -> Task:
        if isinstance(prompt, str):
            return Task(task_id, prompt, "", "", "", suffix=self.suffix, stop=self.stop)
        return Task(task_id, "", "", "", "", stop=self.stop, prompt_token_ids=prompt)
