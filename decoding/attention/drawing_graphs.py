"""The drafts of a draft model and of a trained drafter as CUDA graphs: their tokens stay on the device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch

from decoding.acceptance.distribution import Distribution
from decoding.acceptance.rule import AcceptanceRule
from decoding.acceptance.sampling import get_sampling_mode, pack_sampling_params
from decoding.attention.block_runner import BlockRunner
from decoding.attention.graphs import (
    Graphs,
    GraphWork,
    Runner,
    build_uniform_layout,
    forward,
    list_row_buckets,
    round_up_rows,
)
from decoding.attention.runner import ModelRunner
from decoding.state.proposal import MODEL_EVIDENCE, ON_DEVICE, Proposal
from decoding.state.row import DraftRequest
from kernels import draw

# The limits of rows that draw nothing.
_IDLE = [1.0, 1.0, 0.0, 1.0]
Shape = tuple[int, int, bool]
"""Rows, what else there is to count, and whether tokens are drawn from whole distributions, which are kept."""


class SamplingGraphs(Graphs[Runner], ABC):
    """Steps that read what is new in each row and draw with the noise of the acceptance rule, by `kernels/draw.py`.

    Sampling parameters are inputs. Only where the rule needs the distributions of drafts, and no row of a batch has a
    filter, another graph keeps these whole; with one, all rows draw from their most likely tokens.
    """

    def __init__(self, runner: Runner, rule: AcceptanceRule, token_ids: torch.Tensor | None = None) -> None:
        """`token_ids` [V] are the tokens of the logits, by default their indices."""
        super().__init__(runner)
        self.rule = rule
        self._token_ids = token_ids

    def list_shapes(self, max_rows: int, longest_draft: int) -> list[Shape]:
        """Return the shapes that batches of up to `max_rows` rows need."""
        return [
            (R, size, is_whole)
            for is_whole in ((True, False) if self.rule.needs_q else (False,))
            for R in list_row_buckets(max_rows)
            for size in self._list_sizes(longest_draft)
        ]

    def capture(self, shape: Shape) -> None:
        """Capture the work of a shape."""
        R = shape[0]
        self._step(shape, {"read": [1] * R, "limits": [_IDLE] * R})

    @abstractmethod
    def _list_sizes(self, longest_draft: int) -> Sequence[int]:
        """Return the second numbers of shapes, largest first."""

    def _step(self, shape: Shape, values: dict[str, Any]) -> tuple[torch.Tensor, ...] | None:
        """Read `read` [R] positions after `length` [R], and draw; None when graphs do not work here."""
        R, size, is_whole = shape

        def make() -> GraphWork:
            inputs = self.buffers(read=(R,), length=(R,), seeds=(R,), **self._get_shapes(R))
            inputs["limits"] = torch.ones(R, 4, device=self.runner.device)
            return GraphWork(inputs, lambda: self._compute(inputs, size, is_whole=is_whole))

        return self.replay(shape, make, values)

    @abstractmethod
    def _get_shapes(self, R: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the further inputs of a step."""

    @abstractmethod
    def _compute(self, inputs: dict[str, torch.Tensor], size: int, *, is_whole: bool) -> tuple[torch.Tensor, ...]:
        """Return what a step draws."""

    def _is_whole(self, wanted: DraftRequest) -> bool:
        return self.rule.needs_q and all(get_sampling_mode(params) == "whole" for params in wanted.sampling)

    @staticmethod
    def _build_draw_inputs(R: int, wanted: DraftRequest) -> dict[str, Any]:
        """Return the seeds and limits of R rows, of which the last ones draw nothing."""
        idle = R - len(wanted.seeds)
        limits = map(pack_sampling_params, wanted.sampling)
        return {"seeds": [*wanted.seeds, *[0] * idle], "limits": [*limits, *[_IDLE] * idle]}

    def _draw(
        self, logits: torch.Tensor, inputs: dict[str, torch.Tensor], position: torch.Tensor, *, is_whole: bool
    ) -> tuple[torch.Tensor, ...]:
        """Return a draft token of each row, int64 [R], drawn at `position` [R], and what `_join` needs of it."""
        tokens, q = draw.draw_tokens(
            logits,
            inputs["limits"],
            inputs["seeds"],
            position,
            self.rule.draft_role,
            ids=self._token_ids,
            keeps_q=self.rule.needs_q and not is_whole,
        )
        if is_whole:
            return tokens, (logits.float() / inputs["limits"][:, :1]).log_softmax(dim=1)
        return (tokens, *(q or ()))

    def _join(self, drawn: Sequence[tuple[torch.Tensor, ...]], *, is_whole: bool) -> tuple[torch.Tensor, ...]:
        """Return the tokens of K draws [R, K], and their distributions: logp [R, K, V], or ids and logp [R, K, C]."""
        tokens, *q = (torch.stack(each, dim=1) for each in zip(*drawn, strict=True))
        return (tokens, *(self.keep(each) if is_whole else each for each in q))

    def _build_proposal(self, lengths: Sequence[int], drawn: Sequence[torch.Tensor], n_steps: int) -> Proposal:
        """Return a proposal of `lengths[r]` of the tokens [n, k] of each row, which are not read from the device."""
        tokens, *q = drawn
        marks = [[ON_DEVICE] * length for length in lengths]
        joined = self._build_distribution(*(each.flatten(0, 1) for each in q)) if q else None
        return Proposal(marks, [MODEL_EVIDENCE] * len(marks), joined, tokens, n_steps=n_steps)

    def _build_distribution(self, *q: torch.Tensor) -> Distribution:
        """Return the distributions of logp [N, V], or of ids and logp [N, C]."""
        *narrow, logp = q
        if narrow:
            return Distribution(narrow[0], logp)
        ids = torch.arange(logp.shape[1], device=logp.device) if self._token_ids is None else self._token_ids
        return Distribution(ids.expand(logp.shape), logp)


