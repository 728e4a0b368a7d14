"""Whether a token's logits depend on the batch that it is verified in.

How many tokens a round verifies depends on the clock where `goodput` chooses, and on the company where several prompts
share a batch. Sums of floating-point numbers depend on their order, and libraries choose the order by the size of the
batch. Where they do, a sample near a tie can take another token in another batch: the same law, but another text. Our
products on a CPU keep one order (prepack.py, layout.py, sampling.py); this check says whether they do on this machine.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from decoding.runner import ModelRunner

# Tokens that each row has committed, and brings. The first row's first token is the one compared.
_ALONE: tuple[Sequence[int], Sequence[int]] = ((70,), (1,))
_BATCHES: tuple[tuple[Sequence[int], Sequence[int]], ...] = (
    ((70,), (2,)),
    ((70,), (17,)),
    ((70, 3), (1, 1)),
    ((70, 41, 9), (5, 1, 12)),
)

MIN_ROWS = max(len(lens) for lens, _ in _BATCHES)


def is_batch_invariant(runner: ModelRunner) -> bool:
    """Return whether a token's logits are the same to the bit alone and in batches of other shapes.

    Takes an empty runner with room for `MIN_ROWS` rows, and leaves it used. Costs about ten small forwards.
    """
    alone = _first_logits(runner, *_ALONE)
    return all(torch.equal(_first_logits(runner, *batch), alone) for batch in _BATCHES)


@torch.inference_mode()
def _first_logits(runner: ModelRunner, lens: Sequence[int], counts: Sequence[int]) -> torch.Tensor:
    cache = runner.cache
    cache.lens.clear()
    cache.reserve(max(n + count for n, count in zip(lens, counts, strict=True)))
    text = [(7919 * t) % runner.vocab_size for t in range(128)]
    for row, n in enumerate(lens):
        cache.start(row)
        runner.forward([text[row : row + n]], last_only=True, first=row)
        cache.commit([n], first=row)
    new = [text[row + n : row + n + count] for row, (n, count) in enumerate(zip(lens, counts, strict=True))]
    return runner.forward(new)[0].clone()
