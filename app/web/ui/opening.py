"""The budget (seconds) at which a page opens that was asked for none: the same on every page.

It is fixed in advance and knows no run by name, so tests at it stay valid, and two pages about the same runs give the
same answer. A page of one run opens at the run's own budget.
"""

from __future__ import annotations

from collections.abc import Collection

from evaluation.metrics import Curve

OPENING = (5.0, 10.0, 20.0, 50.0, 100.0, 200.0)
"""5 s is a wait that users of a coding assistant accept. The others are for slower machines."""


def opening_budget(curves: Collection[Curve], longest_s: float) -> float:
    """Returns the first of OPENING within which a sample of any run passes, at most `longest_s`.

    `longest_s` is the budget up to which every run was given time: beyond it, a run has only a lower bound.
    """
    return next(
        (b for b in OPENING if b < longest_s and any(curve.at(b)[1] > 0 for curve in curves)),
        longest_s,
    )
