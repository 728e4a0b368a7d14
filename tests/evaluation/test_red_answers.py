"""Right answers in unusual shapes: extraction keeps what they need, and they pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.datasets import Task
from evaluation.extraction import extract
from evaluation.grading import Grader
from tests.evaluation.sandboxes import sandbox_or_skip

ANSWERS = sorted((Path(__file__).parent / "red" / "answers").glob("e*.txt"))
CHAT = {"e37_chat", "e38_chat_body", "e39_chat_two"}
PRIME = Task(
    "E/0",
    'def f(n: int) -> int:\n    """Return the n-th prime (1-based).\n    >>> f(1)\n    2\n    """\n',
    "f",
    "def check(c):\n    assert [c(n) for n in (1, 2, 10, 50)] == [2, 3, 29, 229]\n",
    "",
)
BODY = (
    "    c, p = 0, 1\n    while c < n:\n        p += 1\n"
    "        if all(p % d for d in range(2, int(p**0.5) + 1)):\n            c += 1\n    return p\n"
)
DEF = "def f(n):\n" + BODY
FILL = "for i in range(2, 2000):\n    if all(i % p for p in T):\n        T.append(i)\n"
TABLE = "T = []\n\ndef f(n):\n    return T[n - 1]\n\n"
SHAPES = {
    "a demonstration after what fills the table": f"{TABLE}{FILL}\nprint(f(1))\nassert f(1) == 3\nn = int(input())\n",
    "a demonstration that uses the table": f"{TABLE}{FILL}\nfor n in T:\n    print(f(n), input())\n"
    "while True:\n    f(int(input()))\n",
    "a function called to fill it, another to show it": (
        f"{TABLE}def fill():\n    global T\n    T = [p for p in range(2, 999) if all(p % d for d in range(2, p))]\n\n"
        "def main():\n    print(f(int(input())))\n\nfill()\nmain()\n"
    ),
    "a table passed to the function that fills it": f"{TABLE}def fill(t):\n    for i in range(2, 2000):\n"
    "        if all(i % p for p in t):\n            t.append(i)\n\nfill(T)\n",
    "a guard": f"{TABLE}if not T:\n    {FILL.replace(chr(10), chr(10) + '    ').rstrip()}\n\n"
    'if __name__ == "__main__":\n    T.clear()\n',
    "tests of a framework": f"import unittest\n\n{DEF}\n\nclass TestF(unittest.TestCase):\n    def test(self):\n"
    "        self.assertEqual(f(1), 3)\n\nunittest.main()\n",
    "a demonstration that binds what a function has as its own": f"{DEF}\nn = int(input())\nc = p = input()\nf(n)\n",
    "a loop over the function's name": f"{DEF}\nfor f in (f, None):\n    print(f)\n",
    "an attribute of the function": "def f(n):\n    return f.known[n - 1]\n\nf.known = []\n"
    + FILL.replace("T", "f.known"),
    "thoughts whose begin is in the prompt": f"I try `def f(n): return 0`.\n</think>\n```python\n{DEF}```\n",
    "thoughts before the body": f"<think>\nThe body:\n    return 3\n</think>\n{BODY}",
    "thoughts begun and not ended after the answer": f"```python\n{DEF}```\n<think>\n"
    "```python\ndef f(n):\n    return 0\n```\n",
    "three blocks": f"```python\nimport math\n```\n```python\n{DEF.replace('p**0.5', 'math.sqrt(p)')}```\n"
    "```python\nprint(f(3))\n```\n",
    "a withdrawn block that has the helper": "```python\ndef is_p(p):\n    return all(p % d for d in range(2, p))\n\n"
    "def f(n):\n    return 2 * n\n```\nBetter:\n```python\ndef f(n):\n    p = 1\n    while n:\n        p += 1\n"
    "        n -= is_p(p)\n    return p\n```\n",
    "a stub in a later block": f"```python\n{DEF}```\nYou can fill this in:\n"
    "```python\ndef f(n):\n    # your code here\n    ...\n```\n",
    "shell commands first": f"```\n$ pip install x\n```\n```python\n{DEF}```\n",
    "a session in a fence": "```\n" + "\n".join(
        (">>> " if i == 0 else "... ") + line for i, line in enumerate(DEF.split("\n"))
    ) + "\n>>> f(3)\n5\n```\n",
    "a byte order mark and a full-width space": "\ufeff" + DEF.replace("    ", "\u3000   "),
}  # fmt: skip


@pytest.fixture(scope="module")
def grader():
    return Grader(sandbox_or_skip())


@pytest.mark.parametrize("path", ANSWERS, ids=lambda path: path.stem)
def test_a_right_answer_of_the_red_set_passes(path, grader):
    assert len(ANSWERS) >= 40
    found = extract(PRIME, path.read_text("utf-8"), "chat" if path.stem in CHAT else "completion")
    verdict = grader.judge(found.program, PRIME)
    assert verdict.status == "passed", (verdict.detail, found.program)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_right_answer_in_another_shape_passes(shape, grader):
    for mode in ("completion", "chat") if "```" not in SHAPES[shape] and "<" not in shape else ("completion",):
        found = extract(PRIME, SHAPES[shape], mode)
        verdict = grader.judge(found.program, PRIME)
        assert verdict.status == "passed", (mode, verdict.detail, found.program)


def test_thoughts_without_an_answer_are_no_program():
    assert extract(PRIME, f"<think>\nLet me try\n```python\n{DEF}```\n", "completion").location == "empty"


def test_words_that_look_like_tags_are_left_alone():
    raw = "    # see <think> of the book\n" + BODY
    assert extract(PRIME, raw, "completion").program == PRIME.prompt + raw
