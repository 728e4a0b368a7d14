"""How many samples have the same text whether they are drafted or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks._arms import INT8, PLAIN, is_ours, weights_of
from benchmarks._speed import Speed

_NAMES = {"dense": "bf16", "int8": "int8"}


def identity(cells: Sequence[Mapping[str, Sequence[Speed]]]) -> dict[str, float]:
    """Return the share of samples that plain and speculative decoding wrote alike, for each kind of weights.

    Over all prompts, batches and temperatures of `cells`, and all speculative arms but those with the maximal rule,
    whose texts depend on the drafts by definition. A kind of weights without both has no figure.
    """
    figures = {}
    for weights, prefix in (("dense", ""), ("int8", INT8)):
        alike = [
            a.token_ids == b.token_ids
            for speeds in cells
            for arm, runs in speeds.items()
            if is_ours(arm) and weights_of(arm) == weights and arm != prefix + PLAIN
            if not arm.endswith("/maximal")
            for plain, run in zip(speeds.get(prefix + PLAIN, ()), runs, strict=False)
            if plain.completion and run.completion
            for a, b in zip(plain.completion.samples, run.completion.samples, strict=True)
        ]
        if alike:
            figures[f"identity.{_NAMES[weights]}_plain_vs_speculative"] = sum(alike) / len(alike)
    return figures
