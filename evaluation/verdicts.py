"""The outcome of judging a program: its status, how far the verdict can be trusted, and the verdict.

Database, pages, exports and failure classes read the statuses from here.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Status(enum.StrEnum):
    """The outcome for one program. Only SANDBOX_ERROR is not the program's doing: such a sample is not scored."""

    PASSED = "passed"
    WRONG_ANSWER = "wrong_answer"
    EXCEPTION = "exception"
    SYNTAX_ERROR = "syntax_error"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT_LIMIT = "output_limit"
    CRASHED = "crashed"
    EMPTY = "empty"
    FORGED = "forged"
    SANDBOX_ERROR = "sandbox_error"


class Trust(enum.StrEnum):
    """Where the test ran: in a separate process, or beside the program, which could then forge the verdict."""

    PROXY = "proxy"
    IN_GUEST = "in-guest"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement on one program. Times in seconds."""

    status: Status
    detail: str  # with the next four: chosen by the program, so escape them where they are shown
    traceback: str
    failing_assert: str | None
    got: str | None
    expected: str | None
    cpu_s: float
    wall_s: float
    calls: int  # the test's calls of the program
    isolation: str  # the sandbox's tier
    trust: Trust

    @property
    def passed(self) -> bool:
        """Whether the program is right."""
        return self.status is Status.PASSED
