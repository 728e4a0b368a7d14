"""Whether a token's logits depend on the batch that it is verified in.

The number of tokens that a round verifies depends on the clock where `goodput` chooses it, and on the other prompts
where several share a batch. Sums of floating-point numbers depend on their order, and libraries choose the order by the
size of the batch. Then a sample near a tie can take another token in another batch: from the same distribution, but
another text. Our products on a CPU keep one order (models/packing.py, attention/layout.py, acceptance/sampling.py);
this check says whether they do on this machine.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from decoding.attention.runner import ModelRunner

# Tokens that each row has committed, and brings. The first row's first token is the one compared.
_ALONE: tuple[Sequence[int], Sequence[int]] = ((70,), (1,))
_BATCHES: tuple[tuple[Sequence[int], Sequence[int]], ...] = (
    ((70,), (2,)),
    ((70,), (17,)),
    ((70, 3), (1, 1)),
    ((70, 600, 9), (5, 1, 12)),
)

MIN_ROWS = max(len(lens) for lens, _ in _BATCHES)


def is_batch_invariant(runner: ModelRunner) -> bool:
    """Return whether a token's logits are the same to the bit alone and in batches of other shapes.

    Takes an empty runner with room for `MIN_ROWS` rows, and leaves it used. Costs ten small forwards.
    """
    alone = _first_logits(runner, *_ALONE)
    return all(torch.equal(_first_logits(runner, *batch), alone) for batch in _BATCHES)


@torch.inference_mode()
def _first_logits(runner: ModelRunner, lens: Sequence[int], counts: Sequence[int]) -> torch.Tensor:
    cache = runner.cache
    cache.lens.clear()
    cache.reserve(max(n + count for n, count in zip(lens, counts, strict=True)))
    text = [(7919 * t) % runner.vocab_size for t in range(128)]
    cache.start(0)
    runner.forward([text[: lens[0]]], last_only=True)
    cache.commit(lens[:1])
    for row, n in enumerate(lens[1:], start=1):
        cache.start(row, n)  # only the lengths of the others matter, not what they have written
    return runner.forward([text[lens[0] : lens[0] + count] for count in counts])[0].clone()
