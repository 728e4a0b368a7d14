"""The sandbox: runs programs that nobody has read, and tells what they answered. See docs/sandbox.md."""

from evaluation.sandbox.limits import Limits
from evaluation.sandbox.sandbox import Sandbox, SandboxUnavailable
from evaluation.sandbox.supervisor import Job, Result

__all__ = ["Job", "Limits", "Result", "Sandbox", "SandboxUnavailable"]
