"""The two lossless acceptance rules, vectorized over the rows of a ragged batch.

Both take a proposal per row and the target's distributions at its k + 1 positions, and return how many draft tokens
stand and the tokens that the round emits. With either rule every sample follows the target's distribution, whatever
was proposed (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from decoding.layout import Layout
from decoding.noise import Role, uniform
from decoding.sampling import Distribution

NO_TOKEN = -1


class Verdict(NamedTuple):
    """`accepted` int64 [R]: draft tokens that stand; `emitted` int64 [R, T]: valid up to index `accepted`."""

    accepted: torch.Tensor
    emitted: torch.Tensor


def coupled(target: Distribution, layout: Layout, draft: torch.Tensor, keys: torch.Tensor) -> Verdict:
    """Gumbel-coupled acceptance (arXiv 2408.07978): a draft stands if the target, with the same noise, says the same.

    `target` holds the N packed positions of `layout`, whose row r brought its pending token and its draft; `draft`
    int64 [R, T - 1] is NO_TOKEN where nothing was proposed; `keys` int64 [R] are the rows' random streams. The emitted
    tokens are the target's own at every position, so the text does not depend on the drafts at all.
    """
    tokens = target.sample(keys[layout.row], layout.position + 1, Role.SAMPLE)
    emitted = tokens[layout.gather]
    stands = (draft == emitted[:, :-1]).long()
    return Verdict(stands.cumprod(dim=1).sum(dim=1), emitted)


def maximal(
    target: Distribution, layout: Layout, draft: torch.Tensor, keys: torch.Tensor, q: Distribution | None
) -> Verdict:
    """Speculative sampling: accept d with probability min(1, p(d) / q(d)), else draw from the residual (p - q)+.

    Shapes as in `coupled`; `q` holds R * (T - 1) rows, the distributions the drafts were drawn from, or is None where
    each draft is a certainty (lookup). After full acceptance the bonus token is drawn from the target.
    """
    R, T = layout.gather.shape
    k = T - 1
    positions = layout.position[layout.gather] + 1  # [R, T], of the tokens to be emitted
    accepted = torch.zeros(R, dtype=torch.int64, device=draft.device)
    if k:
        token = draft.clamp(min=0).reshape(-1, 1)
        if q is None:
            q = Distribution(token, torch.zeros_like(token, dtype=torch.float32))
        p_d = target.rows(layout.gather[:, :-1].flatten()).prob_of(token).view(R, k)
        q_d = q.prob_of(token).view(R, k)
        u = uniform(keys.repeat_interleave(k), positions[:, :-1].flatten(), Role.ACCEPT).view(R, k)
        # u < p / q, without dividing by a q that rounded to zero
        stands = ((draft != NO_TOKEN) & (u * q_d < p_d)).long()
        accepted = stands.cumprod(dim=1).sum(dim=1)

    # One more token per row, at its first position that did not stand.
    here = accepted[:, None]
    last = target.rows(layout.gather.gather(1, here)[:, 0])
    if k and q is not None:
        at = here.clamp(max=k - 1)
        refused = (accepted < k) & (draft.gather(1, at)[:, 0] != NO_TOKEN)
        row = torch.arange(R, device=draft.device)
        last = _residual(last, q.rows(row * k + at[:, 0]), refused)
    extra = last.sample(keys, positions.gather(1, here)[:, 0], Role.RESIDUAL)
    emitted = torch.cat([draft, draft.new_full((R, 1), NO_TOKEN)], dim=1)
    return Verdict(accepted, emitted.scatter(1, here, extra[:, None]))


def _residual(p: Distribution, q: Distribution, refused: torch.Tensor) -> Distribution:
    """Return (p - q)+ normalized for the refused rows and p for the others, over p's support."""
    left = (p.logp.exp() - q.prob_of(p.ids)).clamp(min=0)
    # Rounding can leave no mass where p and q are nearly equal; the limit of the law is p itself.
    usable = refused & (left.sum(dim=1) > 0)
    logp = torch.where(usable[:, None], left, p.logp.exp()).log()
    return Distribution(p.ids, logp.log_softmax(dim=1))
