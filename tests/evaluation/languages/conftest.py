"""A toolchain and a sandbox for the tests of one language."""

import pytest

from evaluation.grading import Grader
from evaluation.languages import registry
from evaluation.languages.base import ToolchainError
from evaluation.sandbox import Sandbox, SandboxUnavailableError
from tests.thorough import tiers


def toolchain_or_skip(name):
    """The toolchain of a language; the test is skipped, with the command that installs it, where it is missing."""
    language = registry.load_language(name)
    try:
        return language.toolchain.find()
    except ToolchainError as error:
        pytest.skip(f"{language.label} is not tested: {error}; run `{language.toolchain.INSTALL}`")


def sandbox_or_skip(only):
    """The sandbox of a tier; the test is skipped where the tier does not work."""
    try:
        return Sandbox.detect(only=only)
    except SandboxUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session", params=tiers())
def tier(request):
    """A sandbox of each tier that works here."""
    found = sandbox_or_skip(request.param)
    yield found
    found.close()


@pytest.fixture(scope="session")
def grader():
    """A grader in the best tier."""
    sandbox = Sandbox.detect()
    yield Grader(sandbox)
    sandbox.close()
