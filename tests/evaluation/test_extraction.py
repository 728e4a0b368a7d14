"""Extraction finds the program in every shape that models answer in, and never raises."""

from __future__ import annotations

import ast
import codeop
import re
import textwrap
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation import dataset_files
from evaluation.datasets import Task
from evaluation.extraction import MAX_CHARS, MAX_READ, VERSION, extract
from evaluation.prompting import MODES
from evaluation.source import find_compile_error, list_defined_names, parse
from tests.thorough import scale_examples, thorough

HUMANEVAL = dataset_files.load_bundled_dataset("humaneval")

ADD = Task(
    task_id="T/0",
    prompt="from typing import List\n\n\ndef one():\n    return 1\n\n\n"
    'def add(xs: List[int]) -> int:\n    """Sum."""\n',
    entry_point="add",
    test="def check(candidate):\n    assert candidate([1, 2]) == 3\n",
    canonical_solution="    return sum(xs)\n",
)


def run(program: str, task: Task = ADD) -> None:
    """Execute trusted code of this file or of HumanEval against the task's own test."""
    exec(compile(f"{program}\n{task.test}\ncheck({task.entry_point})\n", "<test>", "exec"), {"__name__": "candidate"})


def whole(task: Task) -> str:
    return task.prompt + task.canonical_solution


def demo(task: Task) -> str:
    name = task.entry_point
    return (
        f"\n\n# Example\nresult = {name}()\nprint(result)\nassert {name}() == 1\n"
        f"for _ in range(3):\n    {name}()\nif __name__ == 'candidate':\n    raise SystemExit(3)\n"
    )


