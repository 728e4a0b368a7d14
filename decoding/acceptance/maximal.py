"""Speculative sampling (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318): the highest acceptance."""

from __future__ import annotations

import torch

from decoding.acceptance.distribution import Distribution
from decoding.acceptance.noise import Role, draw_uniform
from decoding.acceptance.rule import Positions
from kernels import accept
from kernels.rows import NO_TOKEN


class MaximalRule:
    """Accepts draft token d with probability min(1, p(d) / q(d)), else draws from the residual (p - q)+.

    After full acceptance the bonus token is drawn from the target. No lossless rule accepts a draft more often. A draft
    drawn once for several samples would make these depend on each other and bias Pass@All.
    """

    draft_role = Role.DRAFT
    needs_q = True
    allows_shared_drafts = False

    def accept(
        self, p: Distribution, where: Positions, draft: torch.Tensor, seeds: torch.Tensor, q: Distribution | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Apply the rule in PyTorch."""
        S, T = where.dist_row.shape
        k = T - 1
        accepted = torch.zeros(S, dtype=torch.int64, device=draft.device)
        if k:
            token = draft.clamp(min=0).reshape(-1, 1)
            if q is None:
                q = Distribution(token, torch.zeros_like(token, dtype=torch.float32))
            p_d = p.select_rows(where.dist_row[:, :-1].flatten()).get_probabilities(token).view(S, k)
            q_d = q.get_probabilities(token).view(S, k)
            u = draw_uniform(seeds.repeat_interleave(k), where.position[:, :-1].flatten(), Role.ACCEPT).view(S, k)
            # u < p / q, without dividing by a q that rounded to zero
            stands = ((draft != NO_TOKEN) & (u * q_d < p_d)).long()
            accepted = stands.cumprod(dim=1).sum(dim=1)

        # One more token per sample, at its first position that was not accepted.
        here = accepted[:, None]
        last = p.select_rows(where.dist_row.gather(1, here)[:, 0])
        if k and q is not None:
            step = here.clamp(max=k - 1)
            refused = (accepted < k) & (draft.gather(1, step)[:, 0] != NO_TOKEN)
            sample = torch.arange(S, device=draft.device)
            last = _compute_residual(last, q.select_rows(sample * k + step[:, 0]), refused)
        extra = last.sample(seeds, where.position.gather(1, here)[:, 0], Role.RESIDUAL)
        emitted = torch.cat([draft, draft.new_full((S, 1), NO_TOKEN)], dim=1)
        return accepted, emitted.scatter(1, here, extra[:, None])

    def accept_in_kernel(
        self, p: Distribution, where: Positions, draft: torch.Tensor, seeds: torch.Tensor, q: Distribution | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Apply the rule in one Triton kernel."""
        drafted_from = None if q is None else (q.ids, q.logp)
        return accept.accept_maximal(
            p.ids, p.logp, where.dist_row, where.position, draft, seeds, drafted_from, Role.ACCEPT, Role.RESIDUAL
        )


def _compute_residual(p: Distribution, q: Distribution, refused: torch.Tensor) -> Distribution:
    """Return (p - q)+ normalized for the refused rows and p for the others, over p's support."""
    left = (p.logp.exp() - q.get_probabilities(p.ids)).clamp(min=0)
    # Rounding can leave no mass where p and q are nearly equal; the limit of the distribution is p itself.
    usable = refused & (left.sum(dim=1) > 0)
    logp = torch.where(usable[:, None], left, p.logp.exp()).log()
    return Distribution(p.ids, logp.log_softmax(dim=1))
