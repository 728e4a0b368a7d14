"""A toolchain and a sandbox for the tests of one language."""

import pytest

from evaluation.grading import Grader
from evaluation.languages import registry
from evaluation.languages.base import ToolchainError
from evaluation.sandbox import Sandbox
from tests.evaluation.languages.corpus import LIMITS


def toolchain_or_skip(name):
    """The toolchain of a language; the test is skipped, with the command that installs it, where it is missing."""
    language = registry.load_language(name)
    try:
        return language.toolchain.find()
    except ToolchainError as error:
        pytest.skip(f"{language.label} is not tested: {error}; run `{language.toolchain.INSTALL}`")


@pytest.fixture(scope="session")
def grader():
    """A grader in the best tier."""
    sandbox = Sandbox.detect()
    yield Grader(sandbox)
    sandbox.close()


@pytest.fixture
def judge(request):
    """The verdict of a program in the best tier, in the LANGUAGE of the module."""
    toolchain_or_skip(request.module.LANGUAGE)
    return Grader(Sandbox.detect(), LIMITS).judge
