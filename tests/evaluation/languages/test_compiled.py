"""Values of every type in the compiled languages, and oracles made from cases."""

import pytest

from evaluation.grading import Grader
from evaluation.languages import judging, registry
from evaluation.sandbox import Sandbox
from tests.evaluation.languages.conftest import toolchain_or_skip
from tests.evaluation.languages.corpus import LIMITS, task_of
from tests.evaluation.languages.test_compiled_traps import ENDS

pytestmark = pytest.mark.slow
EVERY = {
    **{"a": "dict[str, list[int]]", "b": "optional[float]", "c": "tuple[bool, str]", "d": "tuple[int, int]"},
    **{"e": "list[optional[str]]", "g": "optional[list[float]]", "h": "dict[int, bool]", "i": "str"},
}
ARGS = [
    [[["x\n\u00e9", ["1", "-2"]], ["", []]], "nan", [True, "\U0001f600\\\""],
     ["9223372036854775807", "-9223372036854775808"], ["a", None], ["inf", "-0", 1e300], [["3", False]],
     "\u2028\u0000"],
    [[], None, [False, ""], ["0", "0"], [], None, [], ""],
]  # fmt: skip
RETURNED = {"go": {"c": "return c.V0, c.V1", "d": "return d[0], d[1]"}}


@pytest.fixture(params=ENDS)
def language(request):
    toolchain_or_skip(request.param)
    return registry.language(request.param)


@pytest.mark.parametrize("position", range(len(EVERY)), ids=EVERY)
def test_values_of_every_type_cross_both_ways(language, position):
    name, kind = list(EVERY.items())[position]
    cases = [{"args": args, "result": args[position], "tolerance": 0} for args in ARGS]
    task = task_of(language.name, "f", EVERY, kind, cases)
    head = language.prompt.prompt(task.signature, "Returns an argument.")
    body = RETURNED.get(language.name, {}).get(name, f"return {name};")
    verdict = Grader(Sandbox.detect(), LIMITS).judge(head + body + ENDS[language.name], task)
    assert (verdict.status, verdict.detail) == ("passed", "")


ORACLES = [
    ("optional[float]", [{"args": args, "result": args[1]} for args in ARGS]),
    ("tuple[int, list[str]]", [{"args": args, "result": [str(n), ["x"] * n]} for n, args in enumerate(ARGS)]),
    ("int", [{"args": ARGS[0], "raises": "ValueError"}, {"args": ARGS[1], "result": "4"}]),
]
OTHER = {type(None): 1.5, list: ["7", []], str: "5"}


@pytest.mark.parametrize(("returns", "cases"), ORACLES)
def test_an_oracle_passes_and_one_that_is_wrong_fails_at_its_case_alone(language, returns, cases):
    other = cases[1] | {"result": OTHER[type(cases[1]["result"])]}
    task, wrong = (task_of(language.name, "f", EVERY, returns, rows) for rows in (cases, [cases[0], other]))
    for asked, expected in ((task, ["passed", "passed"]), (wrong, ["passed", "wrong_answer"])):
        judged = judging.run_cases(
            Sandbox.detect(),
            language,
            language.toolchain.find(),
            language.prompt.oracle(asked.signature, asked.cases),
            task.signature,
            task.cases,
            LIMITS,
        )
        assert [each.status for each in judged.outcomes] == expected, judged.failure
