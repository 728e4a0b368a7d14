"""The sandbox: runs programs that nobody has read, and tells what they answered. See docs/sandbox.md."""

from evaluation.sandbox.jobs import Job, Result, Task, clean, prepare
from evaluation.sandbox.limits import Limits
from evaluation.sandbox.sandbox import Sandbox, SandboxUnavailable

__all__ = ["Job", "Limits", "Result", "Sandbox", "SandboxUnavailable", "Task", "clean", "prepare"]
