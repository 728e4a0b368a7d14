"""MBPP (Austin et al., arXiv 2108.07732): task_id, text (or prompt), code, test_list, optional test_setup_code.

The prompt is the InCoder paper's: a docstring with the first test. The tests become check(candidate). MBPP+ of the
Hugging Face Hub has a `test` in addition, a script with all inputs, which then decides alone.
"""

from __future__ import annotations

import ast

from evaluation.datasets import Task
from evaluation.formats.base import LeftOutError, Record, RecordError, get_optional_text, get_stops, get_text
from evaluation.source import find_compile_error, parse


def to_task(record: Record) -> Task:
    """The task in a record. Raises RecordError, and LeftOutError for a test without asserts.

    The entry point is the function of `code` that the tests call. Its name in the tests becomes `candidate`, so that
    a grader can pass any callable.
    """
    question = get_text(record, "text" if "text" in record else "prompt").strip()
    code = get_text(record, "code").replace("\r\n", "\n")
    tests = _get_strings(record, "test_list")
    setup = get_optional_text(record, "test_setup_code") or "\n".join(_get_imports(record))
    entry_point = _find_entry_point(code, tests)
    judged_by = "test_list" if record.get("test") is None else "test"
    task_id = f"MBPP/{number}" if isinstance(number := record.get("task_id"), int) else get_text(record, "task_id")
    if judged_by == "test":
        body = _build_check_from_script(get_text(record, "test"), entry_point, task_id)
    else:
        lines = [line for test in tests for line in _rename_entry_point(test, entry_point).splitlines()]
        body = "def check(candidate):\n" + "".join(f"    {line}\n" for line in lines)
    docstring = f"{question}\n{tests[0]}".replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return Task(
        task_id=task_id,
        prompt=f'"""\n{docstring}\n"""\n',
        entry_point=entry_point,
        test=f"{setup}\n\n{body}".lstrip("\n"),
        canonical_solution=code if code.endswith("\n") else code + "\n",
        stop=get_stops(record),
        source={"format": "MBPP", "judged_by": [judged_by]},
    )


def _build_check_from_script(script: str, entry_point: str, task_id: str) -> str:
    """The script; what begins with its first use of the entry point is in a check, unless it defines one."""
    tree = parse(script)
    if tree is None:
        raise RecordError(f"field test: does not compile: {find_compile_error(script)}")
    if not any(_can_fail(node) for node in ast.walk(tree)):
        raise LeftOutError(task_id, "its test asserts nothing, so every answer would pass")
    if any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tree.body):
        return script
    lines = script.splitlines(keepends=True)
    start = next((n for n, statement in enumerate(tree.body) if _is_using(statement, entry_point, lines)), None)
    if start is None:
        raise RecordError(f"field test: calls no {entry_point}, the function that test_list calls")
    del lines[tree.body[start].lineno - 1 :]
    for statement in tree.body[start:]:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id == entry_point:
                node.id = "candidate"
    check = ast.FunctionDef(
        "check", ast.arguments([], [ast.arg("candidate")], kwonlyargs=[], kw_defaults=[], defaults=[]),
        tree.body[start:], [], lineno=0,
    )  # fmt: skip
    return f"{''.join(lines)}\n\n{ast.unparse(ast.fix_missing_locations(check))}\n"


def _can_fail(node: ast.AST) -> bool:
    """Whether a part of a test asserts, or calls something that does by its name."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return isinstance(node, ast.Assert | ast.Raise) or name.startswith("assert_")


def _is_using(statement: ast.stmt, name: str, lines: list[str]) -> bool:
    if not any(name in line for line in lines[statement.lineno - 1 : statement.end_lineno]):
        return False  # most of a script is the values of its inputs
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(statement))


def _find_entry_point(code: str, tests: list[str]) -> str:
    tree = parse(code)
    if tree is None:
        raise RecordError(f"field code: does not compile: {find_compile_error(code)}")
    defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    called: set[str] = set()
    for test in tests:
        parsed = parse(test)
        if parsed is None:
            raise RecordError(f"field test_list: {test!r} does not compile: {find_compile_error(test)}")
        functions = (node.func for node in ast.walk(parsed) if isinstance(node, ast.Call))
        called |= {function.id for function in functions if isinstance(function, ast.Name)}
    candidates = [name for name in defined if name in called]
    if not candidates:
        raise RecordError("field test_list: calls no function that code defines")
    return candidates[-1]


def _rename_entry_point(test: str, entry_point: str) -> str:
    """The test with every use of the entry point's name replaced by `candidate`, and nothing else changed."""
    tree = parse(test)
    lines = test.encode().splitlines(keepends=True)  # the syntax tree counts columns in UTF-8 bytes
    nodes = [] if tree is None else list(ast.walk(tree))
    uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == entry_point]
    for use in sorted(uses, key=lambda n: (n.lineno, n.col_offset), reverse=True):
        line = lines[use.lineno - 1]
        lines[use.lineno - 1] = line[: use.col_offset] + b"candidate" + line[use.end_col_offset :]
    return b"".join(lines).decode()


def _get_strings(record: Record, field: str) -> list[str]:
    value = record.get(field)
    if not isinstance(value, list) or not value or not all(isinstance(v, str) and v.strip() for v in value):
        raise RecordError(f"field {field}: give a list of assert statements")
    return value


def _get_imports(record: Record) -> list[str]:
    value = record.get("test_imports") or []
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        raise RecordError("field test_imports: give a list of import statements")
    return value


def matches(record: Record) -> bool:
    """Whether a record is of this format."""
    return "test_list" in record
