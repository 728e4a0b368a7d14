"""Programs in Go: values of every type, imports, errors of the compiler, and hostile programs."""

import pytest

from evaluation.grading import Grader
from evaluation.languages import judging, registry
from evaluation.sandbox import Sandbox
from tests.evaluation.languages import hostile_go
from tests.evaluation.languages.conftest import toolchain_or_skip
from tests.evaluation.languages.corpus import LIMITS, one, secret, task_of

pytestmark = pytest.mark.slow
CASES = [{"args": [str(n)], "result": str(2 * n)} for n in range(3)]
TWICE = task_of("go", "f", {"a": "int"}, "int", CASES)


@pytest.fixture(scope="module")
def go():
    return toolchain_or_skip("go")


@pytest.fixture
def judge(go):
    """The verdict of a program in the best tier."""
    return Grader(Sandbox.detect(), LIMITS).judge


def test_a_program_is_judged_with_and_without_package_and_main(judge):
    body = "func f(a int) int { return 2 * a }\n"
    assert judge(body, TWICE).status == "passed"
    assert judge(f"package main\n\n{body}\nfunc main() {{}}\n", TWICE).status == "passed"


def test_imports_are_corrected_as_an_editor_does(judge):
    program = 'package main\nimport (\n"os"\n"fmt"\n)\nfunc f(a int) int { return len(strings.Repeat("x", 2*a)) + %s }'
    assert judge(program % 'len(fmt.Sprint(""))', TWICE).status == "passed"
    # A variable hides the package of its name.
    assert (
        judge("type t struct{ n int }\nfunc f(a int) int { sort := t{2 * a}; return sort.n }", TWICE).status == "passed"
    )


def test_what_does_not_compile_says_where(judge):
    verdict = judge("func f(a int) int {\n\treturn b\n}", TWICE)
    assert (verdict.status, verdict.detail) == ("compile_error", "answer.go:2:9: undefined: b")
    assert judge("func g() {}", TWICE).detail.startswith("signature:")


def test_a_panic_costs_its_case_and_names_its_line(judge):
    verdict = judge("func f(a int) int {\n\tx := []int{0, 2}\n\treturn x[a]\n}", TWICE)
    assert verdict.status == "exception"
    assert verdict.detail.startswith("panic: runtime error: index out of range [2]")
    assert verdict.traceback == "answer.go:3 in f"


EVERY = {
    **{"a": "dict[str, list[int]]", "b": "optional[float]", "c": "tuple[bool, str]", "d": "tuple[int, int]"},
    **{"e": "list[optional[str]]", "g": "optional[list[float]]", "h": "dict[int, bool]"},
}
ARGS = [
    [[["x\n\u00e9", ["1", "-2"]], ["", []]], "nan", [True, "\U0001f600\\\""],
     ["9223372036854775807", "-9223372036854775808"], ["a", None], ["inf", "-0", 1e300], [["3", False]]],
    [[], None, [False, ""], ["0", "0"], [], None, []],
]  # fmt: skip


@pytest.mark.parametrize("position", range(len(EVERY)), ids=EVERY)
def test_values_of_every_type_cross_both_ways(judge, position):
    name, kind = list(EVERY.items())[position]
    cases = [{"args": args, "result": args[position], "tolerance": 0} for args in ARGS]
    task = task_of("go", "f", EVERY, kind, cases)
    head = registry.language("go").prompt.prompt(task.signature, "Returns an argument.")
    returned = {"c": "c.V0, c.V1", "d": "d[0], d[1]"}.get(name, name)
    assert judge(f"{head}\treturn {returned}\n}}\n", task).status == "passed"


def test_a_string_that_is_not_text_is_a_wrong_answer(judge):
    task = task_of("go", "f", {"s": "str"}, "str", [{"args": ["é"], "result": "é"}])
    verdict = judge("func f(s string) string { return s[:1] }", task)
    assert (verdict.status, "not valid UTF-8" in verdict.detail) == ("wrong_answer", True)
    assert judge("func f(s string) string { return string([]rune(s)[:1]) }", task).status == "passed"


ORACLES = [
    ("optional[float]", [{"args": args, "result": args[1]} for args in ARGS]),
    ("tuple[int, list[str]]", [{"args": args, "result": [str(n), ["x"] * n]} for n, args in enumerate(ARGS)]),
    ("int", [{"args": ARGS[0], "raises": "ValueError"}, {"args": ARGS[1], "result": "4"}]),
]


@pytest.mark.parametrize(("returns", "cases"), ORACLES)
def test_an_oracle_passes_and_one_that_is_wrong_fails_at_its_case_alone(go, returns, cases):
    task, wrong = (
        task_of("go", "f", EVERY, returns, rows) for rows in (cases, [cases[0], cases[1] | _other(cases[1])])
    )
    language = registry.language("go")
    for asked, expected in ((task, ["passed", "passed"]), (wrong, ["passed", "wrong_answer"])):
        program = language.prompt.oracle(asked.signature, asked.cases)
        judged = judging.run_cases(Sandbox.detect(), language, go, program, task.signature, task.cases, LIMITS)
        assert [each.status for each in judged.outcomes] == expected


def _other(case):
    return {"result": {type(None): 1.5, list: ["7", []], str: "5"}[type(case["result"])]}


def attacks(programs):
    return pytest.mark.parametrize("program", programs.values(), ids=programs)


@pytest.fixture(params=["bwrap", pytest.param("landlock", marks=pytest.mark.thorough)])
def attacked(tier_named, go, request):
    """The verdict of a hostile program in a tier."""
    return Grader(tier_named(request.param), LIMITS).judge


@attacks(hostile_go.FORGE)
def test_no_program_forges_an_answer(attacked, program):
    assert attacked(program, secret("go")).status not in ("passed", "sandbox_error")


@attacks(hostile_go.REACH)
def test_no_program_reaches_what_is_outside(attacked, program):
    assert attacked(program, one("go")).status not in ("passed", "sandbox_error")


@attacks(hostile_go.EXHAUST)
def test_a_program_that_uses_up_a_resource_is_ended(attacked, program):
    assert attacked(program, secret("go")).status in ("timeout", "memory", "output_limit", "crashed", "exception")


@pytest.mark.thorough
@attacks(hostile_go.COMPILE)
def test_a_program_that_uses_up_the_compiler_is_ended(attacked, program):
    assert attacked(program, secret("go")).status in ("compile_error", "memory", "crashed", "timeout", "wrong_answer")
