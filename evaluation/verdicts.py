"""The outcome of judging a program: its status, how far the verdict can be trusted, and the verdict.

Database, pages, exports and failure classes read the statuses from here. To add one, add it here with its class, and
its letter to app/web/ui/display.py.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal, Self, get_args

Failure = Literal[
    "not_finished", "empty", "syntax", "name_or_import", "wrong_answer", "exception", "time", "memory", "output",
    "crash", "forged", "sandbox",
]  # fmt: skip
FAILURES: tuple[Failure, ...] = get_args(Failure)
"""Every class of failure, in the order in which a sample meets them on its way from the model to a verdict."""
_UNKNOWN_NAME = ("NameError", "ImportError", "ModuleNotFoundError", "UnboundLocalError")


class Status(enum.StrEnum):
    """The outcome for one program. Only SANDBOX_ERROR is not the program's doing: such a sample is not scored."""

    failure: Failure | None  # the class of a sample with this status, which `classify_failure` refines
    meaning: str

    def __new__(cls, value: str, failure: Failure | None = None, meaning: str = "") -> Self:
        """A member whose value is the text alone."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.failure, member.meaning = failure, meaning
        return member

    PASSED = "passed", None, "the task's test passed, or every case of it"
    WRONG_ANSWER = "wrong_answer", "wrong_answer", "an assertion of the test failed, or a case has another result"
    EXCEPTION = "exception", "exception", "the program raised an exception during the test"
    SYNTAX_ERROR = "syntax_error", "syntax", "the extracted text is not in the task's language"
    COMPILE_ERROR = "compile_error", "syntax", "the compiler rejects the program"
    TIMEOUT = "timeout", "time", "the program ran past the sandbox's time limit"
    MEMORY = "memory", "memory", "the program ran past the sandbox's memory limit"
    OUTPUT_LIMIT = "output_limit", "output", "the program wrote more output than the sandbox allows"
    CRASHED = "crashed", "crash", "the process ended early: a signal, an exit or a stack overflow"
    EMPTY = "empty", "empty", "the text contains no program that defines the function"
    FORGED = "forged", "forged", "the program tried to fake its verdict"
    SANDBOX_ERROR = "sandbox_error", "sandbox", "the sandbox failed; this does not count against the program"


class Trust(enum.StrEnum):
    """Where the test ran: in a separate process, or beside the program, which could then forge the verdict."""

    PROXY = "proxy"
    IN_GUEST = "in-guest"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement on one program. Times in seconds."""

    status: Status
    detail: str  # this and the next four are chosen by the program: escape them where they are shown
    traceback: str
    failing_assert: str | None
    got: str | None
    expected: str | None
    cpu_s: float
    wall_s: float
    calls: int  # calls of the program, cases, or tests run
    isolation: str  # the sandbox's tier
    trust: Trust

    @property
    def passed(self) -> bool:
        """Whether the program is right."""
        return self.status is Status.PASSED


def classify_failure(status: str, detail: str, finished: bool) -> Failure | None:
    """The class of one judged sample; None for one that passed.

    `status` and `detail` are the verdict's. A sample that the deadline cut off is `not_finished` whatever its fragment
    did, unless the fragment passed or the sandbox failed. Raises ValueError for a status that `Status` does not list.
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
