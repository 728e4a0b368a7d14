"""How many samples: Pass@First and Pass@All over n, for arms that differ only in n.

Each n is an arm of its own. A smaller n is never taken from the samples of a larger one, because the batch size changes
the time per token.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.decisions import Verdict
from evaluation.studies.answer import choose_arm
from evaluation.studies.arms import Scored
from evaluation.studies.leaders import PairBands, interval, leader


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

    `enough_first[k]` is the n to use for Pass@First at `budgets[k]`: the best one, or a cheaper one that is shown to be
    as good. `enough_all` is the same for Pass@All; None where nothing has passed. The verdicts are about
    these choices.
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
    verdict_first: tuple[Verdict | None, ...]
    verdict_all: tuple[Verdict | None, ...]


def samples(scored: Scored, bands: Sequence[PairBands]) -> tuple[FamilySamples, ...]:
    """One entry for each family with at least two n, at the budgets of `scored`, by the bands of both figures."""
    families: defaultdict[str, list[int]] = defaultdict(list)
    for place, arm in enumerate(scored.arms):
        families[arm.family].append(place)
    return tuple(
        _family(scored, bands, sorted(places, key=lambda place: scored.arms[place].n))
        for places in families.values()
        if len({scored.arms[place].n for place in places}) > 1
    )


def _family(scored: Scored, bands: Sequence[PairBands], places: Sequence[int]) -> FamilySamples:
    columns = range(len(scored.budgets))
    best = [leader(scored, "first", column, among=places) for column in columns]
    arms = [scored.arms[place] for place in places]
    first, every = ([_choose_n(scored, one, column, places) for column in columns] for one in bands)
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
        enough_first=tuple(n for n, _ in first),
        enough_all=tuple(n for n, _ in every),
        verdict_first=tuple(verdict for _, verdict in first),
        verdict_all=tuple(verdict for _, verdict in every),
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


def _choose_n(
    scored: Scored, bands: PairBands, column: int, places: Sequence[int]
) -> tuple[int | None, Verdict | None]:
    budget = scored.budgets[column]
    choice = choose_arm(bands, scored.at((budget,)), budget, among=places)
    return (None, None) if choice is None else (scored.arms[choice.use].n, choice.verdict)
