"""Node, as for JavaScript: it removes the types."""

from __future__ import annotations

from evaluation.languages.javascript.toolchain import INSTALL, find

__all__ = ["INSTALL", "find"]
