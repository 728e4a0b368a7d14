"""Sparse categorical distributions: the ids that can be drawn, and their log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from decoding.acceptance.noise import Role, draw_gumbel
from decoding.acceptance.wide import sample_wide

# Where more ids than this can be drawn, noise is not computed for each of them.
_NARROW = 1024


@dataclass(frozen=True, slots=True)
class Distribution:
    """N distributions over at most C ids each: `ids` int64 [N, C] and normalized `logp` float32 [N, C].

    Entries outside a row's support have logp -inf. Every id of a row is listed once; padding ids are negative.
    """

    ids: torch.Tensor
    logp: torch.Tensor

    @property
    def width(self) -> int:
        """C, the most ids any row can draw."""
        return self.ids.shape[1]

    def select_rows(self, index: torch.Tensor) -> Distribution:
        """Return the distributions of the rows in `index`."""
        return Distribution(self.ids[index], self.logp[index])

    def get_probabilities(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the probability of `tokens` [N, M], float32 [N, M]; 0 outside the support."""
        order = self.ids.argsort(dim=1)
        sorted_ids = self.ids.gather(1, order)
        at = torch.searchsorted(sorted_ids, tokens.contiguous()).clamp(max=self.width - 1)
        present = sorted_ids.gather(1, at) == tokens
        return self.logp.gather(1, order.gather(1, at)).exp() * present

    def sample(
        self, seeds: torch.Tensor, positions: torch.Tensor, role: Role, rows: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return one token per row, int64 [N]: argmax of log p + Gumbel noise, which has distribution p.

        The noise depends on the token id, so two distributions sampled with the same seeds, positions and role are
        coupled: the nearer they are, the more likely they give the same token (arXiv 2408.07978). With `rows` [M] the
        draws are M, each from the row that it names.
        """
        if self.width > _NARROW and self.ids.device.type == "cpu":
            each = range(len(self.ids)) if rows is None else rows.tolist()
            return sample_wide(self.ids, self.logp, each, seeds, positions, role)
        drawn = self if rows is None else self.select_rows(rows)
        if self.width == 1:
            return drawn.ids[:, 0]
        score = drawn.logp.double() + draw_gumbel(seeds, positions, role, drawn.ids)
        return drawn.ids.gather(1, score.argmax(dim=1, keepdim=True))[:, 0]


def make_empty_distribution(n: int, width: int, device: torch.device) -> Distribution:
    """Return `n` rows of `width` padding ids without mass, to be filled in."""
    # Negative ids are distinct from every token.
    ids = (-1 - torch.arange(width, device=device)).repeat(n, 1)
    return Distribution(ids, torch.full((n, width), float("-inf"), device=device))


def join_distributions(parts: Sequence[tuple[torch.Tensor, Distribution]], n: int) -> Distribution:
    """Return `n` distributions from parts that each name their rows (index or mask); rows in no part have no mass."""
    device = parts[0][1].ids.device
    joined = make_empty_distribution(n, max(part.width for _, part in parts), device)
    for rows, part in parts:
        joined.ids[rows, : part.width] = part.ids
        joined.logp[rows, : part.width] = part.logp
    return joined
