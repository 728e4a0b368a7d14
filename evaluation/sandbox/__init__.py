"""The sandbox: runs untrusted programs and judges the values that they return. See docs/sandbox.md."""

from evaluation.sandbox.jobs import Job, Result, Task, clean, prepare, repeat_faults
from evaluation.sandbox.limits import Limits
from evaluation.sandbox.packages import Packages, PackagesError, stage
from evaluation.sandbox.sandbox import Sandbox, SandboxUnavailable

__all__ = [
    "Job", "Limits", "Packages", "PackagesError", "Result", "Sandbox", "SandboxUnavailable", "Task", "clean", "prepare",
    "repeat_faults", "stage",
]  # fmt: skip
