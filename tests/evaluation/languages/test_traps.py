"""Solutions by hand in C++ and Rust: the right ones pass, and what falls into the trap of its task does not."""

import pytest

from evaluation.grading import Grader
from evaluation.sandbox import Sandbox
from tests.evaluation.languages import solutions_cpp, solutions_rust
from tests.evaluation.languages.conftest import toolchain_or_skip
from tests.evaluation.languages.corpus import LIMITS
from tests.evaluation.languages.traps import TRAPS, task

pytestmark = pytest.mark.slow
SOLUTIONS = {"cpp": solutions_cpp, "rust": solutions_rust}


def verdict(language, name, program):
    toolchain_or_skip(language)
    return Grader(Sandbox.detect(), LIMITS).judge(program, task(language, name))


@pytest.mark.parametrize("language", SOLUTIONS)
@pytest.mark.parametrize("name", TRAPS)
def test_a_right_solution_passes(language, name):
    found = verdict(language, name, SOLUTIONS[language].RIGHT[name])
    assert (found.status, found.detail) == ("passed", "")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("language", "name"), [(language, name) for language, each in SOLUTIONS.items() for name in each.TRAPPED]
)
def test_what_falls_into_the_trap_fails(language, name):
    found = verdict(language, name, SOLUTIONS[language].TRAPPED[name])
    assert found.status in ("wrong_answer", "exception", "crashed")
