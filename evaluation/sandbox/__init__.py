"""The sandbox: runs untrusted programs and judges the values that they return. docs/sandbox.md explains how."""

from evaluation.sandbox.jobs import Job, Result, Task, clean, repeat_faults
from evaluation.sandbox.limits import Limits
from evaluation.sandbox.packages import Packages, PackagesError, stage
from evaluation.sandbox.programs import Command, Program, ProgramEndedError, ProgramSlot, Tools
from evaluation.sandbox.sandbox import Sandbox, SandboxUnavailableError

__all__ = [
    "Command", "Job", "Limits", "Packages", "PackagesError", "Program", "ProgramEndedError", "ProgramSlot", "Result",
    "Sandbox", "SandboxUnavailableError", "Task", "Tools", "clean", "repeat_faults", "stage",
]  # fmt: skip
