"""The request of POST /v1/chat/completions, as OpenAI documents it, and `budget`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictInt, model_validator

from app.completions.schemas import MAX_CHARACTERS
from app.db.storable import Text
from app.errors import BadInputError
from app.openai.fields import SamplesRequest, Wanted
from app.runs.schemas import MAX_TOKENS
from decoding.request import MAX_TOP_LOGPROBS
from evaluation.datasets import Task

MAX_MESSAGES = 1000
USUAL_MAX_TOKENS = 2048  # a cache has room for all of them, so no more than an answer needs


def _joined(content: Any) -> Any:
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
    content: Annotated[Text, BeforeValidator(_joined)]

    @model_validator(mode="after")
    def _can_be_honoured(self) -> Self:
        for name, given in (self.model_extra or {}).items():
            if given not in (None, [], ""):
                raise BadInputError(f"{name[:60]} of a message is not offered here: leave it out", "messages")
        return self

    def rendered(self) -> dict[str, str]:
        """The message as a chat template reads it; `developer` is OpenAI's newer name of `system`."""
        return {"role": "system" if self.role == "developer" else self.role, "content": self.content}


class ChatRequest(SamplesRequest):
    """n answers to a conversation."""

    messages: tuple[Message, ...] = Field(min_length=1, max_length=MAX_MESSAGES)
    max_tokens: StrictInt | None = Field(None, ge=1, le=MAX_TOKENS)
    max_completion_tokens: StrictInt | None = Field(None, ge=1, le=MAX_TOKENS)
    logprobs: StrictBool = False
    top_logprobs: StrictInt = Field(0, ge=0, le=MAX_TOP_LOGPROBS)

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        if (length := sum(len(message.content) for message in self.messages)) > MAX_CHARACTERS:
            raise ValueError(f"messages have {length} characters: give at most {MAX_CHARACTERS}")
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs is given without logprobs: set logprobs to true, or leave it out")
        if None not in (self.max_tokens, self.max_completion_tokens) and self.max_tokens != self.max_completion_tokens:
            raise ValueError("max_tokens and max_completion_tokens differ: give one of them")
        return self

    @property
    def longest(self) -> int:
        """`max_completion_tokens`, or `max_tokens`, its older name."""
        return self.max_completion_tokens or self.max_tokens or USUAL_MAX_TOKENS

    def wanted(self) -> Wanted:
        """The log-probabilities that the answer shows beside the chosen tokens."""
        return Wanted(None, self.top_logprobs)

    def tasks(self) -> tuple[Task, ...]:
        """The conversation as one task; its prompt is for people to read."""
        rendered = tuple(message.rendered() for message in self.messages)
        prompt = "\n\n".join(f"{message['role']}: {message['content']}" for message in rendered)
        return (Task("prompt/0", prompt, "", "", "", stop=self.stop, messages=rendered),)
