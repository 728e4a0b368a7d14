"""From logits to the distribution that is really sampled: temperature, then top-k, top-p and min-p.

A vocabulary has 50,000 to 150,000 entries and the nucleus a handful. Sorting the whole vocabulary per position costs
as much as running a small model, so a distribution is kept sparse: the ids that can be drawn and their
log-probabilities. The nucleus is exact: it is looked for among the highest logits, and the search widens until the
nucleus ends inside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from decoding.acceptance.noise import Role, gumbel
from decoding.request import SamplingParams

Kind = Literal["greedy", "whole", "nucleus"]
KINDS: tuple[Kind, ...] = ("greedy", "whole", "nucleus")
_FIRST_WIDTH = 64
_CHUNK = 128
_ROWS_AT_ONCE = 8
_UNDERFLOW = -80.0
# Tail mass below this share of the likeliest token's does not move a float32 sum.
_NEGLIGIBLE = math.log(3e-8)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Sparse categorical distributions: `ids` int64 [N, C] and normalized `logp` float32 [N, C].

    Entries that are no part of a row's support have logp -inf; every id of a row is listed once.
    """

    ids: torch.Tensor
    logp: torch.Tensor

    @property
    def width(self) -> int:
        """C, the most ids any row can draw."""
        return self.ids.shape[1]

    def rows(self, index: torch.Tensor) -> Distribution:
        """Return the distributions of the rows in `index`."""
        return Distribution(self.ids[index], self.logp[index])

    def prob_of(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the probability of `tokens` [N, M], float32 [N, M]; 0 outside the support."""
        order = self.ids.argsort(dim=1)
        sorted_ids = self.ids.gather(1, order)
        at = torch.searchsorted(sorted_ids, tokens.contiguous()).clamp(max=self.width - 1)
        found = sorted_ids.gather(1, at) == tokens
        return self.logp.gather(1, order.gather(1, at)).exp() * found

    def sample(self, keys: torch.Tensor, positions: torch.Tensor, role: Role) -> torch.Tensor:
        """Return one token per row, int64 [N]: argmax of log p + Gumbel noise, which has law p.

        The noise is keyed by token id, so two distributions sampled with the same keys, positions and role are
        coupled: the nearer they are, the likelier they give the same token (arXiv 2408.07978).
        """
        if self.width == 1:
            return self.ids[:, 0]
        score = self.logp.double() + gumbel(keys, positions, role, self.ids)
        return self.ids.gather(1, score.argmax(dim=1, keepdim=True))[:, 0]


def shape(logits: torch.Tensor, params: SamplingParams) -> Distribution:
    """Return the distribution that `params` make of `logits` [N, V]; temperature 0 is all mass on the argmax."""
    if kind_of(params) == "greedy":
        return _likeliest(logits)
    if kind_of(params) == "whole":
        ids = torch.arange(logits.shape[1], device=logits.device).expand(logits.shape)
        return Distribution(ids, torch.log_softmax(logits.float() / params.temperature, dim=1))
    return _nucleus(logits, params, _FIRST_WIDTH)


def kind_of(params: SamplingParams) -> Kind:
    """Return how a distribution is computed: its likeliest token only, the whole vocabulary, or a filtered part."""
    if params.temperature == 0:
        return "greedy"
    return "whole" if params.top_p == 1 and params.top_k == 0 and params.min_p == 0 else "nucleus"


def _likeliest(logits: torch.Tensor) -> Distribution:
    ids = logits.argmax(dim=1, keepdim=True)
    return Distribution(ids, torch.zeros_like(ids, dtype=torch.float32))


def _nucleus(logits: torch.Tensor, params: SamplingParams, width: int) -> Distribution:
    V = logits.shape[1]
    k = min(params.top_k, V)
    width = min(max(width, k), V)
    top, ids = _highest(logits, width)
    scaled = top.float() / params.temperature  # [N, C], descending
    # Log of the mass each filter refers to: of the top k where there is a top k, else of the whole vocabulary.
    if k:
        scaled, ids = scaled[:, :k], ids[:, :k]
        total = scaled.logsumexp(dim=1, keepdim=True)
        inside = torch.ones(len(ids), dtype=torch.bool, device=ids.device)
    else:
        total = _total(logits, scaled, params.temperature)
        inside = torch.full((len(ids),), width == V, device=ids.device)
    result, keep = _filtered(scaled, ids, total, params.top_p, params.min_p)
    wider = ~(inside | ~keep[:, -1])
    if bool(wider.any()):
        return _merge(result, wider, _nucleus(logits[wider], params, width * 16))
    return result


def narrow(logits: torch.Tensor, params: SamplingParams) -> tuple[Distribution, torch.Tensor]:
    """Return `shape` without a host read, and which rows (bool [N]) it holds for: their nucleus ended in the search.

    For a GPU, where waiting for the search costs more than a pass over the vocabulary. The other rows hold a
    distribution over their likeliest tokens: enough for a draft, not for a target.
    """
    N, V = logits.shape
    everywhere = torch.ones(N, dtype=torch.bool, device=logits.device)
    if kind_of(params) != "nucleus":
        return shape(logits, params), everywhere
    k = min(params.top_k, V)
    top, ids = _highest(logits, min(max(_FIRST_WIDTH, k), V))
    scaled = top.float() / params.temperature
    if k:
        scaled, ids = scaled[:, :k], ids[:, :k]
        total = scaled.logsumexp(dim=1, keepdim=True)
    else:
        total = (logits.float() / params.temperature).logsumexp(dim=1, keepdim=True)
    result, keep = _filtered(scaled, ids, total, params.top_p, params.min_p)
    return result, everywhere if k or ids.shape[1] == V else ~keep[:, -1]


def limits_of(params: SamplingParams) -> list[float]:
    """Return what `narrow_by` reads from the device."""
    # Greedy decoding does not read its temperature.
    return [params.temperature or 1.0, params.top_p, params.min_p, float(params.top_k)]


def narrow_by(logits: torch.Tensor, kind: Kind, limits: torch.Tensor) -> Distribution:
    """Return the distribution of a draft with `limits` float32 [4] on the device, so that a CUDA graph serves any.

    What `narrow` makes of the same parameters, but never wider than its first search: a draft may be drawn from any
    distribution, as long as it is the one that the acceptance is told.
    """
    if kind == "greedy":
        return _likeliest(logits)
    temperature, top_p, min_p, top_k = limits.unbind()
    scaled = logits.float() / temperature
    if kind == "whole":
        return Distribution(
            torch.arange(logits.shape[1], device=logits.device).expand(logits.shape), scaled.log_softmax(1)
        )
    total = scaled.logsumexp(dim=1, keepdim=True)
    top, ids = _highest(logits, min(_FIRST_WIDTH, logits.shape[1]))
    beyond = (top_k > 0) & (torch.arange(ids.shape[1], device=ids.device) >= top_k)
    scaled = (top.float() / temperature).masked_fill(beyond, float("-inf"))
    total = torch.where(top_k > 0, scaled.logsumexp(dim=1, keepdim=True), total)
    return _filtered(scaled, ids, total, top_p, min_p)[0]


def _filtered(
    scaled: torch.Tensor,
    ids: torch.Tensor,
    total: torch.Tensor,
    top_p: float | torch.Tensor,
    min_p: float | torch.Tensor,
) -> tuple[Distribution, torch.Tensor]:
    """Return what top-p and min-p leave of the highest logits, `scaled` [N, C] descending, and which these are."""
    p = (scaled - total).exp()
    keep = (p.cumsum(dim=1) - p < top_p) & (p >= min_p * p[:, :1])
    keep[:, 0] = True
    return Distribution(ids, scaled.masked_fill(~keep, float("-inf")).log_softmax(dim=1)), keep


def _total(logits: torch.Tensor, scaled: torch.Tensor, temperature: float) -> torch.Tensor:
    """Log of the mass of the whole vocabulary, [N, 1], read from its head where the tail cannot matter."""
    head = scaled.logsumexp(dim=1, keepdim=True)
    tail_bound = scaled[:, -1:] + math.log(max(logits.shape[1] - scaled.shape[1], 1))
    unsure = (tail_bound >= scaled[:, :1] + _NEGLIGIBLE)[:, 0]
    if bool(unsure.any()):
        head[unsure] = _log_mass(logits[unsure], temperature)
    return head


def _highest(logits: torch.Tensor, width: int) -> tuple[torch.Tensor, torch.Tensor]:
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


def _merge(narrow: Distribution, rows: torch.Tensor, wide: Distribution) -> Distribution:
    """Put `wide` in the place of the marked rows of `narrow`, padding the others with ids of no mass."""
    N, pad = len(narrow.ids), wide.width - narrow.width
    # Padding ids are negative, hence distinct from every token.
    filler = -1 - torch.arange(pad, device=narrow.ids.device).expand(N, pad)
    ids = torch.cat([narrow.ids, filler], dim=1)
    logp = torch.cat([narrow.logp, narrow.logp.new_full((N, pad), float("-inf"))], dim=1)
    ids[rows], logp[rows] = wide.ids, wide.logp
    return Distribution(ids, logp)


def raw_logprobs(logits: torch.Tensor, at: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return the model's own log-probability (temperature 1, unfiltered) of `tokens` [M], float32 [M].

    `at` [M] names each token's row of `logits` [N, V]; rows that several samples share are summed up once.
    """
    used, which = torch.unique(at, return_inverse=True)
    return logits[at, tokens].float() - _log_mass(logits[used], 1.0)[which, 0]


def _log_mass(logits: torch.Tensor, temperature: float) -> torch.Tensor:
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