# The most tokens that the first step feeds per row: the pending token and the draft model's own last draft.
FIRST_FEED = 2
# The most steps of a graph. To capture all lengths takes 36 steps for each number of rows; up to 32 it would take 528.
_MOST_STEPS = 8


class DraftGraphs(SamplingGraphs[ModelRunner]):
    """All steps of the draft model as one graph, by their number; a draft beyond eight tokens goes on in another."""

    def propose(self, unseen: Sequence[Sequence[int]], wanted: DraftRequest) -> Proposal | None:
        """Return what is wanted of each row after `unseen[r]`, left on the device; None when graphs do not work here.

        Commits the tokens it feeds.
        """
        lengths = wanted.lengths
        # A row that does not draft takes part with a token that is never committed.
        feed = [tokens if length else [0] for tokens, length in zip(unseen, lengths, strict=True)]
        k = max(lengths)
        drawn = self.draft(feed, k, wanted)
        if drawn is None:
            return None
        counts = [len(fed) + k - 1 if length else 0 for fed, length in zip(feed, lengths, strict=True)]
        self.runner.cache.commit(counts)
        return self._build_proposal(lengths, drawn, n_steps=k)

    def draft(self, feed: Sequence[Sequence[int]], k: int, wanted: DraftRequest) -> list[torch.Tensor] | None:
        """Return k tokens for each row, int64 [n, k], and where the rule needs them their distributions (`_join`).

        `feed` are the tokens of each row that the model has not seen, one or two. Returns None when graphs do not work
        here.
        """
        n = len(feed)
        R = round_up_rows(n)
        idle = R - n
        self.runner.cache.prepare([len(tokens) + k - 1 for tokens in feed])
        values: dict[str, Any] = self._build_draw_inputs(R, wanted) | {
            "ids": [[*tokens, *[0] * (FIRST_FEED - len(tokens))] for tokens in feed] + [[0] * FIRST_FEED] * idle,
            "read": [*map(len, feed), *[1] * idle],
            "length": [*self.runner.cache.lens, *[0] * idle],
        }
        parts = []
        for start in range(0, k, _MOST_STEPS):
            out = self._step((R, min(k - start, _MOST_STEPS), self._is_whole(wanted)), values)
            if out is None:
                return None
            tokens, *q, length = out
            # The next replay may write where this one wrote.
            parts.append([each[:n].clone() for each in (tokens, *q)])
            values |= {"ids": tokens[:, -1:], "read": [1] * R, "length": length}
        return [torch.cat(each, dim=1) for each in zip(*parts, strict=True)]

    def _list_sizes(self, longest_draft: int) -> Sequence[int]:
        return range(min(longest_draft, _MOST_STEPS), 0, -1)

    def _get_shapes(self, R: int) -> dict[str, tuple[int, ...]]:
        return {"ids": (R, FIRST_FEED)}

    def _compute(self, inputs: dict[str, torch.Tensor], size: int, *, is_whole: bool) -> tuple[torch.Tensor, ...]:
        """Return what `size` steps draw (`_join`), and the lengths [R] after what they were fed."""
        ids, read, length = inputs["ids"], inputs["read"], inputs["length"]
        row = torch.arange(len(ids), device=self.runner.device)
        drawn = []
        for _ in range(size):
            logits = forward(self.runner, ids, length, row * ids.shape[1] + read - 1)
            length = length + read
            drawn.append(self._draw(logits, inputs, length, is_whole=is_whole))
            ids, read = drawn[-1][0][:, None], torch.ones_like(read)
        return (*self._join(drawn, is_whole=is_whole), length)


