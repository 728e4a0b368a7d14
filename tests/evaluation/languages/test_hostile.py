"""Programs that attack their verdict, the sandbox or the machine: none passes, none outlives its judgement."""

import hashlib
import re
from pathlib import Path

import pytest

from evaluation.descendants import adopt_orphans
from evaluation.grading import Grader
from evaluation.sandbox import Limits
from evaluation.verdicts import Status
from tests.evaluation.languages import corpus
from tests.evaluation.languages.conftest import toolchain_or_skip
from tests.evaluation.sandboxes import sandbox_or_skip
from tests.integration.waiting import wait_for
from tests.processes import list_own_processes
from tests.thorough import thorough

pytestmark = pytest.mark.slow
CORPUS = Path(__file__).parent / "hostile"
LIMITS = Limits(cpu_s=1, wall_s=1.5)
SLACK_S = 3.0
_HEAD = re.compile(r"^// ===== (\w+)\n", re.MULTILINE)
PLACES = ("/tmp/bassline_js", "/tmp/mark", "/var/tmp/mark", "/dev/shm/mark", "/dev/shm/bassline_js")


def read_programs(file):
    """Programs by name; what stands before the first one precedes each."""
    shared, *parts = _HEAD.split((CORPUS / file).read_text("utf-8"))
    return {name: shared + text for name, text in zip(parts[::2], parts[1::2], strict=True)}


def right(n):
    return int(hashlib.sha256(str(n).encode()).hexdigest()[:12], 16)


def task_of(language):
    cases = [{"args": [str(n)], "result": str(right(n))} for n in (3, 1, 4)]
    return corpus.task_of(language, "f", {"a": "int"}, "int", cases)


FILES = {"javascript": "javascript.js", "typescript": "javascript.js"}
QUICK = re.compile(r"(?!exhaust_(?!sleep|output))")
"""By default without the programs that use up their time: `test_judging` has one of each kind."""
RUNS = [
    pytest.param("bwrap", "javascript", QUICK, id="quick"),
    *(
        thorough(tier, language, re.compile(""), id=f"{tier}-{language}")
        for tier in ("bwrap", "landlock")
        for language in FILES
    ),
]


@pytest.fixture
def orphans_stay():
    """A program whose parent has ended stays a descendant of this process, where `list_own_processes` looks."""
    with adopt_orphans():
        yield


@pytest.mark.parametrize(("only", "language", "names"), RUNS)
def test_no_hostile_program_passes_or_outlives_its_judgement(only, language, names, orphans_stay):
    toolchain, sandbox = toolchain_or_skip(language), sandbox_or_skip(only)
    grader, task, programs = Grader(sandbox, LIMITS), task_of(language), read_programs(FILES[language])
    programs = {name: program for name, program in programs.items() if names.match(name)}
    verdicts, seen = {}, set()
    for position, verdict in grader.judge_many((program, task) for program in programs.values()):
        verdicts[list(programs)[position]] = verdict
        seen.update(list_own_processes(toolchain.tools.run.argv[-1]))
    controls = {name for name in programs if name.startswith("control")}
    assert {name for name, verdict in verdicts.items() if verdict.passed} == controls
    # No program may turn its failure into a fault that is not counted.
    assert [name for name, verdict in verdicts.items() if verdict.status is Status.SANDBOX_ERROR] == []
    most = 4 * LIMITS.wall_s + SLACK_S  # a program that crashes is started four times
    assert [name for name, verdict in verdicts.items() if verdict.wall_s > most] == []
    assert seen  # so that finding none means that none is left
    wait_for(lambda: not list_own_processes(toolchain.tools.run.argv[-1]))
    assert [place for place in PLACES if Path(place).exists()] == []
    assert grader.judge(programs["control_right"], task).passed
    sandbox.close()
