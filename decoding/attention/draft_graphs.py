"""Drafting as CUDA graphs: one step of the draft model draws a token for every row, and feeds the next step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch

from decoding.acceptance.distribution import Distribution
from decoding.acceptance.rule import AcceptanceRule
from decoding.acceptance.sampling import KINDS, Kind, draft_distribution, draft_kind, limits_of
from decoding.attention.graphs import Graphs, Runner, Work, bucket_rows, forward, row_buckets
from decoding.attention.runner import ModelRunner
from decoding.request import SamplingParams
from decoding.state.proposal import MODEL_EVIDENCE, PENDING, Proposal
from kernels import accept

# The most tokens that the first step feeds per row: the pending token and the draft model's own last draft.
FIRST_FEED = 2
# Parameters of rows that draw nothing.
_IDLE = [1.0, 1.0, 0.0, 0.0]


class StepGraphs(Graphs[Runner], ABC):
    """One step of what drafts as a graph, replayed k times; the drafts stay on the device.

    Without `uses_kernel` PyTorch makes the draws. `carried` names the tensors that a step passes to the next beside its
    token, and `first_feeds` the tokens per row that a first step may feed, ascending. `ahead` is how far after a row's
    length in the cache the token is that its last output predicts.
    """

    carried: tuple[str, ...] = ()
    first_feeds: tuple[int, ...] = (FIRST_FEED,)
    ahead = 0

    def __init__(self, runner: Runner, rule: AcceptanceRule, *, uses_kernel: bool = True) -> None:
        super().__init__(runner)
        self._role = rule.draft_role
        self._needs_q = rule.needs_q
        self._uses_kernel = uses_kernel

    def prepare(self, max_rows: int) -> None:
        """Capture the steps of up to `max_rows` rows, for every kind of distribution, before a clock runs."""
        for R in row_buckets(max_rows):
            for kind in KINDS:
                for T in (*self.first_feeds, 1):
                    self._step(R, T, kind, {"fed": [1] * R, "limits": [_IDLE] * R})

    def propose(
        self,
        unseen: Sequence[Sequence[int]],
        lengths: Sequence[int],
        seeds: Sequence[int],
        sampling: Sequence[SamplingParams],
    ) -> Proposal | None:
        """Return `lengths[r]` tokens per row after `unseen[r]`, left on the device; None when graphs do not work here.

        Commits the tokens it feeds.
        """
        # A row that does not draft takes part with a token that is never committed.
        feed = [tokens if length else [0] for tokens, length in zip(unseen, lengths, strict=True)]
        k = max(lengths)
        drawn = self.draft(feed, seeds, k, sampling)
        if drawn is None:
            return None
        tokens, q = drawn
        counts = [len(fed) + k - 1 if length else 0 for fed, length in zip(feed, lengths, strict=True)]
        self.runner.cache.commit(counts)
        return Proposal([[PENDING] * length for length in lengths], [MODEL_EVIDENCE] * len(unseen), q, tokens)

    def draft(
        self, feed: Sequence[Sequence[int]], seeds: Sequence[int], k: int, sampling: Sequence[SamplingParams]
    ) -> tuple[torch.Tensor, Distribution | None] | None:
        """Return k tokens for each row, int64 [n, k], and their distributions [n * k, C], both on the device.

        `feed` are the tokens of each row that the model has not seen, at least one and at most the last of
        `first_feeds`. The distributions are None where the acceptance rule does not need them. Returns None when graphs
        do not work here.
        """
        n, longest = len(feed), max(map(len, feed))
        first = next(T for T in self.first_feeds if longest <= T)
        R, kind = bucket_rows(n), draft_kind(sampling)
        idle = R - n
        steady = {"seeds": [*seeds, *[0] * idle], "limits": [*map(limits_of, sampling), *[_IDLE] * idle]}
        values: dict[str, Any] = steady | {
            "ids": [[*tokens, *[0] * (first - len(tokens))] for tokens in feed] + [[0] * first] * idle,
            "fed": [*map(len, feed), *[1] * idle],
            "length": [*self.runner.cache.lens, *[0] * idle],
        }
        tokens, dists = [], []
        for step in range(k):
            out = self._step(R, 1 if step else first, kind, values)
            if out is None:
                return None
            drawn, length, *rest = out
            dist = rest[len(self.carried) :]
            # The next replay of the same graph writes where this one wrote.
            tokens.append(drawn[:n].clone())
            dists.append([t[:n].clone() for t in dist])
            values = {"ids": drawn, "length": length, **dict(zip(self.carried, rest, strict=False))}
            if step == 0:
                values |= steady | {"fed": [1] * R}
        if not self._needs_q:
            return torch.cat(tokens, dim=1), None
        ids, logp = (torch.stack(each, dim=1).flatten(0, 1) for each in zip(*dists, strict=True))
        return torch.cat(tokens, dim=1), Distribution(ids, logp)

    def _step(self, R: int, T: int, kind: Kind, values: dict[str, Any]) -> tuple[torch.Tensor, ...] | None:
        """Return the tokens drawn [R, 1], the lengths after what was fed [R], what is `carried`, and ids and logp.

        The last two, [R, C] each, only where the acceptance rule needs them.
        """

        def make() -> Work:
            inputs = self.make_inputs(R, T)

            def run() -> tuple[torch.Tensor, ...]:
                row = torch.arange(R, device=self.runner.device)
                logits, *carried = self.compute(inputs, row * T + inputs["fed"] - 1)
                length = inputs["length"] + inputs["fed"]
                dist = self.target_ids(draft_distribution(logits, kind, inputs["limits"]))
                drawn = self._draw(dist, inputs["seeds"], length + self.ahead)
                return (drawn, length, *carried, *((dist.ids, dist.logp) if self._needs_q else ()))

            return Work(inputs, run)

        return self.replay((R, T, kind), make, values)

    def make_inputs(self, R: int, T: int) -> dict[str, torch.Tensor]:
        """Return the buffers of a step that feeds T tokens to each of R rows."""
        limits = torch.ones(R, 4, device=self.runner.device)
        return self.buffers(ids=(R, T), fed=(R,), length=(R,), seeds=(R,)) | {"limits": limits}

    @abstractmethod
    def compute(self, inputs: dict[str, torch.Tensor], keep: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the logits [R, V] of the packed tokens in `keep` [R], and the `carried` tensors."""

    def target_ids(self, dist: Distribution) -> Distribution:
        """Return a distribution over what drafts' own ids as one over the target's."""
        return dist

    def _draw(self, dist: Distribution, seeds: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Return a token per row, int64 [R, 1]."""
        if not self._uses_kernel:
            return dist.sample(seeds, position, self._role)[:, None]
        rows = torch.arange(len(seeds), device=seeds.device)[:, None]
        return accept.coupled(dist.ids, dist.logp, rows, position[:, None], rows[:, :0], seeds, self._role)[1]


class DraftGraphs(StepGraphs[ModelRunner]):
    """The steps of a draft model."""

    def compute(self, inputs: dict[str, torch.Tensor], keep: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the draft model's logits."""
        return (forward(self.runner, inputs["ids"], inputs["length"], keep),)
