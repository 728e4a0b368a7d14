"""Sparse categorical distributions: the ids that can be drawn, and their log-probabilities.

Of rows as wide as a vocabulary, draws take little memory, with the noise of few ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from decoding.acceptance.noise import Role, compute_states, draw_gumbel, find_high_noise_tokens

_CHUNK = 128


def find_highest(logits: torch.Tensor, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the `width` highest logits per row and their ids, descending.

    The k highest entries lie in the k chunks with the highest maxima: one fast pass finds these, and the selection
    then runs over a few thousand candidates instead of the vocabulary.
    """
    N, V = logits.shape
    n_chunks = V // _CHUNK
    if width * 4 > n_chunks:
        values, ids = logits.topk(width, dim=1)
        return values, ids
    body = logits[:, : n_chunks * _CHUNK].reshape(N, n_chunks, _CHUNK)
    chunks = body.amax(dim=2).topk(width, dim=1).indices  # [N, width]
    offsets = torch.arange(_CHUNK, device=logits.device)
    candidates = (chunks[:, :, None] * _CHUNK + offsets).reshape(N, -1)
    rest = torch.arange(n_chunks * _CHUNK, V, device=logits.device).expand(N, -1)
    candidates = torch.cat([candidates, rest], dim=1)
    values, at = logits.gather(1, candidates).topk(width, dim=1)
    return values, candidates.gather(1, at)


# Ids whose noise is always computed: the most likely ones.
_LIKELY = 64


def sample_wide(
    ids: torch.Tensor,
    logp: torch.Tensor,
    rows: Sequence[int],
    seeds: torch.Tensor,
    positions: torch.Tensor,
    role: Role,
) -> torch.Tensor:
    """Return the argmax of log p + Gumbel noise for each of M draws, int64 [M], each from one of `rows`.

    `ids` and `logp` [N, C] come from a `Distribution`, `seeds` and `positions` int64 [M]. The best score among the
    most likely ids is one to beat. All others are less likely than these, so they can beat it only with noise that
    makes up for that, which few ids have. It takes the memory of a few rows, however many draws there are.
    """
    used, which = torch.unique(torch.tensor(rows), return_inverse=True)
    likely = [find_highest(logp[row : row + 1], _LIKELY) for row in used.tolist()]
    values, columns = (torch.cat(each)[which] for each in zip(*likely, strict=True))  # [M, 64]
    likely_ids = ids[torch.tensor(rows)[:, None], columns]
    best, at = (values.double() + draw_gumbel(seeds, positions, role, likely_ids)).max(dim=1)
    drawn = likely_ids.gather(1, at[:, None])[:, 0]
    least = (best - values[:, -1]).tolist()
    for m, (row, state) in enumerate(zip(rows, compute_states(seeds, positions, role).tolist(), strict=True)):
        others = torch.from_numpy(find_high_noise_tokens(state, ids[row].numpy(), least[m]))
        if len(others):
            other_ids = ids[row, others]
            noise = draw_gumbel(seeds[m : m + 1], positions[m : m + 1], role, other_ids[None])[0]
            score, winner = (logp[row, others].double() + noise).max(dim=0)
            if score > best[m]:
                drawn[m] = other_ids[winner]
    return drawn


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
