"""Programs in Go: imports, errors of the compiler, panics, and texts."""

import pytest

from tests.evaluation.languages.corpus import task_of, twice

pytestmark = pytest.mark.slow
LANGUAGE = "go"
TWICE = twice(LANGUAGE)


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


def test_a_string_that_is_not_text_is_a_wrong_answer(judge):
    task = task_of("go", "f", {"s": "str"}, "str", [{"args": ["é"], "result": "é"}])
    verdict = judge("func f(s string) string { return s[:1] }", task)
    assert (verdict.status, "not valid UTF-8" in verdict.detail) == ("wrong_answer", True)
    assert judge("func f(s string) string { return string([]rune(s)[:1]) }", task).status == "passed"
