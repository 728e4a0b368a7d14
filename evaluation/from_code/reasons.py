"""Why a function does not become a task."""

from __future__ import annotations


class ExcludedError(Exception):
    """The function does not become a task. The message is the reason in a few words; equal reasons are counted
    together.

    `detail` adds what differs from function to function.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


class SandboxFaultError(RuntimeError):
    """Faults of the sandbox that lasted: nothing can be said about the function, and the work has to stop."""


class ProjectError(ValueError):
    """A project that cannot be used at all; one sentence that names the fault and the remedy."""
