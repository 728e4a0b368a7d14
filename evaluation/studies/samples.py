"""How many samples: Pass@First and Pass@All over n, for arms that differ only in n.

Each n is an arm of its own. A smaller n is never taken from the samples of a larger one, because the batch size changes
the time per token.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.studies.arms import Scored
from evaluation.studies.leaders import Metric, holm, interval, leader, p_value, wins_and_losses


@dataclass(frozen=True, slots=True)
class Cell:
    """One n at one budget (seconds): shares with Wilson's intervals. `best`: leads its family in Pass@First there."""

    arm: str
    n: int
    budget_s: float
    pass_first: float
    first_interval: tuple[float, float]
    pass_all: float
    all_interval: tuple[float, float]
    best: bool


@dataclass(frozen=True, slots=True)
class FamilySamples:
    """The arms of one family by n. `rows[i][k]` is `ns[i]` at `budgets[k]`.

    `enough_first[k]` is the smallest n that no larger n beats in Pass@First at `budgets[k]` as far as the paired test
    can tell, `enough_all` the same for Pass@All; None where nothing has passed.
    """

    family: str
    target: str
    drafter: str
    ns: tuple[int, ...]
    arms: tuple[str, ...]
    budgets: tuple[float, ...]
    rows: tuple[tuple[Cell, ...], ...]
    enough_first: tuple[int | None, ...]
    enough_all: tuple[int | None, ...]


def samples(scored: Scored) -> tuple[FamilySamples, ...]:
    """One entry for each family with at least two n, at the budgets of `scored`."""
    families: defaultdict[str, list[int]] = defaultdict(list)
    for place, arm in enumerate(scored.arms):
        families[arm.family].append(place)
    return tuple(
        _family(scored, sorted(places, key=lambda place: scored.arms[place].n))
        for places in families.values()
        if len({scored.arms[place].n for place in places}) > 1
    )


def _family(scored: Scored, places: Sequence[int]) -> FamilySamples:
    columns = range(len(scored.budgets))
    best = [leader(scored, "first", column, among=places) for column in columns]
    arms = [scored.arms[place] for place in places]
    return FamilySamples(
        family=arms[0].family,
        target=arms[0].target,
        drafter=arms[0].drafter,
        ns=tuple(arm.n for arm in arms),
        arms=tuple(arm.name for arm in arms),
        budgets=scored.budgets,
        rows=tuple(
            tuple(_cell(scored, place, column, best=best[column] == place) for column in columns) for place in places
        ),
        enough_first=tuple(_enough(scored, "first", column, places) for column in columns),
        enough_all=tuple(_enough(scored, "all", column, places) for column in columns),
    )


def _cell(scored: Scored, place: int, column: int, best: bool) -> Cell:
    return Cell(
        arm=scored.arms[place].name,
        n=scored.arms[place].n,
        budget_s=scored.budgets[column],
        pass_first=float(scored.first[place, :, column].mean()),
        first_interval=interval(scored, "first", place, column),
        pass_all=float(scored.all[place, :, column].mean()),
        all_interval=interval(scored, "all", place, column),
        best=best,
    )


def _enough(scored: Scored, metric: Metric, column: int, places: Sequence[int]) -> int | None:
    if leader(scored, metric, column, among=places) is None:
        return None
    for rank, place in enumerate(places):
        larger = [other for other in places[rank + 1 :] if scored.arms[other].n > scored.arms[place].n]
        differs = holm([p_value(scored, metric, column, place, other) for other in larger])
        counts = [wins_and_losses(scored, metric, column, place, other) for other in larger]
        if not any(rejected and lost > won for rejected, (won, lost) in zip(differs, counts, strict=True)):
            return scored.arms[place].n
    return None
