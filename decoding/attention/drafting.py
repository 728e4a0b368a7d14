"""Draft tokens of a draft model and of a trained drafter, by their graphs or one after the other for all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import torch

from decoding.acceptance.distribution import Distribution, join_distributions
from decoding.acceptance.rule import AcceptanceRule
from decoding.acceptance.sampling import to_distributions_nosync
from decoding.attention.block_runner import BlockRunner
from decoding.attention.drawing_graphs import FIRST_FEED, BlockGraphs, DraftGraphs, SamplingGraphs
from decoding.attention.graphs import Runner
from decoding.attention.runner import ModelRunner
from decoding.memory.cache import RaggedCache
from decoding.models.threads import use_all_threads
from decoding.state.proposal import MODEL_EVIDENCE, Proposal
from decoding.state.row import DraftRequest
from kernels.upload import upload

Drawing = TypeVar("Drawing", bound=SamplingGraphs[Any])


class DraftSampler(Generic[Runner, Drawing]):
    """Draws tokens for every row with the noise that the rule asks for, by CUDA graphs if it has some that work."""

    def __init__(self, runner: Runner, rule: AcceptanceRule, graphs: Drawing | None = None) -> None:
        self.runner = runner
        self._rule = rule
        self.graphs = graphs

    @property
    def cache(self) -> RaggedCache:
        """The keys and values of all rows."""
        return self.runner.cache


class DraftingSteps(Protocol):
    """What a loop needs of the model or head whose tokens it draws."""

    @property
    def device(self) -> torch.device:
        """The device of its logits."""

    def logits(self, step: int, rows: Sequence[int], drafts: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return the logits [len(rows), V] of the next token of some rows, given what was drafted for all."""

    def target_ids(self, q: Distribution) -> Distribution:
        """Return distributions over its own tokens as ones over the target's."""


def sample_drafts(steps: DraftingSteps, first: Sequence[int], wanted: DraftRequest, rule: AcceptanceRule) -> Proposal:
    """Return the wanted draft tokens of each row, drawn with the noise that the rule asks for.

    `first[r]` is the position in its text of a row's first draft token.
    """
    lengths, seeds, sampling = wanted
    n_rows, k, device = len(lengths), max(lengths), steps.device
    drafts: list[list[int]] = [[] for _ in lengths]
    parts: list[tuple[torch.Tensor, Distribution]] = []
    for step in range(k):
        rows = [r for r, length in enumerate(lengths) if length > step]
        # A nucleus is not searched beyond the most likely tokens: a draft may be drawn from any distribution.
        q, _ = to_distributions_nosync(steps.logits(step, rows, drafts), [sampling[r] for r in rows])
        q = steps.target_ids(q)
        positions = upload([first[r] + step for r in rows], device)
        row_seeds = upload([seeds[r] for r in rows], device)
        drawn = q.sample(row_seeds, positions, rule.draft_role)
        for r, token in zip(rows, drawn.tolist(), strict=True):
            drafts[r].append(token)
        parts.append((upload([r * k + step for r in rows], device), q))
    joined = join_distributions(parts, n_rows * k) if rule.needs_q else None
    return Proposal(drafts, [MODEL_EVIDENCE] * n_rows, joined, n_steps=k)


class DraftRunner(DraftSampler[ModelRunner, DraftGraphs]):
    """Draws tokens by one step of the draft model each."""

    def draft(self, unseen: list[list[int]], wanted: DraftRequest) -> Proposal:
        """Return the wanted draft tokens of each row after `unseen[r]`, tokens that the model has not been fed yet.

        Commits the tokens it feeds; the caller rewinds the cache after the acceptance.
        """
        if self.graphs is not None:
            unseen = self._feed_all_but_last(unseen, wanted.lengths)
            proposal = self.graphs.propose(unseen, wanted)
            if proposal is not None:
                return proposal
        first = [length + len(tokens) for length, tokens in zip(self.cache.lens, unseen, strict=True)]
        return sample_drafts(DraftSteps(self.runner, unseen), first, wanted, self._rule)

    def _feed_all_but_last(self, unseen: list[list[int]], lengths: Sequence[int]) -> list[list[int]]:
        """Feed the tokens that exceed a graph, after rounds in which others drafted; return the rest."""
        behind = [
            tokens[:-1] if length and len(tokens) > FIRST_FEED else []
            for tokens, length in zip(unseen, lengths, strict=True)
        ]
        if any(behind):
            self.runner.forward(behind, n_last=[1] * len(behind))
            self.cache.commit([len(tokens) for tokens in behind])
        return [tokens[len(fed) :] for tokens, fed in zip(unseen, behind, strict=True)]


