"""Hand-written solutions in each language: right ones pass, and each one that falls into its trap fails."""

import re
from pathlib import Path

import pytest

from evaluation.languages.registry import LANGUAGES
from tests.evaluation.languages.conftest import toolchain_or_skip
from tests.evaluation.languages.traps import TRAPS
from tests.thorough import thorough

pytestmark = pytest.mark.slow
SOLUTIONS = Path(__file__).parent / "solutions"
_HEAD = re.compile(r"^// (\w+)\n", re.MULTILINE)


def solutions(language):
    """(right, trapped) programs by task."""
    found = {}
    (file,) = SOLUTIONS.glob(f"{language}.*")
    parts = _HEAD.split(file.read_text("utf-8"))[1:]
    pairs = list(zip(parts[::2], parts[1::2], strict=True))
    for (name, right), (trap, wrong) in zip(pairs[::2], pairs[1::2], strict=True):
        assert trap == "trap"
        found[name] = right, wrong
    return found


COMPILED = ("go", "java", "cpp", "rust", "typescript")
QUICK = ("floor_division", "reverse_letters", "counts")
RUNS = [
    *(pytest.param(language, QUICK if language in COMPILED else TRAPS, id=language) for language in LANGUAGES),
    *(thorough(language, TRAPS, id=f"{language}-all") for language in COMPILED),
]


@pytest.mark.parametrize(("language", "names"), RUNS)
def test_a_right_solution_passes_and_one_that_falls_into_the_trap_fails(language, names, grader):
    toolchain_or_skip(language)
    every = solutions(language)
    assert every.keys() == TRAPS.keys()
    written = {name: every[name] for name in names}
    items = [(program, TRAPS[name].task(language)) for name, pair in written.items() for program in pair]
    verdicts = dict(grader.judge_many(items))
    statuses = {name: [verdicts[2 * i].status, verdicts[2 * i + 1].status] for i, name in enumerate(written)}
    wrong = {name: pair for name, pair in statuses.items() if pair[0] != "passed" or pair[1] == "passed"}
    assert not wrong