def restep(code: str, step: str) -> str:
    """The code with its steps of indentation written as `step`; four-space code only."""
    lines = code.split("\n")
    return "\n".join(step * ((len(x) - len(x.lstrip())) // 4) + x.lstrip() if x.strip() else x for x in lines)


def without_imports(task: Task) -> str:
    return task.prompt[task.prompt.rindex("\ndef ") + 1 :] + task.canonical_solution


PRESENTATIONS: dict[str, Callable[[Task], tuple[str, str]]] = {
    "body": lambda t: ("completion", t.canonical_solution),
    "body, then demonstration": lambda t: ("completion", t.canonical_solution + demo(t)),
    "body, then prose": lambda t: ("completion", t.canonical_solution + "\n\nIt's done (see below:\n- ok\n```\nmore\n"),
    "body in a fence": lambda t: ("completion", f"```python\n{t.canonical_solution}```\n"),
    "body indented twice": lambda t: ("completion", textwrap.indent(t.canonical_solution, "    ")),
    "body not indented": lambda t: ("completion", textwrap.dedent(t.canonical_solution)),
    "body not indented, then prose": lambda t: ("chat", textwrap.dedent(t.canonical_solution) + "\nThat's why.\n"),
    "body, first line's indentation lost": lambda t: ("completion", t.canonical_solution.lstrip()),
    "body in chat": lambda t: ("chat", t.canonical_solution),
    "function restated": lambda t: ("completion", whole(t)),
    "function in prose and fence": lambda t: (
        "completion",
        f"Sure! Here's it:\n\n```python\n{whole(t)}```\n\nIt's fine.\n```python\nprint(1)\n```\n",
    ),
    "chat": lambda t: ("chat", whole(t)),
    "chat, fence closed": lambda t: ("chat", whole(t) + "```\nExplanation\n```python\nprint(2)\n```"),
    "chat, fence opened again": lambda t: ("chat", f"```python\n{whole(t)}\n```"),
    "chat, prose first": lambda t: ("chat", f"Certainly:\n\n```\n{whole(t)}\n```\nDone"),
    "chat, then demonstration": lambda t: ("chat", whole(t) + demo(t)),
    "chat, cut in the demonstration": lambda t: ("chat", whole(t) + f"\n\n# Test\nprint({t.entry_point}([1, 2"),
    "chat, cut in a string": lambda t: ("chat", whole(t) + "\n\ndef test_it():\n    '''Check that"),
    "chat, imports left out": lambda t: ("chat", without_imports(t)),
    "chat, all indented": lambda t: ("chat", textwrap.indent(whole(t), "    ")),
    "chat, helpers before and after": lambda t: ("chat", f"CACHE = {{}}\n{whole(t)}\n\ndef helper(x):\n    return x\n"),
    "chat, fence inside a string": lambda t: (
        "chat",
        f'{t.prompt}    """\n```\nexample\n```\n    """\n{t.canonical_solution}\n```\n',
    ),
    "windows line ends": lambda t: ("chat", whole(t).replace("\n", "\r\n")),
}


@pytest.mark.parametrize("presentation", PRESENTATIONS)
def test_reference_solutions_pass_in_every_presentation(presentation: str) -> None:
    """Each presentation takes a third of the tasks; all of them have their turn."""
    for task in HUMANEVAL.tasks[list(PRESENTATIONS).index(presentation) % 3 :: 3]:
        mode, raw = PRESENTATIONS[presentation](task)
        result = extract(task, raw, mode)
        assert find_compile_error(result.program) is None, task.task_id
        run(result.program, task)


@pytest.mark.parametrize("step", [thorough("  "), "\t", "   "])
@pytest.mark.parametrize("mode", ["completion", "chat"])
def test_any_width_of_indentation_is_read(step: str, mode: str) -> None:
    four = [t for t in HUMANEVAL.tasks if not re.search(r"^(?: {1,3}| {5,7})\S", t.canonical_solution, re.MULTILINE)]
    assert len(four) > 140
    for task in four[::3]:
        run(extract(task, restep(task.canonical_solution, step), mode).program, task)


@pytest.mark.parametrize(
    ("mode", "raw", "how", "reading"),
    [
        ("completion", "    return sum(xs)\n", "completion", "continuation"),
        ("completion", "def add(xs):\n    return sum(xs)\n", "function", "function"),
        ("completion", "Code:\n```python\ndef add(xs):\n    return sum(xs)\n```\n", "fenced", "blocks"),
        ("completion", "Code:\n```python\ndef add(xs):\n    return sum(xs)\n", "open_fence", "blocks"),
        ("chat", "def add(xs):\n    return sum(xs)\n", "open_fence", "blocks"),
        ("chat", "def add(xs):\n    return sum(xs)\n```", "fenced", "blocks"),
        ("chat", "  return sum(xs)", "open_fence", "body"),
        ("completion", "add = lambda xs: sum(xs)\n", "function", "function"),
        ("completion", "def add_up(xs):\n    return sum(xs)\nadd = add_up\n", "function", "function"),
    ],
)
def test_location_says_where_the_code_was_and_reading_which_won(mode: str, raw: str, how: str, reading: str) -> None:
    result = extract(ADD, raw, mode)
    assert (result.location, result.reading, result.version) == (how, reading, VERSION)
    run(result.program)


@pytest.mark.parametrize("raw", ["", "  \n\t\n", "\r\n", "\n```", "```\n", "```python\n\n```\n"])
def test_an_answer_without_a_line_of_code_is_empty(raw: str) -> None:
    assert extract(ADD, raw, "completion").location == "empty"
    assert extract(ADD, raw, "chat").program == ""


def test_a_body_that_needs_no_repair_keeps_its_bytes() -> None:
    raw = "    # why\n\n    return sum(xs)  # sum\n\n"
    assert extract(ADD, raw, "completion").program == ADD.prompt + raw


def test_a_restated_function_gets_the_prompts_imports_and_helpers_unless_it_brings_its_own() -> None:
    bare = extract(ADD, "def add(xs: List[int]) -> int:\n    return sum(xs) + one() - 1\n", "chat").program
    assert "from typing import List" in bare
    assert "def one()" in bare
    run(bare)
    own = extract(ADD, "def one():\n    return 2\n\ndef add(xs):\n    return sum(xs) + one() - 2\n", "chat").program
    assert own.count("def one()") == 1
    run(own)


def test_a_future_import_stays_first() -> None:
    raw = "from __future__ import annotations\n\ndef add(xs: List[int]):\n    return sum(xs)\n"
    run(extract(ADD, raw, "chat").program)


def test_an_import_inside_the_prompts_function_is_kept() -> None:
    task = HUMANEVAL.get_task("HumanEval/115")
    raw = "def max_fill(grid, capacity):\n    return sum(math.ceil(sum(row) / capacity) for row in grid)\n"
    run(extract(task, raw, "chat").program, task)


def test_what_follows_the_answer_cannot_fail_it_but_what_it_needs_stays() -> None:
    raw = (
        "def add(xs):\n    return total(xs) + OFFSET\n\n\n@staticmethod\ndef unused():\n    pass\n\n\n"
        "def total(xs):\n    return sum(xs)\n\n\nBASE = 0\nOFFSET = BASE\nanswer = add(input())\nprint(answer)\n"
        "assert add([1]) == 2\nwhile True:\n    pass\n"
    )
    program = extract(ADD, raw, "chat").program
    run(program)
    assert "OFFSET = BASE" in program
    assert "BASE = 0" in program
    assert "input" not in program
    assert "while" not in program


@pytest.mark.parametrize("guard", ["__name__ == 'candidate'", "'candidate' == __name__", "not __name__ != 'candidate'"])
def test_a_block_for_scripts_is_cut_however_it_compares_the_name(guard: str) -> None:
    program = extract(ADD, f"    return sum(xs)\n\nif {guard}:\n    raise SystemExit(3)\n", "completion").program
    assert "SystemExit" not in program
    run(program)


def test_what_fills_a_table_of_the_prompt_comes_along_unless_the_answer_has_its_own() -> None:
    task = replace(ADD, prompt="TABLE = {}\nTABLE[1] = sum\n\n" + ADD.prompt)
    answer = "def add(xs):\n    return TABLE[1](xs)\n"
    run(extract(task, answer, "chat").program, task)
    assert "= sum" not in extract(task, "TABLE = {1: len}\n" + answer, "chat").program


def test_an_index_is_not_what_a_later_statement_defines() -> None:
    """The statement after the function fills another table with an index that the function reads."""
    after = "SEEN = {}\nSEEN[one] = print('shown')\n"
    program = extract(ADD, f"one = 0\ndef add(xs):\n    return sum(xs) + one\n{after}", "chat").program
    assert "shown" not in program


def test_a_name_bound_to_the_entry_point_afterwards_stays() -> None:
    raw = "import functools\n\ndef add(xs):\n    return sum(xs)\n\nadd = functools.lru_cache(None)(add)\n"
    assert "lru_cache" in extract(ADD, raw, "chat").program


@pytest.mark.parametrize("word", ["Solution", "Note: this", "Sure"])
def test_prose_that_happens_to_be_python_is_not_run(word: str) -> None:
    run(extract(ADD, f"{word}\ndef add(xs):\n    return sum(xs)\n{word}\n", "chat").program)


def test_a_broken_function_is_not_repaired_into_another() -> None:
    result = extract(ADD, "def add(xs):\n    total = = 3\n    return total\n", "chat")
    assert find_compile_error(result.program) is not None
    assert "total = = 3" in result.program


def test_a_stub_before_the_real_block_is_passed_over() -> None:
    raw = 'def add(xs):\n    """Sum."""\n```\nNow the code:\n```python\ndef add(xs):\n    return sum(xs)\n```\n'
    run(extract(ADD, raw, "chat").program)


def test_an_answer_to_a_window_of_a_file_is_joined_to_the_program_that_runs() -> None:
    task = Task(
        "I/0", "# lines of a file\ndef add(xs):\n", "add", ADD.test, "", suffix="\n\ndef other(): ...\n",
        program_prefix="import math\r\ndef add(xs):\n",
    )  # fmt: skip
    found = extract(task, "    return math.fsum(xs)\n", "infill")
    assert found.program == "import math\ndef add(xs):\n    return math.fsum(xs)\n"


def test_infilling_joins_prompt_answer_and_suffix_untouched() -> None:
    task = Task("I/0", "def add(xs):\n", "add", ADD.test, "", suffix="    return total\n")
    assert (
        extract(task, "    total = sum(xs)\n", "infill").program
        == "def add(xs):\n    total = sum(xs)\n    return total\n"
    )


def test_a_prompt_without_open_function_takes_a_whole_program() -> None:
    task = Task("M/0", '"""Sum a list."""\n', "add", ADD.test, "")
    run(
        extract(
            task, "import math\n\ndef add(xs):\n    return int(math.fsum(xs))\n\nprint(add(0))\n", "completion"
        ).program,
        task,
    )


def test_a_long_text_is_read_literally() -> None:
    assert extract(ADD, "a b\n" * 200_000, "chat").location == "open_fence"


@pytest.mark.parametrize("line", ["(\n", '"""\n', "a b\n", "def add(:\n", "x = (\n```\n", "@a\n", "add = x +\n"])
def test_of_a_model_that_repeats_itself_python_parses_a_bounded_amount(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed, compiled, parse_tree, compile_one = [0], [0], ast.parse, codeop.compile_command

    def count_parse(text: str, *rest: str) -> ast.AST:
        parsed[0] += len(text)
        return parse_tree(text, *rest)

    def count_compile(text: str, *rest: str) -> object:
        compiled[0] += len(text)
        return compile_one(text, *rest)

    monkeypatch.setattr(ast, "parse", count_parse)
    monkeypatch.setattr(codeop, "compile_command", count_compile)
    extract(ADD, line * (MAX_CHARS // len(line)), "chat")
    literal_reading = 3 * MAX_CHARS
    assert 0 < parsed[0] + compiled[0] <= MAX_READ + literal_reading


fragments = st.sampled_from(
    ["def add(xs):\n", "    return sum(xs)\n", "```\n", "```python\n", '"""', "'", "(", "\\", "\t", "\x0c", "\r",
     "\x00", "\ud800", "@", "class A:\n", "if x:\n", "else:\n", "return 1\n", "It's\n", "  x = 1\n", ";", "λ",
     "\u2028", "import os\n"]
)  # fmt: skip


METHOD = Task("T/1", "class A:\n    def m(self):\n", "A.m", "", "")


@pytest.mark.parametrize("entry_point", ["A.m", "m"])
def test_a_method_alone_is_read_without_the_class_that_the_prompt_left_open(entry_point: str) -> None:
    program = extract(replace(METHOD, entry_point=entry_point), "def m(self):\n    return 1\n```", "chat").program
    assert program.split() == ["def", "m(self):", "return", "1"]


@pytest.mark.parametrize(
    ("mode", "raw", "reading"),
    [
        ("chat", "class A:\n    def m(self):\n        return 1\n\nA.x = 2\nprint(A().m())\n```", "blocks"),
        ("completion", "        return 1\n\nA.x = 2\nprint(A().m())\n", "continuation"),
    ],
)
def test_a_class_keeps_what_fills_it_and_loses_its_demonstration(mode: str, raw: str, reading: str) -> None:
    result = extract(METHOD, raw, mode)
    assert (result.reading, "A.x = 2" in result.program, "print" in result.program) == (reading, True, False)


@settings(max_examples=scale_examples(150), deadline=None)
@given(raw=st.text() | st.lists(fragments, max_size=25).map("".join), mode=st.sampled_from(MODES))
def test_no_text_makes_it_raise(raw: str, mode: str) -> None:
    one_line = Task("S/0", "def add(xs): return ", "add", "", "")
    for task in (ADD, Task("M/0", '"""Sum."""\n', "add", "", ""), one_line, METHOD):
        result = extract(task, raw, mode)
        assert (result.location == "empty") == (not result.program)


@settings(max_examples=scale_examples(100), deadline=None)
@given(before=st.text(alphabet="abc'\"`(:#\n "), after=st.text(alphabet="abc'\"`(:#\n "))
def test_a_fenced_function_survives_prose_around_it(before: str, after: str) -> None:
    raw = f"{before}\n```python\ndef add(xs):\n    return sum(xs)\n```\n{after}"
    program = extract(ADD, raw, "completion").program
    tree = parse(program)
    assert tree is not None
    assert "add" in list_defined_names(tree)
