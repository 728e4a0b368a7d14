"""Why a sample failed, in classes that tell a slow model from a wrong one and both from a fault of the sandbox."""

from __future__ import annotations

from typing import Literal, get_args

from evaluation.verdicts import Status

Failure = Literal[
    "not_finished", "empty", "syntax", "name_or_import", "wrong_answer", "exception", "time", "memory", "output",
    "crash", "forged", "sandbox",
]  # fmt: skip
FAILURES: tuple[Failure, ...] = get_args(Failure)
"""Every class, in the order in which a sample meets them on its way from the model to a verdict."""

_OF_STATUS: dict[str, Failure] = {
    Status.EMPTY: "empty",
    Status.SYNTAX_ERROR: "syntax",
    Status.WRONG_ANSWER: "wrong_answer",
    Status.EXCEPTION: "exception",
    Status.TIMEOUT: "time",
    Status.MEMORY: "memory",
    Status.OUTPUT_LIMIT: "output",
    Status.CRASHED: "crash",
    Status.FORGED: "forged",
    Status.SANDBOX_ERROR: "sandbox",
}
_UNKNOWN_NAME = ("NameError", "ImportError", "ModuleNotFoundError", "UnboundLocalError")


def failure_of(status: str, detail: str, finished: bool) -> Failure | None:
    """The class of one judged sample; None for one that passed.

    `status` and `detail` are the verdict's. A sample that the deadline cut off is `not_finished` whatever its
    fragment did, unless the fragment passed. Raises ValueError for a status that `Status` does not list.
    """
    if status == Status.PASSED:
        return None
    if status not in _OF_STATUS:
        raise ValueError(f"status is {status!r}: choose one of {', '.join(Status)}")
    if status == Status.SANDBOX_ERROR:
        return "sandbox"
    if not finished:
        return "not_finished"
    if status == Status.EXCEPTION and detail.startswith(_UNKNOWN_NAME):
        return "name_or_import"
    return _OF_STATUS[status]