class BlockGraphs(SamplingGraphs[BlockRunner]):
    """A whole pass as one graph; the drafts stay on the device."""

    widths = (2, 4, 8)
    """How many positions of each row it may read; the rest is read without a graph (`_read_all_but_last`)."""

    def __init__(self, runner: BlockRunner, rule: AcceptanceRule) -> None:
        super().__init__(runner, rule, runner.head.token_ids)

    def propose(self, pending: Sequence[int], unread: Sequence[int], wanted: DraftRequest) -> Proposal | None:
        """Return what is wanted of each row after `pending[r]`, left on the device; None when graphs do not work here.

        Commits the `unread[r]` positions that it reads, at least one of a row with a length.
        """
        n, k = len(pending), max(wanted.lengths)
        R = round_up_rows(n)
        idle = R - n
        T = next(size for size in self.widths if max(unread) <= size)
        # A row that does not draft takes part with a position that is never committed.
        self.runner.cache.prepare([max(count, 1) + self.runner.head.shape.block for count in unread])
        values = self._build_draw_inputs(R, wanted) | {
            "pending": [*pending, *[0] * idle],
            "read": [*(max(count, 1) for count in unread), *[1] * idle],
            "length": [*self.runner.cache.lens, *[0] * idle],
        }
        out = self._step((R, T, self._is_whole(wanted)), values)
        if out is None:
            return None
        self.runner.cache.commit(unread)
        return self._build_proposal(wanted.lengths, [each[:n, :k].clone() for each in out], n_steps=1)

    def _list_sizes(self, longest_draft: int) -> Sequence[int]:
        return self.widths[::-1]

    def _get_shapes(self, R: int) -> dict[str, tuple[int, ...]]:
        return {"pending": (R,)}

    def _compute(self, inputs: dict[str, torch.Tensor], size: int, *, is_whole: bool) -> tuple[torch.Tensor, ...]:
        runner, head, T = self.runner, self.runner.head, size
        pending, read, length = inputs["pending"], inputs["read"], inputs["length"]
        R, B = len(pending), head.shape.block
        packed = torch.arange(R * T, device=pending.device)
        row = packed[:R]
        layout = build_uniform_layout(runner.cache, R, T, length)
        runner.cache.use(layout)
        features = runner.write_context(layout, runner.features_at(packed // T, layout.position))[row * T + read - 1]
        end = length + read
        layout = build_uniform_layout(runner.cache, R, B, end)
        runner.cache.use(layout)
        states = runner.run_block(pending, features, layout, end + B - 1)
        base = head.logits(states)
        before, drawn = pending, []
        for step in range(head.n_proposed):
            logits = head.add_markov_logits(base[:, step], states[:, step], runner.embed(before))
            drawn.append(self._draw(logits, inputs, end + 1 + step, is_whole=is_whole))
            before = drawn[-1][0]
        return self._join(drawn, is_whole=is_whole)