@dataclass(frozen=True, slots=True)
class DraftSteps:
    """A forward of the model for each step, which commits what it reads."""

    runner: ModelRunner
    unseen: list[list[int]]

    @property
    def device(self) -> torch.device:
        """The device of its logits."""
        device: torch.device = self.runner.device
        return device

    def logits(self, step: int, rows: Sequence[int], drafts: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return the logits of the next token of some rows, and commit what it feeds."""
        feed: list[list[int]] = [[] for _ in drafts]
        for r in rows:
            feed[r] = [drafts[r][-1]] if step else self.unseen[r]
        logits = self.runner.forward(feed, n_last=[1] * len(feed))[list(rows)]
        self.runner.cache.commit([len(tokens) for tokens in feed])
        return logits

    def target_ids(self, q: Distribution) -> Distribution:
        """Return `q`: it has the target's tokens."""
        return q


class BlockSampler(DraftSampler[BlockRunner, BlockGraphs]):
    """Draws the tokens of a block, by one pass of the head."""

    @use_all_threads()  # a head is dense: its products are long, and no graph of 8-bit weights runs beside them
    @torch.inference_mode()
    def draft(self, pending: Sequence[int], wanted: DraftRequest) -> Proposal:
        """Return the wanted draft tokens of each row after `pending[r]`, its last token, which no model has read.

        Commits what the head reads of the target's states.
        """
        runner, lengths = self.runner, wanted.lengths
        for r, (read, length) in enumerate(zip(runner.read_by_target, lengths, strict=True)):
            if length:
                # A round is made again if its verify failed. The block needs the features of the position before it.
                self.cache.rewind(r, read - 1)
        unread = [
            read - own if length else 0
            for read, own, length in zip(runner.read_by_target, self.cache.lens, lengths, strict=True)
        ]
        if self.graphs is not None:
            unread = self._read_all_but_last(unread, self.graphs.widths[-1])
            proposal = self.graphs.propose(pending, unread, wanted)
            if proposal is not None:
                return proposal
        first = [read + 1 for read in runner.read_by_target]
        done = self.run_blocks(pending, unread, lengths)
        proposal = sample_drafts(done, first, wanted, self._rule)
        return replace(proposal, confidence=done.confidence(lengths), n_steps=1)

    def run_blocks(self, pending: Sequence[int], unread: Sequence[int], lengths: Sequence[int]) -> _Pass:
        """Read what is new in each row and pass over a block of the rows with a length, without a graph."""
        runner = self.runner
        features = runner.read(unread)
        block = runner.head.shape.block
        layout = runner.cache.begin([block if length else 0 for length in lengths])
        drawing = [r for r, length in enumerate(lengths) if length]
        anchors = upload([pending[r] for r in drawing], runner.device)
        end = upload([runner.cache.lens[r] + block - 1 for r in drawing], runner.device)
        states = runner.run_block(anchors, features, layout, end)[:, : max(lengths)]
        return _Pass(runner, {r: at for at, r in enumerate(drawing)}, states, runner.head.logits(states), pending)

    def _read_all_but_last(self, unread: Sequence[int], n: int) -> list[int]:
        """Read the positions that exceed a graph, after rounds in which others drafted; return how many are left."""
        behind = [max(count - n, 0) for count in unread]
        if any(behind):
            self.runner.read(behind)
        return [count - read for count, read in zip(unread, behind, strict=True)]


@dataclass(frozen=True, slots=True)
class _Pass:
    """One pass over the blocks of some rows, of which the tokens are still to be drawn."""

    runner: BlockRunner
    at: dict[int, int]  # of each row that drafts its place among them
    states: torch.Tensor  # [M, K, H]
    base: torch.Tensor  # [M, K, n_drafted]
    pending: Sequence[int]

    @property
    def device(self) -> torch.device:
        return self.runner.device

    def logits(self, step: int, rows: Sequence[int], drafts: Sequence[Sequence[int]]) -> torch.Tensor:
        at = upload([self.at[r] for r in rows], self.device)
        before = upload([drafts[r][-1] if step else self.pending[r] for r in rows], self.device)
        return self.runner.head.add_markov_logits(self.base[at, step], self.states[at, step], self.runner.embed(before))

    def target_ids(self, q: Distribution) -> Distribution:
        return self.runner.target_ids(q)

    def confidence(self, lengths: Sequence[int]) -> list[list[float]] | None:
        chances = self.runner.head.confidence(self.states)
        if chances is None:
            return None
        each = chances.tolist()
        return [each[self.at[r]][:length] if length else [] for r, length in enumerate(lengths)]
