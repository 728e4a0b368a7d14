"""The top-n tokens at a position, and their log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from decoding.acceptance.highest import find_highest
from decoding.acceptance.sampling import compute_log_mass, compute_raw_logprobs
from kernels.upload import upload

TopIds = tuple[tuple[int, float], ...]
"""The most likely tokens at one position, in descending order: (token id, log-probability)."""


def compute_top_logprobs(logits: torch.Tensor, dist_row: torch.Tensor, n: int) -> list[TopIds]:
    """Return the `n` most likely tokens at each of the rows `dist_row` [M] of `logits` [N, V].

    Log-probabilities equal the results of `compute_raw_logprobs` to the bit.
    """
    used, which = torch.unique(dist_row, return_inverse=True)
    values, ids = find_highest(logits[used], min(n, logits.shape[1]))
    logprobs = values.float() - compute_log_mass(logits[used], 1.0)
    places = [tuple(zip(*place, strict=True)) for place in zip(ids.tolist(), logprobs.tolist(), strict=True)]
    return [places[i] for i in which.tolist()]


def compute_given_logprobs(logits: torch.Tensor, tokens: Sequence[int], n: int) -> list[tuple[float, TopIds]]:
    """Return the log-probability of token i at row i of `logits` [N, V], and the `n` most likely tokens there."""
    rows = torch.arange(len(tokens), device=logits.device)
    logprobs = compute_raw_logprobs(logits, rows, upload(tokens, logits.device)).tolist()
    tops: list[TopIds] = compute_top_logprobs(logits, rows, n) if n else [()] * len(tokens)
    return list(zip(logprobs, tops, strict=True))
