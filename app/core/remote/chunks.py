"""What a server streams: server-sent events of a bounded size, and the chunks of a completion in them, validated."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

DONE = "[DONE]"
_HIGH_SURROGATES = ("\ud800", "\udbff")


class RemoteServerError(RuntimeError):
    """The server failed, or its answer cannot be read; the message says so in a sentence. Another try may succeed."""


class TokenLogprobs(NamedTuple):
    """The tokens of a piece of text, and the log-probability of each."""

    texts: Sequence[str]
    logprobs: Sequence[float]


@dataclass(frozen=True, slots=True)
class Choice:
    """What a chunk adds to one choice. `tokens` is None where the server sends none that can be used."""

    index: int
    text: str
    finish_reason: str | None
    tokens: TokenLogprobs | None
    has_unusable_logprobs: bool = False


class Usage(NamedTuple):
    """The server's counts; None where it sends none that can be used."""

    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None


class Chunk(NamedTuple):
    """One event of a streamed completion."""

    choices: tuple[Choice, ...]
    usage: Usage | None


class EventReader:
    """Takes a stream's bytes as they come, and returns the data of each event that is complete.

    Raises RemoteServerError for an event of more than `max_bytes`, so that no stream grows this process.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._line = bytearray()  # not ended yet
        self._data: list[bytes] = []  # of the event that is not ended yet
        self._n_bytes = 0  # of `_data`

    def feed(self, block: bytes) -> Iterator[str]:
        """The data of the events that `block` completes."""
        *lines, rest = block.split(b"\n")
        for line in lines:
            self._line += line
            whole = bytes(self._line).removesuffix(b"\r")
            self._line.clear()
            if whole.startswith(b"data:"):
                self._data.append(whole.removeprefix(b"data:").removeprefix(b" "))
                self._n_bytes += len(whole)
            elif not whole and self._data:
                event = b"\n".join(self._data)
                self._data, self._n_bytes = [], 0
                self._require_size(len(event))
                yield event.decode("utf-8", "replace")
            self._require_size(self._n_bytes)
        self._line += rest
        self._require_size(self._n_bytes + len(self._line))

    def _require_size(self, n_bytes: int) -> None:
        if n_bytes > self._max_bytes:
            raise RemoteServerError(f"sends an event of more than {self._max_bytes} bytes")


def parse_chunk(data: str) -> Chunk:
    """The chunk in an event. Raises RemoteServerError for an error object, and for a form that cannot be read.

    Without text, index and finish reason there is no answer. Log-probabilities and usage only go with it: those in a
    wrong form count as not sent.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise RemoteServerError("sends an event that is not JSON") from None
    if not isinstance(document, dict):
        raise RemoteServerError("sends an event that is not a JSON object")
    if document.get("error"):
        raise RemoteServerError(f"breaks off: {find_message(document)}")
    choices = document.get("choices")
    if not isinstance(choices, list | None):
        raise RemoteServerError("sends an event whose choices are not a list")
    return Chunk(tuple(c for c in map(_parse_choice, choices or []) if c is not None), _parse_usage(document))


def find_message(document: Any) -> str:
    """The sentence in an error document, in the forms that servers use, short enough to be shown."""
    for name in ("error", "message", "detail"):
        if isinstance(document, dict) and document.get(name):
            document = document[name]
    return " ".join(str(document).split())[:500]


def join_surrogates(text: str) -> tuple[str, str]:
    """(text with whole characters, the half of one at its end). JSON may send a character as two halves, which a
    server may put into two chunks."""
    half = text[-1:] if _HIGH_SURROGATES[0] <= text[-1:] <= _HIGH_SURROGATES[1] else ""
    whole = text.removesuffix(half)
    return whole.encode("utf-16", "surrogatepass").decode("utf-16", "replace"), half


def _parse_choice(choice: Any) -> Choice | None:
    """None for a choice without an index, which belongs to no sample."""
    if not isinstance(choice, dict):
        raise RemoteServerError("sends a choice that is not a JSON object")
    index, text, reason = choice.get("index"), choice.get("text"), choice.get("finish_reason")
    if not isinstance(text, str | None):
        raise RemoteServerError(f"sends a choice whose text is {type(text).__name__}, not a text")
    if not isinstance(reason, str | None):
        raise RemoteServerError(f"sends a choice whose finish_reason is {type(reason).__name__}, not a text")
    if not isinstance(index, int) or isinstance(index, bool):
        return None
    tokens, is_usable = _parse_logprobs(choice.get("logprobs"))
    return Choice(index, text or "", reason or None, tokens, not is_usable)


def _parse_logprobs(logprobs: Any) -> tuple[TokenLogprobs | None, bool]:
    """(tokens, whether what was sent can be used)."""
    if logprobs is None:
        return None, True
    if not isinstance(logprobs, dict):
        return None, False
    values, texts = logprobs.get("token_logprobs"), logprobs.get("tokens")
    if values is None:
        return None, True
    if not isinstance(values, list) or not all(map(_is_logprob, values)):
        return None, False
    if texts is None:
        texts = [""] * len(values)
    if not isinstance(texts, list) or len(texts) != len(values) or not all(isinstance(t, str) for t in texts):
        return None, False
    known = [(text, float(value)) for text, value in zip(texts, values, strict=True) if value is not None]
    return TokenLogprobs([text for text, _ in known], [value for _, value in known]), True


def _is_logprob(value: Any) -> bool:
    """A server may have none for a token, and rounding may leave one slightly above 0."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and -1e9 < value < 1e-3)


def _parse_usage(document: dict[str, Any]) -> Usage | None:
    usage = document.get("usage")
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    counts = usage.get("prompt_tokens"), usage.get("completion_tokens"), cached
    return Usage(*map(_parse_count, counts))


def _parse_count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None
