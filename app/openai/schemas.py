"""The requests of POST /v1/completions and of POST /v1/chat/completions, as OpenAI documents them, and `budget`."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    StrictBool,
    StrictInt,
    Tag,
    model_validator,
)

from app.completions.schemas import MAX_CHARACTERS
from app.core.db.storable import InputText
from app.core.errors import BadInputError
from app.openai.fields import SamplesRequest
from app.runs.schemas import MAX_TOKENS, PromptMode
from decoding.request import MAX_TOP_LOGPROBS
from evaluation.datasets import Task

MAX_MESSAGES = 1000
USUAL_MAX_TOKENS = 2048  # default for a chat; the KV cache reserves room for all of them, so it is kept low
MAX_PROMPTS = 128
MAX_PROMPT_TOKENS = 200_000
MAX_TEMPLATE_KWARGS = 10_000
RESERVED = frozenset(
    {
        *(
            "add_generation_prompt",
            "additional_special_tokens",
            "chat_template",
            "continue_final_message",
            "conversation",
            "conversations",
        ),
        *("documents", "max_length", "messages", "padding", "return_assistant_tokens_mask", "return_dict"),
        *("return_tensors", "sanitize_control_tokens", "self", "tokenize", "tokenizer_kwargs", "tools", "truncation"),
    }
)
"""Template variables and renderer options that a request may not set here."""
TokenId = Annotated[StrictInt, Field(ge=0, lt=2**31)]
Prompt = Annotated[
    Annotated[InputText, Tag("text")] | Annotated[tuple[TokenId, ...], Tag("token_ids")],
    Discriminator(lambda given: "token_ids" if isinstance(given, list | tuple) else "text"),
]


def _split_prompts(given: Any) -> Any:
    """A text or a list of token ids is one prompt; a list of either is several."""
    is_one = isinstance(given, str) or (isinstance(given, list) and given and isinstance(given[0], int))
    return [given] if is_one else given


class CompletionRequest(SamplesRequest):
    """n samples of each prompt, which is a text or a list of token ids."""

    prompt: Annotated[tuple[Prompt, ...], BeforeValidator(_split_prompts)]
    suffix: InputText | None = Field(None, max_length=MAX_CHARACTERS)
    max_tokens: StrictInt = Field(16, ge=0, le=MAX_TOKENS)
    logprobs: StrictInt | None = Field(None, ge=0, le=5)
    echo: StrictBool = False

    @model_validator(mode="after")
    def _check_prompts(self) -> Self:
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
    def max_sample_tokens(self) -> int:
        """At least 1: every request to the engine draws a token, which is left out of the answer for max_tokens 0."""
        return max(self.max_tokens, 1)

    @property
    def prompt_mode(self) -> PromptMode:
        """`infill` if there is a suffix."""
        return "raw" if self.suffix is None else "infill"

    @property
    def logprob_options(self) -> dict[str, Any]:
        """`logprobs` top tokens at each position; with `echo` at the positions of the prompt as well."""
        return {"prompt_logprobs": self.logprobs if self.echo else None, "top_logprobs": self.logprobs or 0}

    def build_tasks(self) -> tuple[Task, ...]:
        """Each prompt as a task without tests."""
        return tuple(self._build_task(f"prompt/{i}", prompt) for i, prompt in enumerate(self.prompt))

    def _build_task(self, task_id: str, prompt: str | tuple[int, ...]) -> Task:
        if isinstance(prompt, str):
            return Task(task_id, prompt, "", "", "", suffix=self.suffix, stop=self.stop)
        return Task(task_id, "", "", "", "", stop=self.stop, prompt_token_ids=prompt)


def _join_parts(content: Any) -> Any:
    """The texts of content parts, each in lines of its own. Raises ValueError for a part that is not text."""
    if not isinstance(content, list):
        return content
    parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    if len(texts) < len(content):
        raise ValueError("only parts of type text are offered, send the text alone")
    return "\n".join(texts)


class Message(BaseModel):
    """A turn of the conversation. Other fields are refused, unless they are empty, as clients send answers back."""

    model_config = ConfigDict(extra="allow", frozen=True)

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[InputText, BeforeValidator(_join_parts)]

    @model_validator(mode="after")
    def _require_supported_fields(self) -> Self:
        for name, given in (self.model_extra or {}).items():
            if given not in (None, [], ""):
                raise BadInputError(f"{name[:60]} of a message is not offered here: leave it out", "messages")
        return self

    def to_template_message(self) -> dict[str, str]:
        """The message as a chat template reads it; `developer` is OpenAI's newer name of `system`."""
        return {"role": "system" if self.role == "developer" else self.role, "content": self.content}


def _check_template_kwargs(values: dict[str, JsonValue]) -> None:
    """Raises BadInputError for values that are too large, or that would replace what the template is given anyway."""
    field = "chat_template_kwargs"
    if (length := len(json.dumps(values))) > MAX_TEMPLATE_KWARGS:
        raise BadInputError(f"{field} has {length} characters of JSON: give at most {MAX_TEMPLATE_KWARGS}", field)
    for name in values:
        if not name.isidentifier():
            raise BadInputError(f"{field} holds {name[:60]!r}: give names that a template can read", field)
        if name in RESERVED or name.endswith("_token"):
            raise BadInputError(f"{field} holds {name[:60]}, which is set here: leave it out", field)


class ChatRequest(SamplesRequest):
    """n answers to a conversation."""

    messages: tuple[Message, ...] = Field(min_length=1, max_length=MAX_MESSAGES)
    max_tokens: StrictInt | None = Field(None, ge=1, le=MAX_TOKENS)
    max_completion_tokens: StrictInt | None = Field(None, ge=1, le=MAX_TOKENS)
    logprobs: StrictBool = False
    top_logprobs: StrictInt = Field(0, ge=0, le=MAX_TOP_LOGPROBS)
    chat_template_kwargs: dict[str, JsonValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if (length := sum(len(message.content) for message in self.messages)) > MAX_CHARACTERS:
            raise ValueError(f"messages have {length} characters: give at most {MAX_CHARACTERS}")
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs is given without logprobs: set logprobs to true, or leave it out")
        if None not in (self.max_tokens, self.max_completion_tokens) and self.max_tokens != self.max_completion_tokens:
            raise ValueError("max_tokens and max_completion_tokens differ: give one of them")
        _check_template_kwargs(self.chat_template_kwargs)
        return self

    @property
    def template_kwargs(self) -> dict[str, JsonValue]:
        """What the chat template can read beside the messages."""
        return self.chat_template_kwargs

    @property
    def max_sample_tokens(self) -> int:
        """`max_completion_tokens`, or `max_tokens`, its older name."""
        return self.max_completion_tokens or self.max_tokens or USUAL_MAX_TOKENS

    @property
    def logprob_options(self) -> dict[str, Any]:
        """The log-probabilities that the answer shows beside the chosen tokens."""
        return {"top_logprobs": self.top_logprobs}

    def build_tasks(self) -> tuple[Task, ...]:
        """The conversation as one task; its prompt is for people to read."""
        rendered = tuple(message.to_template_message() for message in self.messages)
        prompt = "\n\n".join(f"{message['role']}: {message['content']}" for message in rendered)
        return (Task("prompt/0", prompt, "", "", "", stop=self.stop, messages=rendered),)
