"""What a draft model and a trained drafter have in common, and the loop that draws their tokens without graphs: one
token after the other, each step for all rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import torch

from decoding.acceptance.distribution import Distribution, join_distributions
from decoding.acceptance.rule import AcceptanceRule
from decoding.acceptance.sampling import to_distributions_nosync
from decoding.attention.drawing_graphs import SamplingGraphs
from decoding.attention.graphs import Runner
from decoding.memory.cache import RaggedCache
from decoding.request import SamplingParams
from decoding.state.proposal import MODEL_EVIDENCE, Proposal
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


def sample_drafts(
    steps: DraftingSteps,
    first: Sequence[int],
    lengths: Sequence[int],
    seeds: Sequence[int],
    sampling: Sequence[SamplingParams],
    rule: AcceptanceRule,
) -> Proposal:
    """Return `lengths[r]` draft tokens per row, drawn with the noise that the rule asks for.

    `first[r]` is the position in its text of a row's first draft token.
    """
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
