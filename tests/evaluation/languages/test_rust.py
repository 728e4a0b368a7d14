"""Rust: types, prompts, errors of the compiler, and what ends a case."""

import pytest

from evaluation.languages import registry
from evaluation.languages.base import UnsupportedError
from evaluation.languages.types import parse_type
from tests.evaluation.languages.corpus import task_of, twice

LANGUAGE = "rust"
TWICE = twice(LANGUAGE)
RUST = registry.load_language("rust")


def test_types_and_literals_are_written_as_the_language_does():
    kind = parse_type("dict[str, list[tuple[int, optional[float]]]]")
    assert RUST.write_type(kind) == "HashMap<String, Vec<(i64, Option<f64>)>>"
    value = {"a\n\0é": [(-(2**63), None), (2, 0.5)]}
    wanted = 'HashMap::from([("a\\n\\u{0}é".to_string(), vec![(i64::MIN, None), (2, Some(0.5))])])'
    assert RUST.write_literal(value, kind) == wanted
    assert RUST.write_type(parse_type("tuple[int]")) == "(i64,)"


def test_what_the_language_cannot_hold_is_unsupported():
    for value, kind in ((2**63, "int"), ("\ud800", "str")):
        with pytest.raises(UnsupportedError):
            RUST.write_literal(value, parse_type(kind))
    for kind in ("dict[float, int]", f"tuple[{', '.join(['int'] * 13)}]"):
        with pytest.raises(UnsupportedError):
            RUST.write_type(parse_type(kind))


def test_a_prompt_is_a_doc_comment_and_an_opened_function_after_what_it_uses():
    task = task_of("rust", "f", {"a": "list[dict[str, int]]"}, "none", [{"args": [[]], "result": None}])
    prompt = RUST.write_prompt(task.signature, "Twice a.\n\n" + RUST.write_example("f(1)", "2"))
    head = "fn f(a: Vec<HashMap<String, i64>>) {\n"
    assert prompt == f"use std::collections::HashMap;\n\n/// Twice a.\n///\n/// assert_eq!(f(1), 2);\n{head}"


@pytest.mark.slow
def test_a_program_may_have_attributes_uses_and_a_main(judge):
    body = "{ let s: HashSet<i64> = HashSet::new(); 2 * a + s.len() as i64 }"
    program = f"#![allow(dead_code)]\nuse std::collections::HashMap;\nfn f(a: i64) -> i64 {body}\nfn main() {{ f(1); }}"
    assert judge(program, TWICE).status == "passed"


@pytest.mark.slow
def test_what_does_not_compile_says_where(judge):
    verdict = judge("fn f(a: i64) -> i64 {\n    b\n}", TWICE)
    assert (verdict.status, verdict.detail[:32]) == ("compile_error", "answer.rs:2:5: error[E0425]: can")
    assert "f" in judge("fn g(a: i64) -> i64 { a }", TWICE).detail


@pytest.mark.slow
def test_a_panic_costs_its_case_and_says_where(judge):
    task = task_of("rust", "f", {"a": "int"}, "int", [{"args": ["9223372036854775807"], "result": "0"}])
    for body, text in (("a + 1", "attempt to add with overflow"), ("vec![1][a as usize]", "index out of bounds")):
        verdict = judge(f"fn f(a: i64) -> i64 {{ {body} }}", task)
        assert (verdict.status, verdict.detail.startswith("panicked at answer.rs:1: " + text)) == ("exception", True)


@pytest.mark.slow
def test_an_expected_exception_is_any_panic(judge):
    task = task_of("rust", "f", {"a": "int"}, "int", [{"args": ["0"], "raises": "ZeroDivisionError"}])
    assert judge("fn f(a: i64) -> i64 { 1 / a }", task).status == "passed"
    assert judge("fn f(a: i64) -> i64 { std::process::exit(1) }", task).status == "crashed"
