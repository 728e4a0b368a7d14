"""Answers in the compiled languages: where the program is, and what of it stays."""

from dataclasses import replace

import pytest

from evaluation.languages import registry
from evaluation.languages.extraction import extract_by_grammar
from tests.evaluation.languages.corpus import task_of

GO = "func f(xs []int) []int {\n\treturn xs\n}\n"
JAVA = "class Solution {\n    static List<Long> f(List<Long> xs) {\n        return xs;\n    }\n}\n"
STARTS = 'public static void main(String[] args) {\n        System.out.println("x");\n    }\n'
MAIN = f"class Main {{\n    {STARTS}}}\n"
METHOD = "static List<Long> f(List<Long> xs) {\n    return xs;\n}\n"
CPP = (
    "#include <vector>\n\nusing namespace std;\nstruct S { int x; }\n;\nconst int N = 2;\n"
    "template <class T> T g(T a) { return N * a; }\nvector<long long> f(vector<long long> xs) {\n  return g(xs);\n}\n"
)
RUST = (
    "#![allow(unused)]\nuse std::fmt;\n#[derive(Debug)]\nstruct S { x: i64 }\nimpl S {}\nconst N: i64 = 2;\n"
    "fn g(a: i64) -> i64 { N * a }\nfn f(xs: Vec<i64>) -> Vec<i64> {\n    g(xs)\n}\n"
)
# language, mode, answer, how it is extracted, end of the program; HEAD is the last line of the prompt
ANSWERS = {
    "go, stopped at its brace": ("go", "completion", "\treturn xs", "completion", "HEAD\treturn xs\n}\n"),
    "go, with a helper": ("go", "completion", f"\treturn g(xs)\n}}\n\n{GO.replace('f(', 'g(')}", "completion", "}\n"),
    "go, a whole file": (
        "go",
        "chat",
        f'package main\n\nimport "sort"\n\n{GO}```\nDone.',
        "fenced",
        f'import "sort"\n{GO}',
    ),
    "go, a body": ("go", "chat", "\treturn xs\n```", "fenced", "HEAD\treturn xs\n\n}\n"),
    "java, stopped at its brace": (
        *("java", "completion", "        return xs;", "completion"),
        "HEAD        return xs;\n    }\n}\n",
    ),
    "java, closed": ("java", "completion", "        return xs;\n    }\n}\n", "completion", "return xs;\n    }\n}\n"),
    "java, a whole file": ("java", "chat", f"import java.util.*;\n\n{JAVA}\n{MAIN}```\nDone.", "fenced", JAVA),
    "java, a main beside it": (
        *("java", "chat", JAVA.replace("\n}\n", f"\n    {STARTS}    static void g() {{}}\n}}\n"), "open_fence"),
        "return xs;\n    }\n\n    static void g() {}\n}\n",
    ),
    "go, a main": ("go", "chat", f"package main\n\n{GO}\nfunc main() {{\n\tf(nil)\n}}\n", "open_fence", GO),
    "java, a method": ("java", "chat", f"{METHOD}```", "fenced", METHOD),
    "c++, stopped at its brace": ("cpp", "completion", "  return g(xs);", "completion", "HEAD  return g(xs);\n}\n"),
    "c++, a demonstration": ("cpp", "chat", f"{CPP}assert(f(x) == x);\n```\nIt doubles.", "fenced", CPP),
    "c++, fenced with prose": ("cpp", "completion", f"Here:\n```cpp\n{CPP}```\n", "fenced", CPP),
    "rust, stopped at its brace": ("rust", "completion", "    g(xs)", "completion", "HEAD    g(xs)\n}\n"),
    "rust, a demonstration": ("rust", "chat", f"{RUST}assert_eq!(f(x), x);\n```\nIt doubles.", "fenced", RUST),
    "rust, fenced with prose": ("rust", "completion", f"Here:\n```rust\n{RUST}```\n", "completion", RUST),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_program_in_an_answer(name):
    language, mode, raw, how, expected = ANSWERS[name]
    task = task_of(language, "f", {"xs": "list[int]"}, "list[int]", [{"args": [[]], "result": []}])
    task = replace(task, prompt=registry.load_language(language).write_prompt(task.signature, "Sorts."))
    head = task.prompt.splitlines(keepends=True)[-1]
    found = extract_by_grammar(task, raw, mode)
    assert (found.location, found.program[-len(expected.replace("HEAD", head)) :]) == (
        how,
        expected.replace("HEAD", head),
    )
