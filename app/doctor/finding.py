"""One line of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one part. `fail` means that the main job, a run with its grading, cannot work here."""

    part: str
    status: Status
    what: str
    remedy: str = ""


def guarded(part: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """The findings of a check; a check that breaks is a finding too."""
    try:
        return list(check())
    except Exception as error:
        first_line = str(error).partition("\n")[0]
        return [Finding(part, "fail", f"could not be checked: {type(error).__name__}: {first_line}", "Report this.")]
