"""The sandbox of a tier, for tests that are skipped where it does not work."""

from __future__ import annotations

import pytest

from evaluation.sandbox import Packages, Sandbox, SandboxUnavailableError


def sandbox_or_skip(only: str | None = None, packages: Packages | None = None) -> Sandbox:
    """The best sandbox, or the one of a tier; the test is skipped, with the sandbox's own reasons, where it fails."""
    try:
        return Sandbox.detect(only=only, packages=packages)
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
