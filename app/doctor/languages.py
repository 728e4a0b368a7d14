"""The languages that can be judged on this machine."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import Any

from app.doctor.finding import Finding
from evaluation.datasets import PYTHON
from evaluation.languages import registry
from evaluation.languages.base import ToolchainError


def installed() -> list[dict[str, Any]]:
    """Every language: whether it can be judged here, its toolchain, and the one command that installs that."""
    python = {"name": PYTHON, "label": "Python", "available": True, "version": None, "install": None, "reason": ""}
    found: list[dict[str, Any]] = [{**python, "version": f"Python {platform.python_version()}"}]
    for name in registry.LANGUAGES:
        language = registry.language(name)
        try:
            toolchain, reason = language.toolchain.find().label, ""
        except ToolchainError as error:
            toolchain, reason = None, str(error)
        known = {"name": name, "label": language.label, "available": toolchain is not None, "version": toolchain}
        found.append({**known, "install": language.toolchain.INSTALL, "reason": reason})
    return found


def languages() -> Iterator[Finding]:
    """Each language but Python, which the sandbox's checks cover."""
    for each in installed()[1:]:
        if each["available"]:
            yield Finding(f"language {each['name']}", "ok", each["version"])
        else:
            yield Finding(f"language {each['name']}", "warn", each["reason"], f"Run `{each['install']}`.")
