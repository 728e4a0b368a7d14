"""The answer of a study: which arm to use at a budget, and what is shown about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from evaluation.decisions import MARGIN, PairDecision, PairVerdict
from evaluation.outcomes import Figure
from evaluation.studies.arms import ArmComparison

ANSWER_BUDGETS = (1.0, 2.0, 3.0, 5.0, 10.0)
"""Budgets in seconds at which a study gives its answer, beside its own."""


@dataclass(frozen=True, slots=True)
class CheaperArm:
    """An arm that costs less than the one to use. Differences are shares of the tasks, this arm minus the other."""

    arm: str
    verdict: PairVerdict
    difference: float
    worse_by_at_most: float  # the one-sided limit, at least 0


@dataclass(frozen=True, slots=True)
class BudgetAnswer:
    """The arm to use at one budget. There is none while no arm's chosen sample has passed."""

    budget_s: float  # seconds
    arm: str | None  # with the highest Pass@First
    pass_first: float  # of `arm`, share of the common tasks
    interval: tuple[float, float]  # Wilson's, of `pass_first`
    pass_all: float  # of `arm`; without an arm the highest of any
    # gain of `use` in Pass@First within one more second, None where that second is past the last budget
    one_second_more: float | None
    use: str | None  # `arm`, or a cheaper one that is shown to be at most the margin worse
    use_pass_first: float
    use_interval: tuple[float, float]
    use_pass_all: float
    # "better" than every other arm; "as_good": no other arm is more than the margin better; else "undecided": `use` is
    # the best so far. None for a single arm
    verdict: PairVerdict | None
    margin: float
    against: str | None  # the arm that the verdict is about
    difference: float | None  # Pass@First of `use` - `against`
    difference_interval: tuple[float, float] | None  # that holds at all budgets and for all pairs together
    tasks_to_decide: int | None  # `use` and `against`, if they differ by the margin; None if decided or above 100,000
    as_good: tuple[str, ...]  # arms as good as `use` within the margin, cheapest first
    undecided: tuple[str, ...]  # arms shown neither worse nor as good, the highest Pass@First first
    cheaper: tuple[CheaperArm, ...]  # cheapest first
    n_arms: int  # that were compared

    @property
    def cheaper_not_worse(self) -> tuple[CheaperArm, ...]:
        """The cheaper arms that are not shown to be worse."""
        return tuple(one for one in self.cheaper if one.verdict != "better")


def list_named_budgets(budget_s: float) -> tuple[float, ...]:
    """The budgets in seconds at which a study of this budget gives its answer."""
    return (*(budget for budget in ANSWER_BUDGETS if budget < budget_s), budget_s)


def answer_at(compared: ArmComparison, budget_s: float, margin: float = MARGIN) -> BudgetAnswer:
    """The answer at a budget up to the last of the study. Raises MetricError for a longer one."""
    choice = choose_arm(compared, "first", budget_s, margin)
    names = [arm.name for arm in compared.arms]
    if choice is None:
        highest = max(compared.compute_share("all", arm, budget_s) for arm in range(len(names)))
        limits = compared.compute_interval("first", 0, budget_s)
        return BudgetAnswer(
            budget_s, None, 0.0, limits, highest, None, None, 0.0, limits, highest, None, margin, None, None, None,
            None, (), (), (), len(names),
        )  # fmt: skip
    best, use, pair = choice.best, choice.use, choice.pair
    share, later_s = compared.compute_share("first", use, budget_s), budget_s + 1.0
    cheaper = _find_cheaper(compared, use, range(len(names)))
    return BudgetAnswer(
        budget_s=budget_s,
        arm=names[best],
        pass_first=compared.compute_share("first", best, budget_s),
        interval=compared.compute_interval("first", best, budget_s),
        pass_all=compared.compute_share("all", best, budget_s),
        one_second_more=compared.compute_share("first", use, later_s) - share if later_s <= compared.end_s else None,
        use=names[use],
        use_pass_first=share,
        use_interval=compared.compute_interval("first", use, budget_s),
        use_pass_all=compared.compute_share("all", use, budget_s),
        verdict=choice.verdict,
        margin=margin,
        against=None if choice.against is None else names[choice.against],
        difference=pair.difference if pair else None,
        difference_interval=(pair.low, pair.high) if pair else None,
        tasks_to_decide=pair.tasks_to_decide if pair and choice.verdict == "undecided" else None,
        as_good=tuple(names[other] for other in choice.as_good),
        undecided=tuple(names[other] for other in choice.undecided),
        cheaper=tuple(_describe_cheaper(compared, arm, use, budget_s, margin) for arm in cheaper),
        n_arms=len(names),
    )


@dataclass(frozen=True, slots=True)
class ArmChoice:
    """The numbers of the arms that a choice is about; `pair` is `use` against `against`."""

    best: int
    use: int
    verdict: PairVerdict | None
    against: int | None
    pair: PairDecision | None
    as_good: tuple[int, ...]
    undecided: tuple[int, ...]


def choose_arm(
    compared: ArmComparison, figure: Figure, budget_s: float, margin: float = MARGIN, among: Iterable[int] | None = None
) -> ArmChoice | None:
    """The arm with the highest share, or the cheapest of those that are shown to be at most the margin worse.

    None while no arm has solved a task.
    """
    places = list(range(len(compared.arms)) if among is None else among)
    best = compared.find_leader(figure, budget_s, places)
    if best is None:
        return None

    def decide(arm: int, other: int) -> PairDecision:
        return compared.decide(figure, arm, other, budget_s, margin)

    use = next((arm for arm in _find_cheaper(compared, best, places) if decide(arm, best).is_not_worse), best)
    cost_s = [arm.cost_s for arm in compared.arms]
    others = [other for other in places if other != use]
    if not others:
        return ArmChoice(best, use, None, None, None, (), ())
    others.sort(key=lambda other: (-compared.count(figure, other, budget_s), cost_s[other]))
    pairs = {other: decide(use, other) for other in others}
    # An arm that the best one beats need not be beaten again by an arm that is as good as the best.
    beaten = {other for other in others if pairs[other].is_better or (other != best and decide(best, other).is_better)}
    rest = [other for other in others if other not in beaten]
    as_good = [other for other in rest if other == best or pairs[other].verdict == "as_good"]
    undecided = [other for other in rest if other not in as_good]
    verdict: PairVerdict = "undecided" if undecided else "as_good" if as_good else "better"
    against = undecided[0] if undecided else best if use != best else (as_good or others)[0]
    cheapest_first = sorted(as_good, key=cost_s.__getitem__)
    return ArmChoice(best, use, verdict, against, pairs[against], tuple(cheapest_first), tuple(undecided))


def _find_cheaper(compared: ArmComparison, arm: int, among: Iterable[int]) -> list[int]:
    """The arms that cost less, cheapest first."""
    cost_s = [each.cost_s for each in compared.arms]
    return sorted((other for other in among if cost_s[other] < cost_s[arm]), key=cost_s.__getitem__)


def _describe_cheaper(compared: ArmComparison, arm: int, use: int, budget_s: float, margin: float) -> CheaperArm:
    pair = compared.decide("first", arm, use, budget_s, margin)
    return CheaperArm(compared.arms[arm].name, pair.verdict, pair.difference, max(0.0, -pair.at_least))
