"""Rows as wide as a vocabulary: their highest entries, and draws in little memory with the noise of few ids."""

from __future__ import annotations

from collections.abc import Sequence

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
