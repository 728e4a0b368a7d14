"""Chooses the cases of a task for variety: every branch that a call reached, every kind of outcome and argument."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from evaluation.from_code.cases import Case
from evaluation.from_code.recording import values

MAX_CASES = 40
MAX_CASE_CHARS = 1500
MAX_TEST_CHARS = 24_000


def choose(cases: Sequence[Case]) -> list[Case]:
    """At most MAX_CASES: first those that add a branch or a kind, most new ones first; then recorded ones, then others.

    The order of `cases` does not matter. The result is sorted: recorded cases first, short ones before long ones.
    """
    usable = [case for case in cases if _size(case) <= MAX_CASE_CHARS]
    pending = sorted(usable, key=lambda case: (not case.recorded, case.digest))
    features = {case.digest: set(_features(case)) for case in pending}
    chosen: list[Case] = []
    covered: set[Hashable] = set()
    total = 0
    while pending and len(chosen) < MAX_CASES:
        best = max(pending, key=lambda case: (len(features[case.digest] - covered), case.recorded))
        pending.remove(best)
        if total + _size(best) > MAX_TEST_CHARS:
            continue
        total += _size(best)
        covered |= features[best.digest]
        chosen.append(best)
    return sorted(chosen, key=lambda case: (not case.recorded, len(case.call), case.digest))


def _features(case: Case) -> Iterable[Hashable]:
    yield from case.outcome.arcs
    yield "path", case.outcome.arcs
    yield "shape", case.shape
    yield "returned", case.outcome.returned
    yield "raised", case.outcome.raised[:1]
    if case.outcome.returned is not None:
        value = values.read(case.outcome.returned)
        yield "kind", type(value).__name__, bool(value)
    if case.outcome.after is not None:
        yield ("changed",)


def _size(case: Case) -> int:
    return len(case.call) + len(case.outcome.returned or "") + len(case.outcome.after or "")
