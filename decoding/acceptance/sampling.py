"""From logits to the distribution that is sampled: temperature, then top-k, top-p and min-p.

A vocabulary has 50,000 to 150,000 entries and the nucleus a handful. Sorting the whole vocabulary at each position
costs as much as running a small model, so a distribution is kept sparse: the ids that can be drawn and their
log-probabilities. The nucleus is exact: it is searched among the highest logits, and the search widens until the
nucleus ends inside it.

A batch may hold requests with different parameters: `to_distributions` takes them row by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch

from decoding.acceptance.distribution import Distribution, find_highest, join_distributions
from decoding.request import SamplingParams
from kernels.upload import upload

SamplingMode = Literal["greedy", "whole", "nucleus"]
_FIRST_WIDTH = 64
_ROWS_AT_ONCE = 8
_UNDERFLOW = -80.0
# Tail mass below this share of the top token's mass does not move a float32 sum.
_NEGLIGIBLE = math.log(3e-8)


def get_sampling_mode(params: SamplingParams) -> SamplingMode:
    """Return how a distribution is computed: its top token only, the whole vocabulary, or a filtered part."""
    if params.temperature == 0:
        return "greedy"
    return "whole" if params.top_p == 1 and params.top_k == 0 and params.min_p == 0 else "nucleus"


def to_distribution(logits: torch.Tensor, params: SamplingParams) -> Distribution:
    """Return the distribution that `params` make of `logits` [N, V]; temperature 0 puts all mass on the argmax."""
    kind = get_sampling_mode(params)
    if kind == "nucleus":
        return _search_nucleus(logits, params, _FIRST_WIDTH)
    if kind == "whole":
        return _compute_whole(logits, params.temperature)
    ids = logits.argmax(dim=1, keepdim=True)
    return Distribution(ids, torch.zeros_like(ids, dtype=torch.float32))


def to_distribution_nosync(logits: torch.Tensor, params: SamplingParams) -> tuple[Distribution, torch.Tensor]:
    """Return `to_distribution` without a host read, and the rows (bool [N]) for which it is complete.

    On a GPU waiting for the search costs more than a pass over the vocabulary. A row whose nucleus did not end within
    the search holds a distribution over its most likely tokens: enough for a draft, not for a target.
    """
    if get_sampling_mode(params) == "nucleus":
        return _filter_highest(logits, params, _FIRST_WIDTH, _compute_total_in_one_pass)
    return to_distribution(logits, params), torch.ones(len(logits), dtype=torch.bool, device=logits.device)


def to_distributions(logits: torch.Tensor, sampling: Sequence[SamplingParams]) -> Distribution:
    """Return the distribution that `sampling[n]` makes of row n of `logits` [N, V]."""
    groups = _group_by_params(sampling)
    if len(groups) == 1:
        return to_distribution(logits, sampling[0])
    return join_distributions(
        [(at := upload(rows, logits.device), to_distribution(logits[at], params)) for params, rows in groups.items()],
        len(logits),
    )


def to_distributions_nosync(
    logits: torch.Tensor, sampling: Sequence[SamplingParams]
) -> tuple[Distribution, torch.Tensor]:
    """Return `to_distributions` without a host read, and the rows (bool [N]) for which it is complete."""
    groups = _group_by_params(sampling)
    if len(groups) == 1:
        return to_distribution_nosync(logits, sampling[0])
    parts = []
    complete = torch.ones(len(logits), dtype=torch.bool, device=logits.device)
    for params, rows in groups.items():
        at = upload(rows, logits.device)
        part, complete[at] = to_distribution_nosync(logits[at], params)
        parts.append((at, part))
    return join_distributions(parts, len(logits)), complete


def _group_by_params(sampling: Sequence[SamplingParams]) -> dict[SamplingParams, list[int]]:
    groups: dict[SamplingParams, list[int]] = {}
    for row, params in enumerate(sampling):
        groups.setdefault(params, []).append(row)
    return groups


def pack_sampling_params(params: SamplingParams) -> list[float]:
    """Return what `kernels/draw.py` reads from the device for a row: temperature, top-p, min-p and top-k."""
    if params.temperature == 0:
        return [1.0, 1.0, 0.0, 1.0]
    return [params.temperature, params.top_p, params.min_p, float(params.top_k)]


def _compute_whole(logits: torch.Tensor, temperature: float) -> Distribution:
    ids = torch.arange(logits.shape[1], device=logits.device).expand(logits.shape)
    logp = torch.empty(logits.shape, dtype=torch.float32, device=logits.device)
    # A GPU does all rows at once; on a CPU a few rows at a time stay in its cache, and take no memory.
    n = len(logits) if logits.is_cuda else _ROWS_AT_ONCE
    for at in range(0, len(logits), n):
        rows = slice(at, at + n)
        torch.log_softmax(logits[rows].float() / temperature, dim=1, out=logp[rows])
    return Distribution(ids, logp)


def _search_nucleus(logits: torch.Tensor, params: SamplingParams, width: int) -> Distribution:
    """Search the nucleus among the `width` highest logits, and wider in the rows where it does not end there."""
    result, complete = _filter_highest(logits, params, width, _compute_total)
    wider = ~complete
    if not bool(wider.any()):
        return result
    everywhere = torch.ones_like(wider)
    return join_distributions(
        [(everywhere, result), (wider, _search_nucleus(logits[wider], params, width * 16))], len(logits)
    )


def _filter_highest(
    logits: torch.Tensor,
    params: SamplingParams,
    width: int,
    total_of: Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor],
) -> tuple[Distribution, torch.Tensor]:
    """Return the filtered distribution over the `width` highest logits, and the rows (bool [N]) where it is complete.

    `total_of(logits, scaled, temperature)` returns the log of the vocabulary's mass, [N, 1].
    """
    V = logits.shape[1]
    k = min(params.top_k, V)
    width = min(max(width, k), V)
    top, ids = find_highest(logits, width)
    scaled = top.float() / params.temperature  # [N, C], descending
    # A filter's share refers to the mass of the top k where there is a top k, else of the whole vocabulary.
    if k:
        scaled, ids = scaled[:, :k], ids[:, :k]
        total = scaled.logsumexp(dim=1, keepdim=True)
    else:
        total = total_of(logits, scaled, params.temperature)
    p = (scaled - total).exp()
    keep = (p.cumsum(dim=1) - p < params.top_p) & (p >= params.min_p * p[:, :1])
    keep[:, 0] = True
    result = Distribution(ids, scaled.masked_fill(~keep, float("-inf")).log_softmax(dim=1))
    return result, torch.ones_like(keep[:, -1]) if k or width == V else ~keep[:, -1]


def _compute_total(logits: torch.Tensor, scaled: torch.Tensor, temperature: float) -> torch.Tensor:
    """Return the log of the mass of the whole vocabulary, [N, 1], from its head where the tail cannot matter."""
    head = scaled.logsumexp(dim=1, keepdim=True)
    tail_bound = scaled[:, -1:] + math.log(max(logits.shape[1] - scaled.shape[1], 1))
    uncertain = (tail_bound >= scaled[:, :1] + _NEGLIGIBLE)[:, 0]
    if bool(uncertain.any()):
        head[uncertain] = compute_log_mass(logits[uncertain], temperature)
    return head


def _compute_total_in_one_pass(logits: torch.Tensor, _scaled: torch.Tensor, temperature: float) -> torch.Tensor:
    """Return the log of the mass of the whole vocabulary, [N, 1], in one pass on the device."""
    return (logits.float() / temperature).logsumexp(dim=1, keepdim=True)


def compute_raw_logprobs(logits: torch.Tensor, dist_row: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return the model's own log-probability (temperature 1, unfiltered) of `tokens` [M], float32 [M].

    `dist_row` [M] names each token's row of `logits` [N, V]; rows that several samples share are summed up once.
    """
    used, which = torch.unique(dist_row, return_inverse=True)
    return logits[dist_row, tokens].float() - compute_log_mass(logits[used], 1.0)[which, 0]


def compute_log_mass(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Return logsumexp of logits / temperature over the whole vocabulary, float32 [N, 1]."""
    masses = []
    # A few rows at a time stay in the processor's cache; all at once take five times as long.
    for rows in torch.split(logits, _ROWS_AT_ONCE):
        # PyTorch sums one row on several threads, in another order than two or more: one row is summed twice.
        several = rows.expand(2, -1) if len(rows) == 1 else rows
        peak = several.amax(dim=1, keepdim=True).float()
        # Far below the peak nothing counts, and exponentials that underflow are slow.
        below = (several - peak).div_(temperature).clamp_(min=_UNDERFLOW)
        mass = below.exp_().sum(dim=1, keepdim=True).log_() + peak / temperature
        masses.append(mass[: len(rows)])
    return torch.cat(masses)


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
