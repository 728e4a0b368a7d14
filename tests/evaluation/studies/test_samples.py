"""How many samples are enough, by arms of their own for each n."""

from __future__ import annotations

from evaluation.studies.samples import FamilySamples, compare_samples
from tests.evaluation.studies.making import MadeArm, arm, passing, score


def samples_of(arms: list[MadeArm], budgets: list[float]) -> tuple[FamilySamples, ...]:
    return compare_samples(score(arms, budgets[-1]), budgets)


def test_a_family_is_listed_by_n_with_its_best_marked() -> None:
    arms = [
        passing("eight", 60, 100, 4.0, n=8, family="sibling"),
        passing("one", 30, 100, 1.0, n=1, family="sibling"),
        passing("alone", 90, 100, 1.0, n=4, family="plain"),
    ]
    (family,) = samples_of(arms, [2.0, 4.0])
    assert (family.ns, family.arms, family.budgets) == ((1, 8), ("one", "eight"), (2.0, 4.0))
    assert [[cell.pass_first for cell in row] for row in family.rows] == [[0.3, 0.3], [0.0, 0.6]]
    assert [[cell.best for cell in row] for row in family.rows] == [[True, False], [False, True]]


def test_enough_is_the_best_n_or_a_cheaper_one_that_is_shown_to_be_as_good() -> None:
    """A smaller n that is not shown to be as good may be many points worse, however little the tasks can tell."""
    arms = [passing(f"{n}", share, 164, n=n, family="f", cost_s=n) for n, share in ((1, 50), (2, 80), (4, 83), (8, 83))]
    (family,) = samples_of(arms, [2.0])
    assert (family.enough_first, family.verdict_first) == ((4,), ("undecided",))
    (family,) = samples_of(arms[2:], [2.0])
    assert (family.enough_first, family.verdict_first) == ((4,), ("as_good",))
    (few,) = samples_of([passing("1", 5, 10, n=1, family="f", cost_s=0.1), passing("8", 6, 10, n=8, family="f")], [2.0])
    assert (few.enough_first, few.verdict_first) == ((8,), ("undecided",))


def test_a_larger_n_that_is_worse_is_no_gain() -> None:
    arms = [passing("1", 60, 100, n=1, family="f"), passing("8", 10, 100, n=8, family="f")]
    (family,) = samples_of(arms, [2.0])
    assert family.enough_first == (1,)


def test_pass_all_may_need_more_samples_than_pass_first() -> None:
    one = arm("1", [[(1.0, task < 30)] for task in range(100)], family="f", cost_s=0.5)
    two = arm("2", [[(1.0, task < 30), (1.0, task < 60)] for task in range(100)], family="f")
    (family,) = samples_of([one, two], [2.0])
    assert (family.enough_first, family.enough_all) == ((1,), (2,))


def test_nothing_is_enough_while_nothing_passes() -> None:
    arms = [passing("1", 0, 9, n=1, family="f"), passing("2", 0, 9, n=2, family="f")]
    (family,) = samples_of(arms, [2.0])
    assert (family.enough_first, family.enough_all) == ((None,), (None,))
    assert not any(cell.best for row in family.rows for cell in row)


def test_one_n_says_nothing_about_n() -> None:
    assert samples_of([passing("a", 1, 2, family="f"), passing("b", 1, 2, family="f")], [1.0]) == ()
