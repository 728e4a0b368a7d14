"""What the graphs of a draft model and of a trained drafter have in common: they draw a proposal that stays on the
device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch

from decoding.acceptance.distribution import Distribution
from decoding.acceptance.rule import AcceptanceRule
from decoding.acceptance.sampling import get_sampling_mode, pack_sampling_params
from decoding.attention.graphs import Graphs, GraphWork, Runner, list_row_buckets
from decoding.request import SamplingParams
from decoding.state.proposal import MODEL_EVIDENCE, ON_DEVICE, Proposal
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

    def _is_whole(self, sampling: Sequence[SamplingParams]) -> bool:
        return self.rule.needs_q and all(get_sampling_mode(params) == "whole" for params in sampling)

    @staticmethod
    def _build_draw_inputs(R: int, seeds: Sequence[int], sampling: Sequence[SamplingParams]) -> dict[str, Any]:
        """Return the seeds and limits of R rows, of which the last ones draw nothing."""
        idle = R - len(seeds)
        return {"seeds": [*seeds, *[0] * idle], "limits": [*map(pack_sampling_params, sampling), *[_IDLE] * idle]}

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
