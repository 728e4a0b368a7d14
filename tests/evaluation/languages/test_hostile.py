"""Programs that attack their verdict, the sandbox or the machine: none passes, none outlives its judgement."""

import hashlib
import re
from pathlib import Path

import pytest

from evaluation.datasets import Task
from evaluation.grading import Grader
from evaluation.languages.cases import Case, Parameter, Signature
from evaluation.languages.types import Type
from evaluation.sandbox import Limits
from evaluation.verdicts import Status
from tests.evaluation.languages.conftest import sandbox_or_skip, toolchain_or_skip

pytestmark = pytest.mark.slow
CORPUS = Path(__file__).parent / "hostile"
LIMITS = Limits(cpu_s=1, wall_s=1.5)
SLACK_S = 3.0
_HEAD = re.compile(r"^// ===== (\w+)\n", re.MULTILINE)
INT = Type("int")
PLACES = ("/tmp/bassline_js", "/tmp/mark", "/var/tmp/mark", "/dev/shm/mark", "/dev/shm/bassline_js")


def corpus(file):
    """Programs by name; what stands before the first one precedes each."""
    shared, *parts = _HEAD.split((CORPUS / file).read_text("utf-8"))
    return {name: shared + text for name, text in zip(parts[::2], parts[1::2], strict=True)}


def right(n):
    return int(hashlib.sha256(str(n).encode()).hexdigest()[:12], 16)


def task_of(language):
    cases = tuple(Case((str(n),), str(right(n))) for n in (3, 1, 4))
    signature = Signature("f", (Parameter("a", INT),), INT)
    return Task("hostile/0", "", "f", "", "", language=language, signature=signature, cases=cases)


def own_processes(mark):
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark in entry.read_bytes():
                found.append(entry.parent.name)
        except OSError:
            continue
    return found


FILES = {"javascript": "javascript.js", "typescript": "javascript.js"}
QUICK = ("bwrap", "javascript")
RUNS = [
    pytest.param(tier, language, marks=() if (tier, language) == QUICK else pytest.mark.thorough)
    for tier in ("bwrap", "landlock")
    for language in FILES
]


@pytest.mark.parametrize(("only", "language"), RUNS)
def test_no_hostile_program_passes_or_outlives_its_judgement(only, language):
    toolchain, sandbox = toolchain_or_skip(language), sandbox_or_skip(only)
    grader, task, programs = Grader(sandbox, LIMITS), task_of(language), corpus(FILES[language])
    verdicts = {list(programs)[i]: verdict for i, verdict in grader.judge_many((p, task) for p in programs.values())}
    controls = {name for name in programs if name.startswith("control")}
    assert {name for name, verdict in verdicts.items() if verdict.passed} == controls
    # No program may turn its failure into a fault that is not counted.
    assert [name for name, verdict in verdicts.items() if verdict.status is Status.SANDBOX_ERROR] == []
    most = 4 * LIMITS.wall_s + SLACK_S  # a program that crashes is started four times
    assert [name for name, verdict in verdicts.items() if verdict.wall_s > most] == []
    assert own_processes(toolchain.tools.run.argv[-1].encode() + b"\0") == []
    assert [place for place in PLACES if Path(place).exists()] == []
    assert grader.judge(programs["control_right"], task).passed
    sandbox.close()
