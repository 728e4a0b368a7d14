"""The launcher: becomes a program of another language's toolchain. It reads nothing from that program.

A failure before the program starts is reported on a pipe that the kernel closes when the program starts, so no program
can report one.
"""

from __future__ import annotations

import os
from typing import Any

STARTED = 5


def refuse(reason: str) -> None:
    """Report that the program could not be started or confined."""
    os.write(STARTED, reason.encode("utf-8", "replace"))


def serve(job: dict[str, Any]) -> None:
    """Replace this process by the job's command, in the job's folder."""
    os.set_inheritable(STARTED, False)
    try:
        os.chdir(job["folder"])
        os.execve(job["argv"][0], job["argv"], job["env"])
    except OSError as error:
        refuse(f"the toolchain's program cannot be started: {error.strerror}")
