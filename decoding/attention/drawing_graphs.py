"""What the graphs of a draft model and of a trained drafter have in common: they draw a proposal that stays on the
device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from decoding.acceptance.distribution import Distribution
from decoding.acceptance.rule import AcceptanceRule
from decoding.acceptance.sampling import SAMPLING_MODES, SamplingMode, pack_sampling_params
from decoding.attention.graphs import Graphs, GraphWork, Runner, list_row_buckets
from decoding.request import SamplingParams
from decoding.state.proposal import MODEL_EVIDENCE, ON_DEVICE, Proposal
from kernels import accept

# The limits of rows that draw nothing.
_IDLE = [1.0, 1.0, 0.0, 0.0]


class SamplingGraphs(Graphs[Runner], ABC):
    """Steps that read what is new in each row and draw with the noise of the acceptance rule.

    Without `uses_kernel` PyTorch makes the draws.
    """

    widths: ClassVar[tuple[int, ...]]
    """How many positions of each row a step may read."""

    def __init__(self, runner: Runner, rule: AcceptanceRule, *, uses_kernel: bool = True) -> None:
        super().__init__(runner)
        self.rule = rule
        self._uses_kernel = uses_kernel

    def prepare(self, max_rows: int, longest_draft: int) -> None:
        """Capture the steps for every kind of distribution."""
        for R in list_row_buckets(max_rows):
            for kind in SAMPLING_MODES:
                for T in self.widths:
                    self._step(R, T, kind, {"read": [1] * R, "limits": [_IDLE] * R})

    def _step(self, R: int, T: int, kind: SamplingMode, values: dict[str, Any]) -> tuple[torch.Tensor, ...] | None:
        """Read `read` [R] of T positions after `length` [R], and draw; None when graphs do not work here."""

        def make() -> GraphWork:
            inputs = self.buffers(read=(R,), length=(R,), seeds=(R,), **self._get_shapes(R, T))
            inputs["limits"] = torch.ones(R, 4, device=self.runner.device)
            return GraphWork(inputs, lambda: self._compute(inputs, T, kind))

        return self.replay((R, T, kind), make, values)

    @abstractmethod
    def _get_shapes(self, R: int, T: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the further inputs of a step."""

    @abstractmethod
    def _compute(self, inputs: dict[str, torch.Tensor], T: int, kind: SamplingMode) -> tuple[torch.Tensor, ...]:
        """Return what a step draws."""

    @staticmethod
    def _build_draw_inputs(R: int, seeds: Sequence[int], sampling: Sequence[SamplingParams]) -> dict[str, Any]:
        """Return the seeds and limits of R rows, of which the last ones draw nothing."""
        idle = R - len(seeds)
        return {"seeds": [*seeds, *[0] * idle], "limits": [*map(pack_sampling_params, sampling), *[_IDLE] * idle]}

    def _draw(self, dist: Distribution, seeds: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Return a draft token per row, int64 [R, 1], drawn at `position` [R]."""
        if not self._uses_kernel:
            return dist.sample(seeds, position, self.rule.draft_role)[:, None]
        rows = torch.arange(len(seeds), device=seeds.device)[:, None]
        return accept.accept_coupled(
            dist.ids, dist.logp, rows, position[:, None], rows[:, :0], seeds, self.rule.draft_role
        )[1]

    @staticmethod
    def _build_proposal(lengths: Sequence[int], tokens: torch.Tensor, q: Distribution | None, n_steps: int) -> Proposal:
        """Return a proposal of `lengths[r]` of the tokens [R, k] of each row, which are not read from the device."""
        marks = [[ON_DEVICE] * length for length in lengths]
        return Proposal(marks, [MODEL_EVIDENCE] * len(marks), q, tokens, n_steps=n_steps)
