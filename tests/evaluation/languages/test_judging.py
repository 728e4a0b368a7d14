"""Programs in JavaScript and TypeScript, judged by cases: which case fails for what, and what a program cannot do."""

import pytest

from evaluation.grading import Grader
from evaluation.languages import judging, registry
from tests.evaluation.languages.conftest import toolchain_or_skip
from tests.evaluation.languages.corpus import LIMITS, SHORT, task_of, twice

TWICE = twice("javascript", 4)
ONCE = task_of("javascript", "f", {"a": "int"}, "int", [{"args": ["1"], "result": "2"}])


def outcomes(sandbox, program, task=TWICE, limits=LIMITS):
    toolchain_or_skip(task.language)
    language = registry.load_language(task.language)
    judged = judging.run_cases(sandbox, language, program, task.signature, task.cases, limits)
    return judged.failure or [outcome.status for outcome in judged.outcomes]


def test_every_case_is_judged_and_one_that_crashes_costs_itself_alone(sandbox):
    program = "function f(a) { if (a === 1) process.exit(0); if (a === 2) throw Error('no'); return 2 * a; }"
    assert outcomes(sandbox, program) == ["passed", "crashed", "exception", "passed"]


def test_a_program_that_crashes_at_every_case_is_started_four_times(sandbox):
    assert outcomes(sandbox, "function f(a) { process.kill(process.pid, 'SIGKILL'); }") == ["crashed"] * 4


FRAMES = {
    "extra": 'require(\'fs\').writeSync(4, \'{"id":0,"result":"0"}\\n\'); return 2 * a;',
    "malformed": "require('fs').writeSync(4, 'x\\n'); return 2 * a;",
    "of another case": 'require(\'fs\').writeSync(4, \'{"id":3,"result":"6"}\\n\'); return 2 * a;',
    "without an end": "for (;;) require('fs').writeSync(4, 'x'.repeat(4096));",
}


@pytest.mark.parametrize("body", FRAMES.values(), ids=FRAMES)
def test_a_frame_that_nobody_asked_for_fails_the_case_it_belongs_to(grader, body):
    program = f"function f(a) {{ if (a === 1) {{ {body} }} return 2 * a; }}"
    assert outcomes(grader._sandbox, program) == ["passed", "forged", "passed", "passed"]


def test_frames_sent_while_the_program_loads_are_not_answers(grader):
    program = 'for (let i = 0; i < 4; i++) require(\'fs\').writeSync(4, `{"id":${i},"result":"${2 * i}"}\\n`);'
    assert outcomes(grader._sandbox, program).status == "forged"


def test_printing_is_not_answering(grader):
    program = 'function f(a) { console.log(\'{"id":0,"result":"0"}\'); return 2 * a; }'
    assert outcomes(grader._sandbox, program) == ["passed"] * 4


def test_a_program_that_prints_much_is_judged_by_its_answers(sandbox):
    program = "function f(a) { console.log('x'.repeat(70000)); console.error('x'.repeat(70000)); return 2 * a; }"
    assert outcomes(sandbox, program) == ["passed"] * 4


def test_time_memory_and_output_are_limited(sandbox):
    assert outcomes(sandbox, "function f(a) { for (;;); }", ONCE, SHORT) == ["timeout"]
    eager = "function f(a) { const x = []; for (;;) x.push(Buffer.alloc(2**22, 1)); }"
    assert outcomes(sandbox, eager, ONCE) == ["memory"]
    # Node keeps what the pipe does not take at once.
    flood = outcomes(sandbox, "function f(a) { for (;;) console.log('x'.repeat(999)); }", ONCE)
    assert flood[0] in ("output_limit", "memory")


def test_the_verdict_says_which_call_failed_and_what_came_back(grader):
    toolchain_or_skip("javascript")
    verdict = grader.judge("const f = (a) => (a === 3 ? 7 : 2 * a);", TWICE)
    assert verdict.status == "wrong_answer"
    assert (verdict.failing_assert, verdict.got, verdict.expected) == ('f("3")', '"7"', '"6"')
    assert "1 of 4 cases" in verdict.detail


def test_what_is_not_javascript_is_a_syntax_error_and_what_raises_while_loading_an_exception(grader):
    toolchain_or_skip("javascript")
    assert grader.judge("function f(a) {", TWICE).status == "syntax_error"
    assert grader.judge("throw new Error('at once')", TWICE).status == "exception"
    assert grader.judge("const g = 1;", TWICE).status == "exception"
    assert grader.judge("  \n", TWICE).status == "empty"


EVERY = task_of(
    "javascript",
    "f",
    {"a": "dict[str, list[int]]", "b": "optional[float]", "c": "tuple[bool, str]"},
    "dict[int, optional[float]]",
    [
        {"args": [[["x", ["1", "2"]]], "nan", [True, "é"]], "result": [["1", "nan"], ["2", None]]},
        {"args": [[["__proto__", []]], None, [False, ""]], "result": []},
    ],
)


def test_values_of_every_type_cross_both_ways(grader):
    program = (
        "function f(a, b, c) { const out = new Map(); for (const k of Object.keys(a)) "
        "a[k].forEach((n, i) => out.set(n, i ? null : b)); return out; }"
    )
    toolchain_or_skip("javascript")
    assert grader.judge(program, EVERY).status == "passed"
    assert grader.judge(program.replace("return out", "return Object.fromEntries(out)"), EVERY).status == "passed"


def test_an_expected_exception_is_any_exception(grader):
    toolchain_or_skip("javascript")
    task = task_of("javascript", "f", {"a": "int"}, "int", [{"args": ["0"], "raises": "ValueError"}])
    assert grader.judge("function f(a) { throw new RangeError('no'); }", task).status == "passed"
    assert grader.judge("function f(a) { return 0; }", task).status == "wrong_answer"


def test_typescript_runs_without_its_types(grader):
    toolchain_or_skip("typescript")
    task = task_of("typescript", "f", {"a": "int"}, "int", [{"args": ["2"], "result": "4"}])
    program = "enum Factor { Two = 2 }\nconst f = <T extends number>(a: T): string => (a * Factor.Two) as any;"
    assert grader.judge(program, task).status == "passed"
    assert grader.judge("const f = (a: number => a", task).status == "syntax_error"


def test_a_program_that_cannot_be_started_is_a_fault_of_the_sandbox(grader, monkeypatch):
    toolchain_or_skip("typescript")  # it would keep the broken one if it were first loaded below
    toolchain = toolchain_or_skip("javascript")
    broken = toolchain.tools.run.__class__(("/no/such/node", "driver.cjs"))
    missing = toolchain.__class__("none", toolchain.tools.__class__(broken))
    monkeypatch.setattr(registry.load_language("javascript").toolchain, "find", lambda: missing)
    verdict = Grader(grader._sandbox, LIMITS).judge("function f(a) { return 2 * a; }", TWICE)
    assert verdict.status == "sandbox_error"
    assert "cannot be started" in verdict.detail
