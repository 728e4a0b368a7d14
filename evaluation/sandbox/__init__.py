"""The sandbox: runs untrusted programs and judges the values that they return. docs/sandbox.md explains how."""

from evaluation.sandbox.jobs import SandboxJob, SandboxResult, SandboxTask, clean_text, retry_faults
from evaluation.sandbox.limits import Limits
from evaluation.sandbox.packages import Packages, PackagesError, stage_packages
from evaluation.sandbox.programs import Command, ProgramEndedError, ProgramSlot, RunningProgram, Tools
from evaluation.sandbox.sandbox import Sandbox, SandboxUnavailableError

__all__ = [
    "Command",
    "Limits",
    "Packages",
    "PackagesError",
    "ProgramEndedError",
    "ProgramSlot",
    "RunningProgram",
    "Sandbox",
    "SandboxJob",
    "SandboxResult",
    "SandboxTask",
    "SandboxUnavailableError",
    "Tools",
    "clean_text",
    "retry_faults",
    "stage_packages",
]  # fmt: skip
