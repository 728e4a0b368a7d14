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


class ServerUnreachableError(RemoteServerError):
    """No connection to the server could be made: nothing listens, TLS fails, or the address is not valid."""


class TokenLogprobs(NamedTuple):
    """The tokens of a piece of text, and the log-probability of each."""

    texts: Sequence[str]
    logprobs: Sequence[float]


@dataclass(frozen=True, slots=True)
class ChoiceDelta:
    """What a chunk adds to one choice. `tokens` is None where the server sends none that can be used.

    `thought` is text that a chat model thinks before its answer, sent apart from it.
    """

    index: int
    text: str
    finish_reason: str | None
    tokens: TokenLogprobs | None
    has_unusable_logprobs: bool = False
    thought: str = ""


class Usage(NamedTuple):
    """The server's counts; None where it sends none that can be used. It drafts tokens when it speculates."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None

    def fill_unknown(self, earlier: Usage | None) -> Usage:
        """These counts, and earlier ones where these are unknown."""
        return self if earlier is None else Usage(*(b if a is None else a for a, b in zip(self, earlier, strict=True)))


class Chunk(NamedTuple):
    """One event of a streamed completion."""

    choices: tuple[ChoiceDelta, ...]
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

    A text or finish reason of the wrong type is an error. A choice without an index is left out, and log-probabilities
    and usage in a wrong form count as not sent.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise RemoteServerError("sends an event that is not JSON") from None
    if not isinstance(document, dict):
        raise RemoteServerError("sends an event that is not a JSON object")
    if document.get("error"):
        raise RemoteServerError(f"breaks off: {find_message(document)}")
    if "choices" not in document and isinstance(document.get("content"), str):
        return _parse_infill_event(document)
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


def _parse_choice(choice: Any) -> ChoiceDelta | None:
    """A choice of a completion, or of a chat, whose text is in its `delta`.

    None for one without an index, which belongs to no sample.
    """
    if not isinstance(choice, dict):
        raise RemoteServerError("sends a choice that is not a JSON object")
    delta = choice.get("delta")
    part = delta if isinstance(delta, dict) else choice
    index, reason = choice.get("index"), choice.get("finish_reason")
    text = part.get("content") if part is delta else part.get("text")
    for name, value in (("text", text), ("finish_reason", reason)):
        if not isinstance(value, str | None):
            raise RemoteServerError(f"sends a choice whose {name} is {type(value).__name__}, not a text")
    if not isinstance(index, int) or isinstance(index, bool):
        return None
    tokens, is_usable = _parse_logprobs(choice.get("logprobs"))
    thoughts = [part.get(name) for name in ("reasoning_content", "reasoning")] if part is delta else []
    thought = next((each for each in thoughts if isinstance(each, str)), "")
    return ChoiceDelta(index, text or "", reason or None, tokens, not is_usable, thought)


def _parse_infill_event(document: dict[str, Any]) -> Chunk:
    """An event of llama.cpp's own form, which its /infill sends."""
    index = document.get("index", 0)
    is_over = document.get("stop") is True
    reason = ("length" if document.get("stop_type") == "limit" else "stop") if is_over else None
    known = index if isinstance(index, int) and not isinstance(index, bool) else 0
    counts = document.get("tokens_evaluated"), document.get("tokens_predicted")
    usage = Usage(*map(_parse_count, counts)) if is_over else None
    choice = ChoiceDelta(known, document["content"], reason, None)
    return Chunk((choice,), usage and _parse_timings(document.get("timings")).fill_unknown(usage))


def _parse_logprobs(logprobs: Any) -> tuple[TokenLogprobs | None, bool]:
    """(tokens, whether what was sent can be used), from two lists or, as of a chat, from a list of tokens."""
    if logprobs is None:
        return None, True
    if not isinstance(logprobs, dict):
        return None, False
    values, texts, content = (logprobs.get(name) for name in ("token_logprobs", "tokens", "content"))
    if values is None and content is None:
        return None, True
    if values is None and isinstance(content, list) and all(isinstance(token, dict) for token in content):
        values, texts = [token.get("logprob") for token in content], [token.get("token") for token in content]
    tokens = _pair_tokens(texts, values)
    return tokens, tokens is not None


def _pair_tokens(texts: Any, values: Any) -> TokenLogprobs | None:
    """The tokens that have a log-probability, with empty texts where none were sent; None if they cannot be used."""
    if not isinstance(values, list) or not all(map(_is_logprob, values)):
        return None
    if texts is None:
        texts = [""] * len(values)
    if not isinstance(texts, list) or len(texts) != len(values) or not all(isinstance(t, str) for t in texts):
        return None
    known = [(text, float(value)) for text, value in zip(texts, values, strict=True) if value is not None]
    return TokenLogprobs([text for text, _ in known], [value for _, value in known])


def _is_logprob(value: Any) -> bool:
    """A server may have none for a token, and rounding may leave one slightly above 0."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and -1e9 < value < 1e-3)


def _parse_usage(document: dict[str, Any]) -> Usage | None:
    """Counts as OpenAI, llama.cpp (`timings`) and this service (`drafted_tokens`) send them."""
    usage, timings = document.get("usage"), _parse_timings(document.get("timings"))
    if not isinstance(usage, dict):
        return timings if any(count is not None for count in timings) else None
    details, drafts = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    drafted, accepted = (
        (drafts.get("drafted_tokens"), drafts.get("accepted_prediction_tokens"))
        if isinstance(drafts, dict) and _parse_count(drafts.get("drafted_tokens"))
        else (None, None)
    )
    counts = usage.get("prompt_tokens"), usage.get("completion_tokens"), cached, drafted, accepted
    return Usage(*map(_parse_count, counts)).fill_unknown(timings)


def _parse_timings(timings: Any) -> Usage:
    """llama.cpp's counts of one choice, which come with its end."""
    if not isinstance(timings, dict):
        return Usage()
    counts = (timings.get(name) for name in ("predicted_n", "cache_n", "draft_n", "draft_n_accepted"))
    return Usage(None, *map(_parse_count, counts))


def _parse_count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None
