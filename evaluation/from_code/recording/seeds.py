"""Lets tests draw the same numbers in every recording: which calls are recorded must not depend on chance."""

from __future__ import annotations

import itertools
import random
from typing import Any


def seed_generators() -> None:
    """Gives generators without a seed the next number as one. What the operating system draws is left alone."""
    numbers, seed = itertools.count(), random.Random.seed

    def seed_with_number(self: random.Random, a: Any = None, version: int = 2) -> None:
        seed(self, next(numbers) if a is None else a, version)

    random.Random.seed = seed_with_number  # type: ignore[method-assign]
    random.seed = random._inst.seed
    random.seed()
