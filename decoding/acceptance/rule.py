"""The interface of an acceptance rule, and the end of every verify, in which each sample takes its tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

import torch

from decoding.acceptance.distribution import Distribution
from decoding.acceptance.noise import Role
from decoding.acceptance.sampling import TopIds, compute_raw_logprobs


class Positions(NamedTuple):
    """The T positions at which each of S samples draws a token: `dist_row` and `position`, int64 [S, T].

    `dist_row` is the row of the target's distributions to draw from; samples of one row of the batch share them, and a
    row that brought fewer than T tokens repeats its last. `position` is the absolute position of the token to be drawn.
    """

    dist_row: torch.Tensor
    position: torch.Tensor


class Draw(NamedTuple):
    """The tokens that one sample takes from a round: `n_accepted` draft tokens and one more of the target's."""

    n_accepted: int
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]  # the target's own
    top: tuple[TopIds, ...] = ()  # top tokens at each position, if they are asked for


class AcceptanceRule(Protocol):
    """Decides how many draft tokens each sample keeps, such that its text follows the target's distribution.

    `draft_role` is the noise with which a draft model draws. `needs_q` says whether `accept` reads the distributions
    that drafts were drawn from. `allows_shared_drafts` says whether several samples may share one drawn draft and stay
    independent of each other; drafts that a drafter is certain of may always be shared.
    """

    draft_role: Role
    needs_q: bool
    allows_shared_drafts: bool

    def accept(
        self, p: Distribution, where: Positions, draft: torch.Tensor, seeds: torch.Tensor, q: Distribution | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the draft tokens accepted, int64 [S], and the tokens emitted, int64 [S, T], valid up to that index.

        `p` [N, C] holds the target's distributions. `draft` int64 [S, T - 1] is NO_TOKEN where nothing was proposed;
        `seeds` int64 [S] are the seeds of the samples. `q` holds S * (T - 1) rows, the distributions of the drafts;
        None means that each draft is a certainty.
        """

    def accept_in_kernel(
        self, p: Distribution, where: Positions, draft: torch.Tensor, seeds: torch.Tensor, q: Distribution | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what `accept` returns, from one Triton kernel (`kernels/accept.py`) and without a host read."""


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
