"""Whether a token's logits depend on the batch that it is verified in, or on what its row verifies before it.

The number of tokens that a round verifies depends on the clock where `goodput` chooses it, and on the other prompts
where several share a batch. Sums of floating-point numbers depend on their order, and libraries choose the order by the
size of the batch. Then a sample near a tie can take another token in another batch: from the same distribution, but
another text. Our products on a CPU keep one order (models/packing.py, memory/layout.py, acceptance/sampling.py);
this check says whether they do on this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from decoding.attention.runner import ModelRunner


class _Batch(NamedTuple):
    """Each row's committed and new tokens (`lens`, `counts`). The first new token of row `own` is compared."""

    lens: Sequence[int]
    counts: Sequence[int]
    own: int = 0


_LENGTH = 380  # 17 new tokens pass slot 384, where every backend reads further; one does not
_ALONE = _Batch((_LENGTH,), (1,))
_BATCHES = (
    _Batch((_LENGTH,), (2,)),
    _Batch((_LENGTH,), (17,)),
    _Batch((_LENGTH, 3), (1, 1)),
    _Batch((_LENGTH, 600, 200, 9), (5, 1, 1, 12)),  # of which one is read further than alone
    # oneDNN computes in tiles of 32 or 64 tokens, and the last one in another way.
    _Batch((3, _LENGTH), (33, 1), own=1),
    _Batch((3, _LENGTH), (64, 1), own=1),
)

_N_DRAFTED = 4

MIN_ROWS = max(len(batch.lens) for batch in _BATCHES)


def is_batch_invariant(runner: ModelRunner) -> bool:
    """Return whether a token's logits are the same to the bit alone, in batches of other shapes, and in a draft.

    Takes an empty runner, and leaves it empty; batches of more rows than it has room for are left out, which are none
    with room for `MIN_ROWS`. Costs 21 small forwards.
    """
    alone = _compute_logits(runner, _ALONE)
    batches = (batch for batch in _BATCHES if len(batch.lens) <= runner.cache.max_rows)
    return all(torch.equal(_compute_logits(runner, batch), alone) for batch in batches) and _reads_drafts_alike(runner)


@torch.inference_mode()
def _reads_drafts_alike(runner: ModelRunner) -> bool:
    """Return whether each token of a draft gets the logits that it gets once the tokens before it are committed."""
    cache, text = runner.cache, _make_text(runner)
    cache.start(0, _LENGTH + 1 + _N_DRAFTED)
    runner.forward([text[:_LENGTH]], n_last=[1], whole=True)
    cache.commit([_LENGTH])
    together = runner.forward([text[_LENGTH : _LENGTH + 1 + _N_DRAFTED]]).clone()
    apart = []
    for token in text[_LENGTH : _LENGTH + 1 + _N_DRAFTED]:
        apart.append(runner.forward([[token]]).clone())
        cache.commit([1])
    cache.clear()
    return torch.equal(together, torch.cat(apart))


def _make_text(runner: ModelRunner) -> list[int]:
    return [(7919 * t) % runner.vocab_size for t in range(2 * _LENGTH)]


@torch.inference_mode()
def _compute_logits(runner: ModelRunner, batch: _Batch) -> torch.Tensor:
    cache, own = runner.cache, batch.own
    text = _make_text(runner)
    for row, (n, count) in enumerate(zip(batch.lens, batch.counts, strict=True)):
        # Only the lengths of the others matter, not what they have written.
        cache.start(row, n + count, 0 if row == own else n)
    runner.forward([text[:_LENGTH]], n_last=[1], first_row=own, whole=True)
    cache.commit([_LENGTH], first_row=own)
    logits = runner.forward([text[_LENGTH : _LENGTH + count] for count in batch.counts])
    cache.clear()
    return logits[sum(batch.counts[:own])].clone()
