"""Hostile programs in C++ and Rust: none passes, none outlives its limits."""

import pytest

from evaluation.grading import Grader
from tests.evaluation.languages import hostile_cpp, hostile_rust
from tests.evaluation.languages.conftest import sandbox_or_skip, toolchain_or_skip
from tests.evaluation.languages.corpus import LIMITS, one, secret

CORPORA = {"cpp": hostile_cpp, "rust": hostile_rust}
IN_TIERS = pytest.mark.parametrize("tier_name", ["bwrap", pytest.param("landlock", marks=pytest.mark.thorough)])


def attacks(kind):
    """Every program of a kind in every language."""
    rows = [
        pytest.param(language, program, id=f"{language}: {name}")
        for language, corpus in CORPORA.items()
        for name, program in getattr(corpus, kind).items()
    ]
    return pytest.mark.parametrize(("language", "program"), rows)


@pytest.fixture
def judged(tier_name, language, program):
    """The verdict of a hostile program against a task."""
    toolchain_or_skip(language)
    return lambda task: Grader(sandbox_or_skip(tier_name), LIMITS).judge(program, task(language))


def test_each_corpus_has_some_forty_programs_and_more():
    for corpus in CORPORA.values():
        assert sum(len(getattr(corpus, kind)) for kind in ("FORGE", "REACH", "EXHAUST", "COMPILE")) >= 40


@pytest.mark.slow
@IN_TIERS
@attacks("FORGE")
def test_no_program_forges_an_answer(judged):
    assert judged(secret).status not in ("passed", "sandbox_error")


@pytest.mark.slow
@IN_TIERS
@attacks("REACH")
def test_no_program_reaches_what_is_outside(judged):
    assert judged(one).status not in ("passed", "sandbox_error")


@pytest.mark.thorough
@IN_TIERS
@attacks("EXHAUST")
def test_a_program_that_uses_up_a_resource_is_ended(judged):
    assert judged(secret).status in ("timeout", "memory", "output_limit", "crashed", "exception")


@pytest.mark.thorough
@IN_TIERS
@attacks("COMPILE")
def test_a_program_that_uses_up_the_compiler_is_ended(judged):
    verdict = judged(secret)
    assert verdict.status in ("compile_error", "memory", "crashed", "timeout", "wrong_answer")
    assert len(verdict.traceback) < 20_000
