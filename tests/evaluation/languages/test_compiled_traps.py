"""Hand-written solutions are right, and translations that forget how the language differs are wrong.

The default run has the traps that `test_traps` has for every language.
"""

import pytest

from evaluation.grading import Grader
from evaluation.languages import registry
from evaluation.sandbox import Sandbox
from tests.evaluation.languages.compiled_traps import NAIVE, TRAPS
from tests.evaluation.languages.conftest import toolchain_or_skip

pytestmark = pytest.mark.thorough
ENDS = {"go": "\n}\n", "java": "\n    }\n}\n"}


def verdict(name, language, body):
    toolchain_or_skip(language)
    task = TRAPS[name].task(language)
    head = registry.load_language(language).write_prompt(task.signature, "Solves the task.")
    return Grader(Sandbox.detect()).judge(head + body + ENDS[language], task)


@pytest.mark.parametrize("language", ENDS)
@pytest.mark.parametrize("name", TRAPS)
def test_a_solution_by_hand_passes(name, language):
    found = verdict(name, language, TRAPS[name].solutions[language])
    assert (found.status, found.detail) == ("passed", "")


@pytest.mark.parametrize(("name", "language"), NAIVE)
def test_a_translation_that_forgets_the_difference_fails(name, language):
    assert verdict(name, language, NAIVE[name, language]).status == "wrong_answer"
