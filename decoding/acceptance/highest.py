"""The highest entries of rows as wide as a vocabulary."""

from __future__ import annotations

import torch

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
