"""Which cases of a parametrized test belong to every run, and which only to `make test-all`."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Iterable
from functools import cache, partial
from typing import Any

import pytest

thorough = partial(pytest.param, marks=pytest.mark.thorough)


def quick_first(every: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Return all of `every`; a case outside `quick` belongs to the thorough run alone."""
    return [one if one in quick else _as_thorough(one) for one in every]


def scale_examples(n: int) -> int:
    """Return how many of `n` examples Hypothesis draws in this run: half of them in one without thorough tests."""
    from hypothesis import settings

    return n * settings.default.max_examples // 100


def _as_thorough(case: Any) -> Any:
    if hasattr(case, "marks"):  # a pytest.param, itself a tuple
        return pytest.param(*case.values, marks=[*case.marks, pytest.mark.thorough], id=case.id)
    return thorough(*case) if isinstance(case, tuple) else thorough(case)


@cache
def tiers() -> list[Any]:
    """Return the sandbox's tiers with and without namespaces; where the first works the second is thorough."""
    try:
        works = subprocess.run(
            ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"], check=False, capture_output=True
        )
    except OSError:
        return ["bwrap", "landlock"]
    return ["bwrap", "landlock"] if works.returncode else ["bwrap", thorough("landlock")]
