"""The end of every verify: the rule decides over the target's distributions, and each sample takes its tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import torch

from decoding.acceptance.distribution import Distribution
from decoding.acceptance.rule import Draw, Positions
from decoding.acceptance.sampling import TopIds, compute_raw_logprobs

Accept = Callable[
    [Distribution, Positions, torch.Tensor, torch.Tensor, Distribution | None], tuple[torch.Tensor, torch.Tensor]
]
"""`AcceptanceRule.accept` or `accept_in_kernel`."""


def accept_drafts(
    accept: Accept,
    logits: torch.Tensor,  # [N, V], which `p` was made of
    p: Distribution,
    where: Positions,  # [S, T]
    draft: torch.Tensor,  # [S, T - 1], NO_TOKEN where nothing was proposed
    seeds: torch.Tensor,  # [S]
    q: Distribution | None,
    *,
    scores_kept_only: bool,
) -> torch.Tensor:
    """Return float64 [S, 1 + 2 T]: how many draft tokens each sample accepts, its tokens, and their log-probabilities.

    Values after a sample's last token are meaningless. Token ids are exact in float64, so the host reads everything at
    once. With `scores_kept_only`, only tokens that a sample keeps get log-probabilities: a sum over the vocabulary is
    expensive on a CPU. The host has to wait for the acceptance to know these tokens, and meanwhile a GPU would be idle.
    """
    accepted, emitted = accept(p, where, draft, seeds, q)
    logprobs = torch.zeros_like(emitted, dtype=torch.float32)
    if scores_kept_only:
        kept = torch.arange(emitted.shape[1], device=emitted.device) <= accepted[:, None]
        logprobs[kept] = compute_raw_logprobs(logits, where.dist_row[kept], emitted[kept])
    else:
        mass = logits.float().logsumexp(dim=1)
        chosen = logits[where.dist_row, emitted.clamp(min=0)].float()
        logprobs = chosen - mass[where.dist_row]
    return torch.cat([each.double() for each in (accepted[:, None], emitted, logprobs)], dim=1)


def build_draws(decided: Sequence[Sequence[float]], top: Sequence[TopIds] = ()) -> list[Draw]:
    """Return the draw of each sample, from the rows of `accept_drafts` and the top tokens of all tokens."""
    each_top = iter(top)
    draws = []
    for accepted, *rest in decided:
        T, end = len(rest) // 2, int(accepted) + 1
        tokens = tuple(map(int, rest[:end]))
        draws.append(Draw(int(accepted), tokens, tuple(rest[T : T + end]), tuple(islice(each_top, end))))
    return draws
