"""How answers in C++ and Rust are read: in fences, as a continuation, with demonstrations and with what they define."""

import pytest

from evaluation.languages import registry
from evaluation.languages.extraction import extract_by_grammar
from tests.evaluation.languages.corpus import task_of

BODIES = {
    "cpp": "long long f(long long a) {\n  return g(a);\n}\n",
    "rust": "fn f(a: i64) -> i64 {\n    g(a)\n}\n",
}
HELPERS = {
    "cpp": "#include <vector>\nusing namespace std;\nstruct S { int x; };\nconst int N = 2;\n"
    "template <class T> T g(T a) { return N * a; }\n",
    "rust": "#![allow(unused)]\nuse std::fmt;\n#[derive(Debug)]\nstruct S { x: i64 }\nimpl S {}\nconst N: i64 = 2;\n"
    "fn g(a: i64) -> i64 { N * a }\n",
}
DEMONSTRATIONS = {"cpp": "assert(f(1) == 2);\n", "rust": "assert_eq!(f(1), 2);\n"}
LANGUAGES = pytest.mark.parametrize("language", BODIES)


def read(language, raw, mode):
    task = task_of(language, "f", {"a": "int"}, "int", [{"args": ["1"], "result": "2"}])
    object.__setattr__(task, "prompt", registry.language(language).prompt.prompt(task.signature, "Doubles."))
    return extract_by_grammar(task, raw, mode).program


def packed(text):
    return "".join(text.split())


@LANGUAGES
def test_a_whole_answer_keeps_its_definitions_and_loses_its_demonstration(language):
    program = HELPERS[language] + BODIES[language]
    answer = program + DEMONSTRATIONS[language]
    assert packed(read(language, f"{answer}```\nIt doubles.", "chat")) == packed(program)
    assert packed(read(language, f"Here:\n```{language}\n{answer}```\n", "completion")).endswith(packed(program))


@LANGUAGES
def test_a_continuation_cut_at_its_stop_gets_its_brace(language):
    program = read(language, BODIES[language].split("\n")[1], "completion")
    assert packed(program).endswith(packed(BODIES[language]))
