"""The result of one check."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The state of one part. `fail` means that this machine cannot decode and grade a run."""

    part: str
    status: Status
    what: str
    remedy: str = ""


def run_check(part: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """The findings of a check; an exception in it is a finding too."""
    try:
        return list(check())
    except Exception as error:
        first_line = str(error).partition("\n")[0]
        return [Finding(part, "fail", f"could not be checked: {type(error).__name__}: {first_line}", "Report this.")]
