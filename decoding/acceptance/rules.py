"""The two lossless acceptance rules, vectorized over the samples of a ragged batch.

Both take a proposal per sample and the target's distributions at its k + 1 positions, and return how many draft tokens
stand and the tokens that the round emits. With either rule every sample follows the target's distribution, whatever
was proposed (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from decoding.acceptance.noise import Role, uniform
from decoding.acceptance.sampling import Distribution

NO_TOKEN = -1


class Verdict(NamedTuple):
    """`accepted` int64 [S]: draft tokens that stand; `emitted` int64 [S, T]: valid up to index `accepted`."""

    accepted: torch.Tensor
    emitted: torch.Tensor


class Positions(NamedTuple):
    """Where S samples draw their tokens: `at` int64 [S, T], each position's distribution; `position` int64 [S, T].

    `position` is absolute, that of the token to be drawn. Samples of one row share its distributions; a row that
    brought fewer than T tokens repeats its last.
    """

    at: torch.Tensor
    position: torch.Tensor


def coupled(target: Distribution, where: Positions, draft: torch.Tensor, keys: torch.Tensor) -> Verdict:
    """Gumbel-coupled acceptance (arXiv 2408.07978): a draft stands if the target, with the same noise, says the same.

    `draft` int64 [S, T - 1] is NO_TOKEN where nothing was proposed; `keys` int64 [S] are the samples' random streams.
    The emitted tokens are the target's own at every position, so the text does not depend on the drafts at all.
    """
    S, T = where.at.shape
    tokens = target.rows(where.at.flatten()).sample(keys.repeat_interleave(T), where.position.flatten(), Role.SAMPLE)
    emitted = tokens.view(S, T)
    stands = (draft == emitted[:, :-1]).long()
    return Verdict(stands.cumprod(dim=1).sum(dim=1), emitted)


def maximal(
    target: Distribution, where: Positions, draft: torch.Tensor, keys: torch.Tensor, q: Distribution | None
) -> Verdict:
    """Speculative sampling: accept d with probability min(1, p(d) / q(d)), else draw from the residual (p - q)+.

    Shapes as in `coupled`; `q` holds S * (T - 1) rows, the distributions the drafts were drawn from, or is None where
    each draft is a certainty (lookup). After full acceptance the bonus token is drawn from the target. Samples stay
    independent of each other only if each has a draft of its own or the drafts are certainties.
    """
    S, T = where.at.shape
    k = T - 1
    accepted = torch.zeros(S, dtype=torch.int64, device=draft.device)
    if k:
        token = draft.clamp(min=0).reshape(-1, 1)
        if q is None:
            q = Distribution(token, torch.zeros_like(token, dtype=torch.float32))
        p_d = target.rows(where.at[:, :-1].flatten()).prob_of(token).view(S, k)
        q_d = q.prob_of(token).view(S, k)
        u = uniform(keys.repeat_interleave(k), where.position[:, :-1].flatten(), Role.ACCEPT).view(S, k)
        # u < p / q, without dividing by a q that rounded to zero
        stands = ((draft != NO_TOKEN) & (u * q_d < p_d)).long()
        accepted = stands.cumprod(dim=1).sum(dim=1)

    # One more token per sample, at its first position that did not stand.
    here = accepted[:, None]
    last = target.rows(where.at.gather(1, here)[:, 0])
    if k and q is not None:
        step = here.clamp(max=k - 1)
        refused = (accepted < k) & (draft.gather(1, step)[:, 0] != NO_TOKEN)
        sample = torch.arange(S, device=draft.device)
        last = _residual(last, q.rows(sample * k + step[:, 0]), refused)
    extra = last.sample(keys, where.position.gather(1, here)[:, 0], Role.RESIDUAL)
    emitted = torch.cat([draft, draft.new_full((S, 1), NO_TOKEN)], dim=1)
    return Verdict(accepted, emitted.scatter(1, here, extra[:, None]))


def _residual(p: Distribution, q: Distribution, refused: torch.Tensor) -> Distribution:
    """Return (p - q)+ normalized for the refused rows and p for the others, over p's support."""
    left = (p.logp.exp() - q.prob_of(p.ids)).clamp(min=0)
    # Rounding can leave no mass where p and q are nearly equal; the limit of the law is p itself.
    usable = refused & (left.sum(dim=1) > 0)
    logp = torch.where(usable[:, None], left, p.logp.exp()).log()
    return Distribution(p.ids, logp.log_softmax(dim=1))
