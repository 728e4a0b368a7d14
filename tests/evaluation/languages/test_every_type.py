"""Values of every type, and oracles, in C++ and Rust."""

import pytest

from evaluation.grading import Grader
from evaluation.languages import judging, registry
from evaluation.sandbox import Sandbox
from tests.evaluation.languages.conftest import toolchain_or_skip
from tests.evaluation.languages.corpus import LIMITS, task_of

pytestmark = pytest.mark.slow
EVERY = {
    **{"a": "dict[str, list[int]]", "b": "optional[float]", "c": "tuple[bool, str]", "d": "list[list[float]]"},
    **{"e": "list[optional[str]]", "g": "optional[list[tuple[int]]]", "h": "dict[int, bool]", "i": "list[bool]"},
    **{"k": "none", "l": "int", "m": "str"},
}
ARGS = [
    [[["x\né", ["1", "-2"]], ["", []]], "nan", [True, '\U0001f600\\"'], [["inf", "-inf"], [], ["-0", 1e300, 0.1]],
     ["a", None], [["3"]], [["3", False], ["-4", True]], [True, False], None, "9223372036854775807", "\0\x1f\b/"],
    [[], None, [False, ""], [], [], None, [], [], None, "-9223372036854775808", ""],
]  # fmt: skip
WHOLE = f"tuple[{', '.join(EVERY.values())}]"
RETURNED = {"cpp": "  return {{{}}};", "rust": "    ({})"}
LANGUAGES = pytest.mark.parametrize("language", RETURNED)


@LANGUAGES
def test_values_of_every_type_cross_both_ways(language):
    toolchain_or_skip(language)
    task = task_of(language, "f", EVERY, WHOLE, [{"args": args, "result": args, "tolerance": 0} for args in ARGS])
    head = registry.language(language).prompt.prompt(task.signature, "Returns its arguments.")
    verdict = Grader(Sandbox.detect(), LIMITS).judge(f"{head}{RETURNED[language].format(', '.join(EVERY))}\n}}\n", task)
    assert (verdict.status, verdict.detail) == ("passed", "")


ORACLES = [
    (WHOLE, [{"args": args, "result": args} for args in ARGS], {"result": [*ARGS[1][:-1], "x"]}),
    ("optional[float]", [{"args": args, "result": args[1]} for args in ARGS], {"result": 1.5}),
    ("int", [{"args": ARGS[0], "raises": "ValueError"}, {"args": ARGS[1], "result": "4"}], {"result": "5"}),
    ("none", [{"args": args, "result": None} for args in ARGS], {"raises": "ValueError"}),
]


@LANGUAGES
@pytest.mark.parametrize(("returns", "cases", "other"), ORACLES, ids=["every", "optional", "raises", "none"])
def test_an_oracle_passes_and_one_that_is_wrong_fails_at_its_case_alone(language, returns, cases, other):
    toolchain, provided = toolchain_or_skip(language), registry.language(language)
    task = task_of(language, "f", EVERY, returns, cases)
    wrong = task_of(language, "f", EVERY, returns, [cases[0], {"args": ARGS[1], **other}])
    for asked, statuses in ((task, {"passed"}), (wrong, {"wrong_answer", "exception"})):
        program = provided.prompt.oracle(asked.signature, asked.cases)
        judged = judging.run_cases(Sandbox.detect(), provided, toolchain, program, task.signature, task.cases, LIMITS)
        assert judged.failure is None
        assert judged.outcomes[0].status == "passed"
        assert judged.outcomes[1].status in statuses
