"""One sample as a server streams it: cut off at its stop strings, and bounded."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.core.remote.chunks import ChoiceDelta, TokenLogprobs
from app.core.remote.dialects import get_request_form
from decoding.request import FinishReason, Request, Sample, Update
from decoding.state.text import StreamedText

MAX_TOKEN_CHARACTERS = 128  # as long as the longest tokens of usual vocabularies, which are runs of spaces
MAX_SAMPLE_CHARACTERS = 512 * 1024
_FENCE = re.compile(r"^[ \t]*```[^`\n]*\n", re.MULTILINE)


@dataclass(slots=True)
class RemoteSample(Sample):
    """A received sample. It has no token ids: tokens are counted by their log-probabilities, else by the
    server's count, by a tokenizer that was named, or by the pieces in which the text came, which are no more than its
    tokens."""

    n_pieces: int = 0
    n_reported: int | None = None
    n_counted: int | None = None

    @property
    def n_tokens(self) -> int:
        """Tokens received."""
        return len(self.logprobs) or self.n_reported or self.n_counted or self.n_pieces


class SampleReceiver:
    """Makes a sample of the pieces of a choice, as an engine of ours would have ended it.

    The text ends before the first stop string, whether the server knows that string or not. A server that ignores
    `max_tokens` is cut off where the log-probabilities show it, at the latest at MAX_TOKEN_CHARACTERS for each token.
    """

    def __init__(self, request: Request, index: int, seed: int) -> None:
        self.sample = RemoteSample(index=index, seed=seed)
        self.has_begun = False  # whether the server sent anything for it
        self.is_cut = False  # ended here, so the server may still be sending
        self.is_changed = False  # since the last update was built
        self._max_tokens = request.max_new_tokens
        self._max_characters = min(request.max_new_tokens * MAX_TOKEN_CHARACTERS, MAX_SAMPLE_CHARACTERS)
        self._streamed = StreamedText(request.stop)
        _, _, self._is_fence_awaited = get_request_form(request.prompt)
        self._preamble = ""  # what came before the fence
        self._half = ""  # of a character, which a server may put into two chunks
        self._has_logprobs = True
        self._ends: list[int] = []  # of tokens, in the text; as many as log-probabilities, or of no use
        self._n_text = 0  # characters of the text
        self._n_received = 0  # characters
        self._n_unexplained = 0.0  # characters for which no token was sent

    @property
    def is_ended(self) -> bool:
        """Whether nothing more is wanted of the choice."""
        return self.sample.finish_reason is not None

    def take(self, choice: ChoiceDelta, heard_s: float) -> None:
        """Adds what a chunk holds, heard at `heard_s` on the request's clock. Nothing once the sample has ended."""
        if self.is_ended:
            return
        self.has_begun = self.is_changed = True
        text = self._half + choice.text
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        text = text.removesuffix(self._half).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if (text or choice.thought) and self.sample.first_token_s is None:
            self.sample.first_token_s = heard_s
        if choice.has_unusable_logprobs:
            self._has_logprobs = False
            self.sample.logprobs.clear()
        tokens = choice.tokens if self._has_logprobs else None
        self._count_unexplained(text, tokens)
        if tokens is not None and "".join(tokens.texts) == text:
            is_over = not all(map(self._append_token, tokens.texts, tokens.logprobs))
        else:
            is_over = not self._append_piece(text, tokens.logprobs if tokens is not None else ())
        self.sample.text = self._streamed.text
        self.sample.n_pieces += bool(text or choice.thought)
        if self._streamed.stop_string:
            self._cut("stop", heard_s)
        elif choice.finish_reason is not None:
            self.end("stop" if choice.finish_reason == "stop" else "length", heard_s)
        elif is_over:
            self._cut("length", heard_s)

    def end(self, reason: FinishReason, at_s: float) -> None:
        """Ends the sample with the text that it has; one that has ended stays as it is."""
        if self.is_ended:
            return
        if self._is_fence_awaited:  # it never came
            self._is_fence_awaited = False
            self._ends.clear()
            self._streamed.append(self._preamble)
        self._streamed.close()
        self.is_changed = True
        sample = self.sample
        if self._n_unexplained > 0:  # llama.cpp leaves out tokens that it drafted
            sample.logprobs.clear()
        sample.text, sample.stop_string = self._streamed.text, self._streamed.stop_string
        sample.finish_reason, sample.finished_s = reason, at_s
        if sample.logprobs and len(self._ends) == len(sample.logprobs):
            sample.ends = [min(end, len(sample.text)) for end in self._ends]

    def build_update(self, elapsed_s: float) -> Update:
        """The sample so far, for a live view."""
        self.is_changed = False
        sample = self.sample
        return Update(
            *(sample.index, sample.text, sample.n_tokens, ()), sample.mean_logprob, elapsed_s, sample.finish_reason
        )

    def _cut(self, reason: FinishReason, heard_s: float) -> None:
        self.is_cut = True
        self.end(reason, heard_s)

    def _count_unexplained(self, text: str, tokens: TokenLogprobs | None) -> None:
        """Tokens may come before their text or after it; a server that sends no texts of tokens cannot be checked."""
        self._n_unexplained += len(text)
        if tokens is not None:
            is_without_texts = bool(text and tokens.logprobs) and not any(tokens.texts)
            self._n_unexplained -= math.inf if is_without_texts else sum(map(len, tokens.texts))

    def _append_token(self, text: str, logprob: float) -> bool:
        """Adds a token of a chunk; False once the sample is over, so that what follows in the chunk is left out."""
        if len(self.sample.logprobs) >= self._max_tokens:
            return False
        self.sample.logprobs.append(logprob)
        goes_on = self._append_text(text)
        self._ends.append(self._n_text)
        return goes_on

    def _append_piece(self, text: str, logprobs: Sequence[float]) -> bool:
        """Adds a chunk whose text differs from its tokens, as where a server holds text back."""
        goes_on = self._append_text(text)
        self.sample.logprobs += logprobs
        is_within = len(self.sample.logprobs) <= self._max_tokens
        del self.sample.logprobs[self._max_tokens :]
        return goes_on and is_within

    def _append_text(self, text: str) -> bool:
        room = self._max_characters - self._n_received
        self._n_received += len(text)
        if self._is_fence_awaited:
            text = self._drop_preamble(text[: max(room, 0)])
        self._n_text += len(text)
        is_stopped = bool(text) and self._streamed.append(text[:room])
        return not is_stopped and self._n_received <= self._max_characters

    def _drop_preamble(self, text: str) -> str:
        """The part of a reply that follows the line of its first fence."""
        self._preamble += text
        fence = _FENCE.search(self._preamble)
        if fence is None:
            return ""
        self._is_fence_awaited = False
        return self._preamble[fence.end() :]
