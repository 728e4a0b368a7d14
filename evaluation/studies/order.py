"""The order of work in a study: of its tasks, and of the arms that take turns on them.

Both are permuted by the seed, so that neither a position nor a predecessor nor easy first tasks favour an arm. The
permutations come from SHA-256, so that a study resumed years later under another version of Python or numpy keeps its
order.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256


def order_arms(n_arms: int, block: int, seed: int) -> tuple[int, ...]:
    """The arms, 0 to `n_arms` - 1, in the order of their turns in block number `block` (from 0) of the tasks.

    A balanced Latin square (E. J. Williams, Australian Journal of Scientific Research A2, 1949). Over a whole square,
    `n_arms` blocks or, for an odd number of arms, twice as many, each arm has each position equally often, and
    follows each other arm equally often. The seed permutes rows and arms, differently for each square.
    """
    rows = n_arms if n_arms % 2 == 0 else 2 * n_arms
    square, place = divmod(block, rows)
    row = _permute(rows, f"{seed}:{square}:rows")[place]
    arms = _permute(n_arms, f"{seed}:{square}:arms")
    # 0, 1, n - 1, 2, n - 2, ...: the steps between neighbours are all different, modulo n.
    zigzag = [(position + 1) // 2 if position % 2 else -(position // 2) for position in range(n_arms)]
    turns = [arms[(step + row) % n_arms] for step in zigzag]
    # For an odd n the steps cover only half of the pairs; the rows of the second square are reversed for the rest.
    return tuple(turns if row < n_arms else reversed(turns))


@lru_cache(maxsize=32)
def compute_task_positions(n_tasks: int, seed: int) -> tuple[int, ...]:
    """When each task has its turn: item i is the position, from 0, of task i in the order of work.

    The test that drops arms early (racing.py) assumes that the next task is like the last ones, and datasets begin with
    easy tasks. What a study has done when it is stopped early is then also a random part of its tasks.
    """
    order_of_work = _permute(n_tasks, f"{seed}:tasks")
    return tuple(sorted(range(n_tasks), key=order_of_work.__getitem__))


def _permute(n: int, key: str) -> list[int]:
    return sorted(range(n), key=lambda i: sha256(f"{key}:{i}".encode()).digest())
