"""Node, in a version that removes types."""

from __future__ import annotations

from evaluation.languages.base import Toolchain
from evaluation.languages.javascript import toolchain as javascript

INSTALL = javascript.INSTALL
OLDEST = (22, 18)


def find() -> Toolchain:
    """The toolchain of this machine. Raises ToolchainError."""
    return javascript.toolchain(OLDEST)
