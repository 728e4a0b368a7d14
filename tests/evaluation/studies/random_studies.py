"""Random studies whose true shares are known: what a study would find with all tasks that there could be."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from evaluation.metrics import SampleOutcome
from tests.evaluation.studies.making import MadeArm, arm_of

Floats = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
TASKS = (10, 20, 40, 82, 164)
BUDGET_S = 10.0


@dataclass(frozen=True)
class TrueArm:
    """A configuration with two samples a task; of those that have finished the second is chosen.

    Tasks have a difficulty x, standard normal and the same for all arms. A sample passes with probability
    Phi(skill - slope x), and finishes after exp(pace + stretch x + 0.4 e) seconds, e standard normal.
    """

    skills: tuple[float, float]
    slope: float
    paces: tuple[float, float]
    stretch: float
    cost_s: float

    def chances(self, difficulty: Floats, budget_s: float) -> tuple[Floats, Floats]:
        """Whether each sample has finished, and whether it passes, as probabilities `[2, T]`."""
        x = difficulty[None, :]
        paces, skills = np.array(self.paces)[:, None], np.array(self.skills)[:, None]
        finished = special.ndtr((np.log(budget_s) - paces - self.stretch * x) / 0.4)
        return finished, special.ndtr(skills - self.slope * x)

    def pass_first(self, budget_s: float) -> float:
        """The true Pass@First, over all difficulties."""
        finished, passes = self.chances(_NODES, budget_s)
        chosen = finished[1] * passes[1] + (1 - finished[1]) * finished[0] * passes[0]
        return float(chosen @ _WEIGHTS / _WEIGHTS.sum())


@dataclass(frozen=True)
class RandomStudy:
    """Arms measured over some tasks, and what is true of them."""

    arms: list[MadeArm]
    truth: list[TrueArm]
    n_tasks: int

    def pass_first(self, name: str, budget_s: float) -> float:
        """The true Pass@First of an arm."""
        return self.truth[int(name.removeprefix("arm "))].pass_first(budget_s)


def draw_study(
    seed: int, n_tasks: int | None = None, n_arms: int | None = None, spread: float | None = None
) -> RandomStudy:
    """A study of 2 to 6 arms over 10 to 164 tasks, some of whose arms are nearly or exactly alike.

    `spread` is how much arms differ (0: exactly alike in truth, not in what is drawn).
    """
    rng = np.random.default_rng(seed)
    n_tasks = n_tasks or int(rng.choice(TASKS))
    n_arms = n_arms or int(rng.integers(2, 7))
    spread = float(rng.choice([0.0, 0.1, 0.3, 0.6, 1.0])) if spread is None else spread
    skill, slope, pace, stretch = rng.normal(0, 0.8), rng.uniform(0.3, 2.5), rng.uniform(-0.5, 1.5), rng.uniform(0, 0.5)
    truth = []
    for _ in range(n_arms):
        second = rng.normal(0.1, 0.3)
        own, faster, later = rng.normal(skill, spread), rng.normal(pace, spread / 2), rng.uniform(0.05, 0.5)
        truth.append(
            TrueArm(
                (own, own + second * bool(spread)),
                slope,
                (faster, faster + later),
                stretch,
                float(np.exp(rng.normal())),
            )
        )
    difficulty = rng.standard_normal(n_tasks)
    # A part of what decides a task is common to all arms: they read the same prompt.
    shared = rng.standard_normal(n_tasks)
    # In three of ten studies all arms write the same text, as a lossless way to decode faster does at temperature 0.
    twins = rng.random() < 0.3
    alike = 1.0 if twins else rng.uniform(0, 0.95)
    if twins:
        truth = [replace(one, skills=truth[0].skills) for one in truth]
    return RandomStudy(
        [_measure(rng, i, one, difficulty, shared, alike) for i, one in enumerate(truth)], truth, n_tasks
    )


def _measure(
    rng: np.random.Generator, place: int, true: TrueArm, difficulty: Floats, shared: Floats, alike: float
) -> MadeArm:
    outcomes = []
    for index in range(2):
        luck = np.sqrt(alike) * shared + np.sqrt(1 - alike) * rng.standard_normal(len(difficulty))
        passes = luck < true.skills[index] - true.slope * difficulty
        times = np.exp(true.paces[index] + true.stretch * difficulty + 0.4 * rng.standard_normal(len(difficulty)))
        outcomes += [
            SampleOutcome(f"T/{task}", index, float(time) if time <= BUDGET_S else None, index - 9.0, bool(passed), 100)
            for task, (time, passed) in enumerate(zip(times.tolist(), passes.tolist(), strict=True))
        ]
    return arm_of(f"arm {place}", tuple(outcomes), n=2, cost_s=true.cost_s)
