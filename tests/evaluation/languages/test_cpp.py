"""C++: types, prompts, errors of the compiler, and what ends a case."""

import pytest

from evaluation.languages import registry
from evaluation.languages.base import UnsupportedError
from evaluation.languages.types import Type, parse_type
from tests.evaluation.languages.corpus import task_of, twice

LANGUAGE = "cpp"
TWICE = twice(LANGUAGE)
CPP = registry.load_language("cpp")


def test_types_and_literals_are_written_as_the_language_does():
    kind = parse_type("dict[str, list[tuple[int, optional[float]]]]")
    assert CPP.write_type(kind) == "std::map<std::string, std::vector<std::tuple<long long, std::optional<double>>>>"
    value = {"a\n\0é": [(-(2**63), None)]}
    assert CPP.write_literal(value, kind).endswith(
        '{{std::string("a\\n\\000é", 5), {{(-9223372036854775807LL - 1), std::nullopt}}}}'
    )


def test_what_the_language_cannot_hold_is_unsupported():
    for value, kind in ((2**63, "int"), ("\ud800", "str")):
        with pytest.raises(UnsupportedError):
            CPP.write_literal(value, Type(kind))


def test_a_prompt_is_a_comment_that_cannot_end_early_and_an_opened_function():
    prompt = CPP.write_prompt(TWICE.signature, "Twice */ a.\n" + CPP.write_example("f(1)", "2"))
    assert prompt == "#include <bits/stdc++.h>\n\n/**\n * Twice * / a.\n * f(1) // 2\n */\nlong long f(long long a) {\n"


@pytest.mark.slow
def test_a_program_may_have_its_own_includes_and_a_main(judge):
    program = "#include <vector>\nusing namespace std;\nint f(int a) { return vector<int>{a}[0] * 2; }\nint main() {}"
    assert judge(program, TWICE).status == "passed"


@pytest.mark.slow
def test_what_does_not_compile_says_where(judge):
    verdict = judge("long long f(long long a) {\n  return b;\n}", TWICE)
    assert (verdict.status, verdict.detail[:26]) == ("compile_error", "answer.cpp:2:10: error: 'b")
    assert "'::f' has not been declared" in judge("long long g() { return 1; }", TWICE).detail


@pytest.mark.slow
def test_an_exception_an_index_out_of_range_and_overflow_give_the_same_verdict_every_time(judge):
    task = task_of("cpp", "f", {"a": "int"}, "int", [{"args": ["9223372036854775807"], "result": "0"}])
    verdict = judge('long long f(long long a) { throw std::invalid_argument("no"); }', task)
    assert (verdict.status, verdict.detail[:25]) == ("exception", "std::invalid_argument: no")
    verdict = judge("long long f(long long a) { std::vector<int> x(3); return x[a > 3 ? 3 : a]; }", task)
    assert (verdict.status, "SIGABRT" in verdict.detail) == ("crashed", True)
    assert judge("long long f(long long a) { return a + 1; }", task).got == '"-9223372036854775808"'


@pytest.mark.slow
def test_a_string_that_is_not_text_is_a_wrong_answer(judge):
    task = task_of("cpp", "f", {"s": "str"}, "str", [{"args": ["é"], "result": "é"}])
    verdict = judge("std::string f(std::string s) { return s.substr(0, 1); }", task)
    assert (verdict.status, "not UTF-8" in verdict.detail) == ("wrong_answer", True)
