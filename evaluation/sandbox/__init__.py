"""The sandbox: runs untrusted programs and judges the values that they return. docs/sandbox.md explains how."""

from evaluation.sandbox.jobs import Job, Result, Task, clean, repeat_faults
from evaluation.sandbox.limits import Limits
from evaluation.sandbox.packages import Packages, PackagesError, stage
from evaluation.sandbox.sandbox import Sandbox, SandboxUnavailableError

__all__ = [
    "Job", "Limits", "Packages", "PackagesError", "Result", "Sandbox", "SandboxUnavailableError", "Task", "clean",
    "repeat_faults", "stage",
]  # fmt: skip
