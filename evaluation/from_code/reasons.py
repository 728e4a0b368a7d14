"""Why a function becomes no task."""

from __future__ import annotations


class LeftOut(Exception):  # noqa: N818  (a decision, not an error)
    """The function becomes no task. The message is the reason in a few words; equal reasons are counted together.

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
