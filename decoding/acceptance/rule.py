"""The interface of an acceptance rule, and the result of a round."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch

from decoding.acceptance.distribution import Distribution
from decoding.acceptance.noise import Role
from decoding.acceptance.sampling import TopIds
from kernels.rows import NO_TOKEN

__all__ = ["NO_TOKEN", "AcceptanceRule", "Draw", "Positions"]


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
