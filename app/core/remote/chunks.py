"""What a server streams: the chunks of a completion, as OpenAI, llama.cpp and this service send them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

NO_INDEX = -1  # of a choice that belongs to no sample


class RemoteServerError(RuntimeError):
    """The server failed, or its answer cannot be read; the message says so in a sentence. Another try may succeed."""


class ServerUnreachableError(RemoteServerError):
    """No connection to the server could be made: nothing listens, TLS fails, or the address is not valid."""


class TokenLogprobs(NamedTuple):
    """The tokens of a piece of text, and the log-probability of each."""

    texts: Sequence[str]
    logprobs: Sequence[float]


def _find_at(*paths: str, default: Any = None) -> Any:
    """A field that is at the first of these paths that the document has."""
    return Field(default, validation_alias=AliasChoices(*(AliasPath(*path.split(".")) for path in paths)))


def _ignore_invalid(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """None for a value in a wrong form, as if the server had not sent it."""
    try:
        return validate(value)
    except ValidationError:
        return None


def _ignore_invalid_index(value: Any, validate: ValidatorFunctionWrapHandler) -> int:
    index = _ignore_invalid(value, validate)
    return NO_INDEX if index is None else index


def _parse_text(value: Any) -> str:
    if not isinstance(value, str | None):
        raise ValueError(f"{type(value).__name__} is not a text")
    return value or ""


_Count = Annotated[Annotated[int, Field(strict=True, ge=0, lt=2**31)] | None, WrapValidator(_ignore_invalid)]
# A server may have no log-probability for a token, and rounding may leave one slightly above 0.
_Logprob = Annotated[float, Field(strict=True, gt=-1e9, lt=1e-3, allow_inf_nan=False)] | None
_Text = Annotated[str, PlainValidator(_parse_text)]


class _ChatToken(BaseModel):
    token: str
    logprob: _Logprob = None


class _Logprobs(BaseModel):
    """Two lists or, as of a chat, a list of tokens."""

    tokens: list[str] | None = None
    token_logprobs: list[_Logprob] | None = None
    content: list[_ChatToken] | None = None


def _mark_invalid(value: Any, validate: ValidatorFunctionWrapHandler) -> _Logprobs:
    """What cannot be read is a text without its log-probability, which no sample can use."""
    found: _Logprobs | None = _ignore_invalid(value, validate)
    return found or _Logprobs(tokens=[""], token_logprobs=[])


class ChoiceDelta(BaseModel):
    """What a chunk adds to one choice of a completion or a chat. Its text may begin or end with half a character.

    `thought` is text that a chat model thinks before its answer, sent apart from it.
    """

    index: Annotated[int, Field(strict=True), WrapValidator(_ignore_invalid_index)] = NO_INDEX
    text: _Text = _find_at("delta.content", "text", default="")
    thought: Annotated[str | None, WrapValidator(_ignore_invalid)] = _find_at(
        "delta.reasoning_content", "delta.reasoning"
    )
    finish_reason: Annotated[str | None, AfterValidator(lambda reason: reason or None)] = None
    logprobs: Annotated[_Logprobs, WrapValidator(_mark_invalid)] = _Logprobs()

    @property
    def tokens(self) -> TokenLogprobs | None:
        """The tokens that have a log-probability, with empty texts where none were sent; None if they cannot be
        used."""
        sent = self.logprobs
        texts, values = sent.tokens, sent.token_logprobs
        if values is None and sent.content is not None:
            texts, values = [each.token for each in sent.content], [each.logprob for each in sent.content]
        if values is None or (texts is not None and len(texts) != len(values)):
            return None
        known = [
            (text, value) for text, value in zip(texts or [""] * len(values), values, strict=True) if value is not None
        ]
        return TokenLogprobs([text for text, _ in known], [value for _, value in known])

    @property
    def has_unusable_logprobs(self) -> bool:
        """Whether log-probabilities were sent that cannot be used."""
        sent = self.logprobs
        return self.tokens is None and (sent.token_logprobs is not None or sent.content is not None)


class Usage(BaseModel):
    """The server's counts, also those of llama.cpp (`timings`); None where it sends none that can be used."""

    prompt_tokens: _Count = _find_at("usage.prompt_tokens", "tokens_evaluated")
    completion_tokens: _Count = _find_at("usage.completion_tokens", "timings.predicted_n", "tokens_predicted")
    cached_tokens: _Count = _find_at("usage.prompt_tokens_details.cached_tokens", "timings.cache_n")
    drafted_tokens: _Count = _find_at("usage.completion_tokens_details.drafted_tokens", "timings.draft_n")
    accepted_tokens: _Count = _find_at(
        "usage.completion_tokens_details.accepted_prediction_tokens", "timings.draft_n_accepted"
    )

    def fill_unknown(self, earlier: Usage) -> Usage:
        """These counts, and earlier ones where these are unknown."""
        return self.model_copy(update={name: value for name, value in earlier if getattr(self, name) is None})


class Chunk(NamedTuple):
    """One event of a streamed completion."""

    choices: Sequence[ChoiceDelta]
    usage: Usage


_CHOICES = TypeAdapter(list[ChoiceDelta])


def parse_chunk(data: str) -> Chunk:
    """The chunk in an event. Raises RemoteServerError for an error object, and for a form that cannot be read.

    A text or finish reason of the wrong type is an error. Other fields in a wrong form count as not sent.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise RemoteServerError("sends an event that is not JSON") from None
    if not isinstance(document, dict):
        raise RemoteServerError("sends an event that is not a JSON object")
    if document.get("error"):
        raise RemoteServerError(f"breaks off: {find_message(document)}")
    choices = document.get("choices") or []
    if "choices" not in document and "content" in document:  # llama.cpp's own form, which its /infill sends
        reason = "length" if document.get("stop_type") == "limit" else "stop"
        choice = {"index": 0, "text": document["content"], "finish_reason": reason if document.get("stop") else None}
        choices = [choice]
    try:
        choices = [_drop_nulls(choice) for choice in choices] if isinstance(choices, list) else choices
        return Chunk(_CHOICES.validate_python(choices), Usage.model_validate(_drop_nulls(document)))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, ("choices", *first["loc"])))
        raise RemoteServerError(f"sends an event that cannot be read: {place}: {first['msg']}") from None


def _drop_nulls(document: Any) -> Any:
    """The document without fields that are null: they count as not sent, so that another place is looked at."""
    if isinstance(document, dict):
        return {name: _drop_nulls(value) for name, value in document.items() if value is not None}
    return document


def find_message(document: Any) -> str:
    """The sentence in an error document, in the forms that servers use, short enough to be shown."""
    for name in ("error", "message", "detail"):
        if isinstance(document, dict) and document.get(name):
            document = document[name]
    return " ".join(str(document).split())[:500]
