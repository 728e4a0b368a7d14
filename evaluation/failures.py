"""Why samples failed, in classes that tell a slow model from a wrong one and both from a fault of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal, get_args

Failure = Literal[
    "not_finished", "empty", "syntax", "name_or_import", "wrong_answer", "exception", "time", "memory", "output",
    "crash", "forged", "sandbox",
]  # fmt: skip
FAILURES: tuple[Failure, ...] = get_args(Failure)
"""Every class, in the order of the way from model to verdict."""

_OF_STATUS: dict[str, Failure] = {
    "empty": "empty",
    "syntax_error": "syntax",
    "wrong_answer": "wrong_answer",
    "exception": "exception",
    "timeout": "time",
    "memory": "memory",
    "output_limit": "output",
    "crashed": "crash",
    "forged": "forged",
    "sandbox_error": "sandbox",
}
_UNKNOWN_NAME = ("NameError", "ImportError", "ModuleNotFoundError", "UnboundLocalError")


def failure_of(status: str, detail: str, finished: bool) -> Failure | None:
    """The class of one judged sample; None for one that passed.

    `status` and `detail` are the verdict's. A sample that the deadline cut off is `not_finished` whatever its
    fragment did, unless that passed. A status that the grader does not know raises ValueError.
    """
    if status == "passed":
        return None
    if status not in _OF_STATUS:
        raise ValueError(f"status is {status!r}: choose one of passed, {', '.join(_OF_STATUS)}")
    if status == "sandbox_error":
        return "sandbox"
    if not finished:
        return "not_finished"
    if status == "exception" and detail.startswith(_UNKNOWN_NAME):
        return "name_or_import"
    return _OF_STATUS[status]


def failure_counts(samples: Iterable[tuple[str, str, bool]]) -> dict[Failure, int]:
    """How many of the (status, detail, finished) fall in each class, every class present, in order."""
    counts = Counter(failure_of(status, detail, finished) for status, detail, finished in samples)
    return {failure: counts[failure] for failure in FAILURES}
