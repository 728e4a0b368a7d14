"""Values of every type in the compiled languages, and oracles made from cases."""

import pytest

from evaluation.grading import Grader
from evaluation.languages import judging, registry
from evaluation.sandbox import Sandbox
from tests.evaluation.languages.conftest import toolchain_or_skip
from tests.evaluation.languages.corpus import LIMITS, task_of
from tests.thorough import thorough

pytestmark = pytest.mark.slow
EVERY = {
    **{"a": "dict[str, list[int]]", "b": "optional[float]", "c": "tuple[bool, str]", "d": "list[list[float]]"},
    **{"e": "list[optional[str]]", "g": "optional[list[tuple[int]]]", "h": "dict[int, bool]", "i": "list[bool]"},
    **{"j": "tuple[int, int]", "l": "int", "m": "str"},
}
ARGS = [
    [[["x\n\u00e9", ["1", "-2"]], ["", []]], "nan", [True, '\U0001f600\\"'], [["inf", "-inf"], [], ["-0", 1e300, 0.1]],
     ["a", None], [["3"]], [["3", False], ["-4", True]], [True, False], ["5", "6"], "9223372036854775807",
     "\u2028\0\x1f\b/"],
    [[], None, [False, ""], [], [], None, [], [], ["0", "0"], "-9223372036854775808", ""],
]  # fmt: skip
WHOLE = f"tuple[{', '.join(EVERY.values())}]"
RETURNED = {
    "cpp": "  return {{{}}};\n}}\n",
    "go": "\treturn {}\n}}\n",
    "java": "        return Arrays.asList({});\n    }}\n}}\n",
    "rust": "    ({})\n}}\n",
}
HAS_NONE = ("cpp", "rust")
"""Languages whose parameters can be `none`."""


@pytest.fixture(params=RETURNED)
def language(request):
    toolchain_or_skip(request.param)
    return registry.load_language(request.param)


def test_values_of_every_type_cross_both_ways(language):
    every, rows, whole = dict(EVERY), ARGS, WHOLE
    if language.name in HAS_NONE:
        every, rows, whole = {**EVERY, "k": "none"}, [[*args, None] for args in ARGS], f"{WHOLE[:-1]}, none]"
    task = task_of(language.name, "f", every, whole, [{"args": row, "result": row, "tolerance": 0} for row in rows])
    head = language.write_prompt(task.signature, "Returns its arguments.")
    program = head + RETURNED[language.name].format(", ".join(every))
    verdict = Grader(Sandbox.detect(), LIMITS).judge(program, task)
    assert (verdict.status, verdict.detail) == ("passed", "")


FEW = {name: EVERY[name] for name in ("b", "c")}
TWO = [args[1:3] for args in ARGS]
ORACLES = [
    # returns, parameters, cases, what the wrong oracle answers at the last one
    pytest.param(
        *(WHOLE, EVERY, [{"args": args, "result": args} for args in ARGS], {"result": [*ARGS[1][:-1], "x"]}),
        marks=pytest.mark.thorough,
        id="every",
    ),
    pytest.param(
        *("optional[float]", FEW),
        [
            {"args": TWO[0], "result": "nan"},
            {"args": TWO[1], "result": None},
            {"args": [1.5, TWO[1][1]], "raises": "E"},
        ],
        {"result": 1.5},
        id="raises",
    ),
    pytest.param(
        *("optional[tuple[int, int]]", FEW),
        [{"args": TWO[0], "result": ["1", "2"]}, {"args": TWO[1], "result": None}],
        {"result": ["1", "3"]},
        id="perhaps a tuple",
    ),
    thorough("none", FEW, [{"args": args, "result": None} for args in TWO], {"raises": "ValueError"}, id="none"),
]


@pytest.mark.parametrize(("returns", "parameters", "cases", "other"), ORACLES)
def test_an_oracle_passes_and_one_that_is_wrong_fails_at_its_case_alone(language, returns, parameters, cases, other):
    task = task_of(language.name, "f", parameters, returns, cases)
    wrong = task_of(language.name, "f", parameters, returns, [*cases[:-1], {"args": cases[-1]["args"], **other}])
    for asked, statuses in ((task, {"passed"}), (wrong, {"wrong_answer", "exception"})):
        program = language.write_oracle(asked.signature, asked.cases)
        judged = judging.run_cases(Sandbox.detect(), language, program, task.signature, task.cases, LIMITS)
        assert judged.failure is None
        *others, last = [outcome.status for outcome in judged.outcomes]
        assert set(others) == {"passed"}
        assert last in statuses
