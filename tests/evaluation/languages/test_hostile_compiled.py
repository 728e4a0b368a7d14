"""The hostile corpora of the compiled languages: nothing in them passes, in any tier.

By default one program of each idea runs in the best tier, in Go and Rust, since Java and C++ take seconds to compile
and start; the thorough run has all programs in both.
"""

import pytest

from evaluation.grading import Grader
from tests.evaluation.languages import hostile_cpp, hostile_go, hostile_java, hostile_rust
from tests.evaluation.languages.conftest import toolchain_or_skip
from tests.evaluation.languages.corpus import SHORT, one, secret
from tests.evaluation.sandboxes import sandbox_or_skip
from tests.thorough import thorough

pytestmark = pytest.mark.slow
CORPORA = {"go": hostile_go, "java": hostile_java, "cpp": hostile_cpp, "rust": hostile_rust}
OF_ONE_LANGUAGE = ("annotation processor", "frames before main", "included file of the host")
QUICK = (
    *("answer frame at once", "exit 0"),
    *("late frame of a goroutine", "late frame of a thread", "searches its memory"),
    *("embedded file", *OF_ONE_LANGUAGE),
    *("file of the host", "write to its folder", "socket", "another program"),
)
"""Attacks that every language has, in its own way."""
ENDED = ("timeout", "memory", "output_limit", "crashed", "exception")


def is_quick(language, name):
    """Whether a program belongs to every run."""
    return name in QUICK and (language in ("go", "rust") or name in OF_ONE_LANGUAGE)


def attacks(kind):
    """Every program of a kind, in every language that has a corpus."""
    programs = [
        (pytest.param if is_quick(language, name) else thorough)(language, program, id=f"{language}-{name}")
        for language, corpus in CORPORA.items()
        for name, program in getattr(corpus, kind).items()
    ]
    return pytest.mark.parametrize(("language", "program"), programs)


@pytest.fixture(params=["bwrap", pytest.param("landlock", marks=pytest.mark.thorough)])
def status(language, request):
    """The status of a program in a tier."""
    toolchain_or_skip(language)
    grader = Grader(sandbox_or_skip(request.param), SHORT)
    return lambda program, task: grader.judge(program, task(language)).status


@attacks("FORGE")
def test_no_program_forges_an_answer(status, program):
    assert status(program, secret) not in ("passed", "sandbox_error")


@attacks("REACH")
def test_no_program_reaches_what_is_outside(status, program):
    assert status(program, one) not in ("passed", "sandbox_error")


@pytest.mark.thorough
@attacks("EXHAUST")
def test_a_program_that_uses_up_a_resource_is_ended(status, program):
    assert status(program, secret) in ENDED


@pytest.mark.thorough
@attacks("COMPILE")
def test_a_program_that_uses_up_the_compiler_is_ended(status, program):
    assert status(program, secret) in (*ENDED, "compile_error", "wrong_answer")
