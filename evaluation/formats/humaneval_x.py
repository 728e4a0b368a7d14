"""HumanEval-X (Zheng et al., arXiv 2303.17568): task_id, prompt, canonical_solution, test, declaration, example_test.

The language is the beginning of the task id. JavaScript's `console.assert` does not end a program and Go's library
testify is not there: the tests get their own. Imports of Rust's crates, which are not there either, are removed.
"""

from __future__ import annotations

import re

from evaluation.datasets import Task
from evaluation.formats import exit_code_tasks
from evaluation.formats.base import Record, RecordError, get_text

LANGUAGES = {"CPP": "cpp", "Go": "go", "Java": "java", "JavaScript": "javascript", "Rust": "rust"}
"""Its names of languages."""
_ASSERT_IN_JAVASCRIPT = 'console.assert = require("node:assert").ok;\n'
_ASSERT_IN_GO = """
type testify struct{ t *testing.T }

func (each testify) Equal(expected, actual any, message ...any) {
\tif !reflect.DeepEqual(expected, actual) {
\t\teach.t.Errorf("assert.Equal: expected %v, got %v", expected, actual)
\t}
}
"""
_CRATES = re.compile(r"^use (?:rand|regex|md5)\b[^;]*;\n", re.MULTILINE)
_EMPTY_MAIN = re.compile(r"^fn main\(\s*\)\s*\{\s*\}\s*\n?", re.MULTILINE)
"""Many declarations begin with it; the test has the `main` that runs."""
_RUST_TEST = re.compile(r"#\[test\]\s*fn (\w+)")


def to_task(record: Record) -> Task:
    """The task in a record. Raises RecordError."""
    task_id, prompt, test = get_text(record, "task_id"), get_text(record, "prompt"), get_text(record, "test")
    name = task_id.partition("/")[0]
    if name == "Python":
        raise RecordError("field task_id: HumanEval-X's tasks in Python are HumanEval's: use the dataset humaneval")
    if name not in LANGUAGES:
        raise RecordError(
            f"field task_id: {task_id[:60]!r} begins with no language that can be judged: "
            f"use {', '.join(f'{each}/' for each in LANGUAGES)}"
        )
    language = LANGUAGES[name]
    if language == "rust":
        prompt += _EMPTY_MAIN.sub("", _CRATES.sub("", get_text(record, "declaration")))
    return Task(
        task_id=task_id,
        prompt=prompt,
        entry_point=exit_code_tasks.find_function_name(prompt, language),
        test=_adapt_test(test, language),
        canonical_solution=get_text(record, "canonical_solution", default=""),
        source=exit_code_tasks.build_source({"format": "HumanEval-X"}),
        language=language,
    )


def _adapt_test(test: str, language: str) -> str:
    """The test as a part of a program that ends by itself."""
    if language == "javascript":
        return _ASSERT_IN_JAVASCRIPT + test
    if language == "go":
        return test.replace("assert.New(t)", "testify{t}") + _ASSERT_IN_GO
    if language == "rust":
        calls = "".join(f" tests::{name}();" for name in _RUST_TEST.findall(test))
        return _RUST_TEST.sub(r"pub fn \1", test).replace("#[cfg(test)]", "") + f"\nfn main() {{{calls} }}\n"
    return test


def matches(record: Record) -> bool:
    """Whether a record is of this format."""
    return "example_test" in record or "declaration" in record
