"""The second round of attacks: forged verdicts (a) and right programs of every kind (b) get what they deserve."""

import pytest

from evaluation.grading import Grader
from evaluation.sandbox import Sandbox, SandboxUnavailableError
from tests.evaluation.red_corpus import LIMITS, entries
from tests.thorough import tiers

ENTRIES = entries()


@pytest.fixture(scope="module", params=tiers())
def grader(request):
    try:
        return Grader(Sandbox.detect(only=request.param), LIMITS)
    except SandboxUnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry.name for entry in ENTRIES])
def test_every_program_gets_its_verdict_and_says_how_far_to_trust_it(grader, entry):
    verdict = grader.judge(entry.program, entry.task)
    assert entry.is_right(verdict), verdict


def test_no_forgery_passes_under_a_proxy():
    passing = {entry.name for entry in ENTRIES if entry.name[0] == "a" and "passed" in entry.expected}
    assert {entry.name for entry in ENTRIES if entry.name in passing and entry.trust == "proxy"} == {"a19_bool_as_int"}
