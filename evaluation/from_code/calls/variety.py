"""Chooses the cases of a task for variety: every branch that a call reached, every kind of outcome and argument."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from evaluation.from_code.calls.cases import Case
from evaluation.from_code.recording import values

MAX_CASES = 60
MAX_CASE_CHARS = 1500
MAX_OBJECT_CHARS = 6000
MAX_TEST_CHARS = 24_000
MAX_TEST_OF_OBJECTS_CHARS = 90_000


def choose_varied_cases(cases: Sequence[Case], max_cases: int = MAX_CASES) -> list[Case]:
    """At most `max_cases`, each time the one that adds most: branches before paths, these before kinds of arguments and
    outcomes, these before other results. The docstring's examples come before all.

    The order of `cases` does not matter. The result is sorted: short calls before long ones.
    """
    plain = all(case.is_plain() for case in cases)
    usable = [case for case in cases if _count_chars(case) <= (MAX_CASE_CHARS if plain else MAX_OBJECT_CHARS)]
    limit = MAX_TEST_CHARS if plain else MAX_TEST_OF_OBJECTS_CHARS
    pending = sorted(usable, key=lambda case: case.digest)
    features = {case.digest: _list_features(case) for case in pending}
    covered: list[set[Hashable]] = [set() for _ in range(4)]
    chosen: list[Case] = []
    total = 0

    def compute_gain(case: Case) -> tuple[int, ...]:
        added = (len(new - old) for new, old in zip(features[case.digest], covered, strict=True))
        return (case.documented, *added)

    while pending and len(chosen) < max_cases:
        best = max(pending, key=compute_gain)
        pending.remove(best)
        if total + _count_chars(best) > limit:
            continue
        total += _count_chars(best)
        for known, new in zip(covered, features[best.digest], strict=True):
            known.update(new)
        chosen.append(best)
    return sorted(chosen, key=lambda case: (len(case.call), case.digest))


def _list_features(case: Case) -> tuple[frozenset[Hashable], ...]:
    """What a case shows, the most important first."""
    outcome = case.outcome
    kinds: set[Hashable] = {("shape", case.shape), ("raised", outcome.raised[:1]), ("changed", outcome.after is None)}
    if outcome.returned is not None:
        value = values.read_plain(outcome.returned)
        kinds.add(("kind", type(value).__name__, bool(value)))
    return outcome.arcs, frozenset({outcome.arcs}), frozenset(kinds), frozenset({outcome.returned})


def _count_chars(case: Case) -> int:
    texts = (case.outcome.returned, case.outcome.after, case.outcome.seen)
    return len(case.call) + sum(len(text or "") for text in texts)
