"""The requests and their times: the same for every compared service, from one seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.datasets import Task


@dataclass(frozen=True, slots=True)
class Planned:
    """One request: due `due_s` seconds after the window began. `key` names it among all requests of the test."""

    key: str
    due_s: float
    task: Task
    seed: int


def arrivals(rate: float, duration_s: float, seed: int) -> list[float]:
    """When requests are due, in seconds: Poisson arrivals at `rate` per second, given their expected number.

    Given their number, the arrivals of a Poisson process are independent and uniform over the window. The number is
    fixed, at least 1, so that the rate of the test is the one that it names.
    """
    count = max(1, round(rate * duration_s))
    draws = np.random.default_rng([seed, round(rate * 1e6)]).uniform(0.0, duration_s, count)
    return [float(due) for due in np.sort(draws)]


def shuffled(tasks: Sequence[Task], seed: int) -> list[Task]:
    """The tasks in an order that the seed decides."""
    return [tasks[i] for i in np.random.default_rng(seed).permutation(len(tasks))]


def how_many_prompts(rates: Sequence[float], duration_s: float, budget_s: float) -> int:
    """How many prompts a test takes: as many as the idle service surely answers in one window, at most as needed.

    Every rate asks for the same prompts in turn, and so does the idle service. So a difference between two rates is
    not one between their prompts.
    """
    most = max(len(arrivals(rate, duration_s, 0)) for rate in rates)
    return max(1, min(most, int(duration_s / budget_s)))


def window(rate: float, duration_s: float, prompts: Sequence[Task], seed: int) -> list[Planned]:
    """The requests at one rate, in the order in which they are due; each has a seed of its own."""
    return [
        Planned(f"{rate:g}/{i}", due, prompts[i % len(prompts)], seed + i)
        for i, due in enumerate(arrivals(rate, duration_s, seed))
    ]


def one_by_one(prompts: Sequence[Task], seed: int) -> list[Planned]:
    """The requests to the idle service: each prompt once."""
    return [Planned(f"idle/{i}", 0.0, task, seed + i) for i, task in enumerate(prompts)]
