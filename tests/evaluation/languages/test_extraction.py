"""Answers in JavaScript and TypeScript: where the program is, and what of it stays."""

import pytest

from evaluation.datasets import Task
from evaluation.extraction import TREE_VERSION
from evaluation.extractor import Extractor
from evaluation.prompting import build_prompt

HEADS = {"javascript": "function add(a, b) {\n", "typescript": "function add(a: number, b: number): number {\n"}


def task_of(language):
    return Task("t/0", "/** The sum. */\n" + HEADS[language], "add", "", "", language=language)


@pytest.fixture(scope="module")
def extractor():
    found = Extractor()
    yield found
    found.close()


RETURN = "  return a + b;\n"
ADD = f"function add(a, b) {{\n{RETURN}}}\n"
HALF = (
    "const assert = require('assert');\nconst half = (x) => x / 2;\n"
    "function add(a, b) {\n  return half(2 * (a + b));\n}\n"
)
TWICE = "const twice = (a) => add(a, a);\nfunction add(a, b) {\n  return a > 9 ? twice(a) : a + b;\n}\n"
TESTS = "const result = add(1, 2);\nassert.equal(result, 3);\nmodule.exports = { add };\n"
FENCED = "Here it is:\n```js\nconst add = (a, b) => a + b;\nadd(1, 2);\n```\nIt adds."
# mode, answer, how it is extracted, program; HEAD is the prompt
ANSWERS = {
    "stopped at its brace": ("completion", "  return a + b;", "completion", f"HEAD{RETURN}}}\n"),
    "closed": ("completion", f"{RETURN}}}\n\nconsole.log(add(1, 2));\n", "completion", f"HEAD{RETURN}}}\n"),
    "fenced with prose": ("completion", FENCED, "fenced", "const add = (a, b) => a + b;\n"),
    "restated in chat": ("chat", f"{ADD}\n// So\nconsole.log(add(1, 2));\n", "open_fence", f"{ADD}// So\n"),
    "a body in chat": ("chat", f"{RETURN}}}\n", "open_fence", f"HEAD{RETURN}}}\n"),
    "exported": ("chat", f"export {ADD}```\n", "fenced", ADD),
    "with helper and tests": ("chat", HALF + TESTS, "open_fence", HALF),
    "written again, the second time cut off": ("chat", f"{ADD}\nfunction add(a, b) {{\n  ret", "open_fence", ADD),
    "cut off before its last brace": ("chat", ADD[:-3], "open_fence", f"{ADD[:-3]}\n}}\n"),
    "a helper that calls it": ("chat", TWICE, "open_fence", TWICE),
    "nothing": ("chat", "```\n", "empty", ""),
}


@pytest.mark.parametrize("language", HEADS)
@pytest.mark.parametrize("name", ANSWERS)
def test_the_program_in_an_answer(extractor, language, name):
    mode, raw, how, expected = ANSWERS[name]
    task = task_of(language)
    found = extractor.extract(task, raw, mode)
    assert (found.location, found.program) == (how, expected.replace("HEAD", task.prompt))
    assert found.version == TREE_VERSION


def test_a_broken_function_stays_broken(extractor):
    found = extractor.extract(task_of("javascript"), "  for (const x of [a, b", "completion")
    assert found.reading == "literal"
    assert found.program.endswith("for (const x of [a, b")


def test_a_stub_is_not_an_answer(extractor):
    raw = "function add(a, b) {\n  return a + b;\n}\nfunction add(a, b) {\n  // TODO\n}\n"
    assert "return a + b" in extractor.extract(task_of("javascript"), raw, "chat").program


def test_a_hostile_text_ends_in_time(extractor):
    raw = "`${" * 20_000
    assert extractor.extract(task_of("javascript"), raw, "chat").location == "open_fence"


@pytest.mark.parametrize(("language", "label"), [("javascript", "JavaScript"), ("typescript", "TypeScript")])
def test_a_prompt_speaks_of_its_language(language, label):
    chat, completion = build_prompt(task_of(language), "chat"), build_prompt(task_of(language), "completion")
    assert f"the following {label} code" in chat.messages[0]["content"]
    assert chat.reply_prefix == f"```{language}\n"
    assert chat.version == f"chat-1-{language}"
    assert "\n}" in completion.stop
    assert "\n}" not in chat.stop
