"""One row of a batch: the samples that have written the same text so far, in one row of the cache.

n samples of a prompt begin as one row. Each draws its tokens from the same distributions with its own noise. As long as
they agree, the model runs once for all of them; when they differ, the row forks, and each part continues with a copy of
the cache. At the low temperatures of an assistant samples agree for a long time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from decoding.acceptance.noise import compute_sample_seed
from decoding.request import FinishReason, Origin, Sample, SamplingParams, TopTokens
from decoding.state.request_state import RequestState
from decoding.state.text import TextStream


class DraftRequest(NamedTuple):
    """What a model or head is to draw: up to `lengths[r]` tokens of each row, with its seed and sampling parameters."""

    lengths: Sequence[int]
    seeds: Sequence[int]
    sampling: Sequence[SamplingParams]

    @classmethod
    def from_rows(cls, rows: Sequence[Row], lengths: Sequence[int]) -> DraftRequest:
        """Return the request for some rows: their samples share a draft, drawn with the noise of the first."""
        return cls(lengths, [row.seeds[0] for row in rows], [row.sampling for row in rows])


@dataclass(slots=True, eq=False)
class Row:
    """`tokens` are prompt and output of all its `samples`; the last one is not yet in the cache.

    That pending token is the first input of the next round: after the prompt the prompt's last token, later the
    correction or bonus token of the round before. Before it, the first round may read the rest of the prompt.
    """

    samples: list[Sample]
    state: RequestState
    tokens: list[int]
    stream: TextStream

    @property
    def n_new(self) -> int:
        """Tokens generated so far."""
        return len(self.tokens) - len(self.state.prompt)

    @property
    def n_left(self) -> int:
        """Tokens it may still generate."""
        return self.state.max_tokens - self.n_new

    @property
    def sampling(self) -> SamplingParams:
        """The sampling parameters of its request."""
        return self.state.request.sampling

    @property
    def n_top_logprobs(self) -> int:
        """How many top tokens its request asks for at each sampled position."""
        return self.state.request.top_logprobs

    @property
    def seeds(self) -> list[int]:
        """The seeds of the samples' random streams."""
        return [compute_sample_seed(self.state.request.seed, sample.index) for sample in self.samples]

    @property
    def is_finished(self) -> bool:
        """Whether its samples have ended; they share a text and end together."""
        return self.samples[0].finish_reason is not None

    def fork(self, samples: Sequence[Sample]) -> Row:
        """Move some of the samples to a new row with the same text so far, and return it."""
        leaving = {sample.index for sample in samples}
        self.samples = [sample for sample in self.samples if sample.index not in leaving]
        return Row(list(samples), self.state, list(self.tokens), self.stream.fork())

    def extend(
        self,
        tokens: Sequence[int],
        logprobs: Sequence[float],
        n_accepted: int,
        eos: Collection[int],
        top: Sequence[TopTokens] = (),
    ) -> tuple[Origin, ...]:
        """Append a round's tokens up to the first reason to end; return the origins of those appended.

        Order of reasons within a block: end-of-sequence token or stop string, then the length limit.
        """
        now = self.state.clock.elapsed_s
        taken = 0
        ends = []
        reason: FinishReason | None = None
        eos_logprob: float | None = None
        for token in tokens:
            if token in eos:
                reason, eos_logprob = "stop", logprobs[taken]
                break
            self.tokens.append(token)
            taken += 1
            stopped = self.stream.push(token)
            ends.append(len(self.stream.text))
            if stopped:
                reason = "stop"
                break
            if self.n_left <= 0:
                reason = "length"
                break
        origins: tuple[Origin, ...] = tuple("draft" if i < n_accepted else "target" for i in range(taken))
        for sample in self.samples:
            sample.token_ids += tokens[:taken]
            sample.logprobs += logprobs[:taken]
            sample.top_logprobs += top[:taken]
            sample.eos_logprob = eos_logprob
            sample.origins += origins
            sample.ends += ends
            sample.text = self.stream.text
            if sample.first_token_s is None and taken:
                sample.first_token_s = now
        if reason is not None:
            self.finish(reason)
        return origins

    def finish(self, reason: FinishReason) -> None:
        """End the samples for `reason` now."""
        now = self.state.clock.elapsed_s
        self.stream.close()
        for sample in self.samples:
            sample.text = self.stream.text
            sample.stop_string = self.stream.stop_string
            sample.finish_reason = reason
            sample.finished_s = now
