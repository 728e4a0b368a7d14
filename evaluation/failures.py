"""Why a sample failed, in classes that tell a slow model from a wrong one and both from a fault of the sandbox."""

from __future__ import annotations

from evaluation.verdicts import Failure, Status

_UNKNOWN_NAME = ("NameError", "ImportError", "ModuleNotFoundError", "UnboundLocalError")


def failure_of(status: str, detail: str, finished: bool) -> Failure | None:
    """The class of one judged sample; None for one that passed.

    `status` and `detail` are the verdict's. A sample that the deadline cut off is `not_finished` whatever its
    fragment did, unless the fragment passed. Raises ValueError for a status that `Status` does not list.
    """
    if status == Status.PASSED:
        return None
    if status not in set(Status):
        raise ValueError(f"status is {status!r}: choose one of {', '.join(Status)}")
    if status == Status.SANDBOX_ERROR:
        return "sandbox"
    if not finished:
        return "not_finished"
    if status == Status.EXCEPTION and detail.startswith(_UNKNOWN_NAME):
        return "name_or_import"
    return Status(status).failure
