"""Gumbel-coupled acceptance (arXiv 2408.07978): a draft token stands if the target draws the same with its noise."""

from __future__ import annotations

import torch

from decoding.acceptance.distribution import Distribution
from decoding.acceptance.noise import Role
from decoding.acceptance.rule import Positions
from kernels import accept


class CoupledRule:
    """The emitted tokens are the target's own at every position, so a text does not depend on the drafts at all.

    A draft model draws with the target's noise, which makes the two agree as often as their distributions overlap.
    """

    draft_role = Role.SAMPLE
    needs_q = False
    allows_shared_drafts = True

    def accept(
        self, p: Distribution, where: Positions, draft: torch.Tensor, seeds: torch.Tensor, q: Distribution | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Apply the rule in PyTorch."""
        S, T = where.dist_row.shape
        each = seeds.repeat_interleave(T), where.position.flatten(), Role.SAMPLE
        tokens = p.sample(*each, rows=where.dist_row.flatten()).view(S, T)
        matches = (draft == tokens[:, :-1]).long()
        return matches.cumprod(dim=1).sum(dim=1), tokens

    def accept_in_kernel(
        self, p: Distribution, where: Positions, draft: torch.Tensor, seeds: torch.Tensor, q: Distribution | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Apply the rule in one Triton kernel."""
        return accept.accept_coupled(p.ids, p.logp, where.dist_row, where.position, draft, seeds, Role.SAMPLE)
