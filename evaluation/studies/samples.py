"""How many samples: Pass@First and Pass@All over n, for arms that differ only in n.

Each n is an arm of its own. A smaller n is never taken from the samples of a larger one, because the batch size changes
the time per token.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.decisions import PairVerdict
from evaluation.outcomes import FIGURES, Figure
from evaluation.studies.answer import choose_arm
from evaluation.studies.arms import ArmComparison


@dataclass(frozen=True, slots=True)
class BudgetCell:
    """One n at one budget. `best`: leads its family in Pass@First there."""

    pass_first: float
    pass_all: float
    best: bool


@dataclass(frozen=True, slots=True)
class FamilySamples:
    """The arms of one family by n. `rows[i][k]` is `ns[i]` at `budgets[k]`.

    `enough_first[k]` is the n to use for Pass@First at `budgets[k]`: the best one, or a cheaper one that is shown to be
    not worse. `enough_all` does so for Pass@All; None where nothing has passed. The verdicts are about
    these choices.
    """

    target: str
    drafter: str
    ns: tuple[int, ...]
    arms: tuple[str, ...]
    budgets: tuple[float, ...]
    rows: tuple[tuple[BudgetCell, ...], ...]
    enough_first: tuple[int | None, ...]
    enough_all: tuple[int | None, ...]
    verdict_first: tuple[PairVerdict | None, ...]
    verdict_all: tuple[PairVerdict | None, ...]


def compare_samples(compared: ArmComparison, budgets: Sequence[float]) -> tuple[FamilySamples, ...]:
    """One entry for each family with at least two n, at these budgets."""
    families: defaultdict[str, list[int]] = defaultdict(list)
    for place, arm in enumerate(compared.arms):
        families[arm.family].append(place)
    return tuple(
        _build_family(compared, budgets, sorted(places, key=lambda place: compared.arms[place].n))
        for places in families.values()
        if len({compared.arms[place].n for place in places}) > 1
    )


def _build_family(compared: ArmComparison, budgets: Sequence[float], places: Sequence[int]) -> FamilySamples:
    best = [compared.find_leader("first", budget, places) for budget in budgets]
    arms = [compared.arms[place] for place in places]
    first, every = ([_choose_n(compared, figure, budget, places) for budget in budgets] for figure in FIGURES)
    return FamilySamples(
        target=arms[0].target,
        drafter=arms[0].drafter,
        ns=tuple(arm.n for arm in arms),
        arms=tuple(arm.name for arm in arms),
        budgets=tuple(budgets),
        rows=tuple(
            tuple(
                BudgetCell(
                    compared.compute_share("first", place, budget),
                    compared.compute_share("all", place, budget),
                    best=leader == place,
                )
                for budget, leader in zip(budgets, best, strict=True)
            )
            for place in places
        ),
        enough_first=tuple(n for n, _ in first),
        enough_all=tuple(n for n, _ in every),
        verdict_first=tuple(verdict for _, verdict in first),
        verdict_all=tuple(verdict for _, verdict in every),
    )


def _choose_n(
    compared: ArmComparison, figure: Figure, budget_s: float, places: Sequence[int]
) -> tuple[int | None, PairVerdict | None]:
    choice = choose_arm(compared, figure, budget_s, among=places)
    return (None, None) if choice is None else (compared.arms[choice.use].n, choice.verdict)
