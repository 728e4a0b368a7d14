"""One row of a batch: a sample on its way, from its prompt to its finish."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from decoding.noise import row_key
from decoding.request import FinishReason, Origin, Request, Sample
from decoding.text import TextStream


@dataclass(slots=True, eq=False)
class Row:
    """A sample in a slot of the batch. `tokens` are prompt and output; the last one is not yet in the cache.

    That pending token is the first input of the next round: after the prompt the prompt's last token, later the
    correction or bonus token of the round before. So every round has the same shape, the first one included.
    """

    sample: Sample
    request: Request
    tokens: list[int]
    n_prompt: int
    limit: int
    stream: TextStream
    key: int = field(init=False)

    def __post_init__(self) -> None:
        self.key = row_key(self.request.seed, self.sample.index)

    @property
    def n_new(self) -> int:
        """Tokens generated so far."""
        return len(self.tokens) - self.n_prompt

    def extend(
        self, tokens: list[int], logprobs: list[float], n_accepted: int, eos: Collection[int], now: float
    ) -> tuple[Origin, ...]:
        """Take a round's tokens up to the first reason to end; return the origins of those taken.

        Order of reasons within a block: end-of-sequence token or stop string, then the length limit. `now` is
        seconds since the request was taken up.
        """
        sample = self.sample
        n_before = sample.n_tokens
        for i, (token, logprob) in enumerate(zip(tokens, logprobs, strict=True)):
            if token in eos:
                self.finish("stop", now)
                break
            self.tokens.append(token)
            sample.token_ids.append(token)
            sample.logprobs.append(logprob)
            sample.origins.append("draft" if i < n_accepted else "target")
            if self.stream.push(token):
                self.finish("stop", now)
                break
            if self.n_new >= self.limit:
                self.finish("length", now)
                break
        if sample.first_token_s is None and sample.n_tokens:
            sample.first_token_s = now
        sample.text = self.stream.text
        return tuple(sample.origins[n_before:])

    def finish(self, reason: FinishReason, now: float) -> None:
        """End the sample for `reason` at `now` seconds."""
        self.stream.close()
        self.sample.text = self.stream.text
        self.sample.finish_reason = reason
        self.sample.finished_s = now
