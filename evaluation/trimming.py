"""Trims a text to a program: cuts parts that do not parse and the author's demonstration.

The task's tests judge a candidate. Prints, asserts and calls after the function are a demonstration; executed, it could
fail, wait for input or use up the time limit of a right answer. So after the entry point only definitions stay, and
statements that give a value or content to a name that a definition needs (`evaluation.effects`): an assignment, a loop
or a call that fills a table, a recursion limit.
"""

from __future__ import annotations

import ast

from evaluation.effects import DEFINITIONS, ProgramEffects, find_names_read
from evaluation.source import (
    compares_module_name,
    find_compile_error,
    find_definition,
    is_definition_of,
    is_incomplete,
    parse,
)

MAX_JOINED = 12
"""At most this many unindented parts are joined to one statement (a string or bracket may continue at column 0)."""

MAX_PARTS = 400
"""At most this many parts of a text that does not parse as a whole are read; the rest, a model repeating itself, is
cut."""

_CONTINUES = ("#", ")", "]", "}", "else:", "else ", "elif ", "except:", "except ", "finally:")


def trim(source: str, entry_point: str) -> str | None:
    """`source` without parts that are not Python and without demonstration; None where what is left does not compile or
    defines no entry point.

    Text that needs no cut is returned unchanged. Nothing is executed.
    """
    if parse(source) is None:
        source = _keep_parsable(source)
    tree = parse(source)
    if tree is None or find_compile_error(source) is not None:
        return None
    binding = [i for i, node in enumerate(tree.body) if is_definition_of(node, entry_point)]
    if not binding:
        return None
    # A model that starts the task again and is cut off leaves a stub after the function that it had finished.
    whole = [i for i in binding if returns_value(tree.body[i], entry_point)]
    whole = whole or [i for i in binding if has_real_body(tree.body[i], entry_point)]
    entry = (whole or binding)[-1]
    stubs = [tree.body[i] for i in binding if i > entry]
    return _drop_statements(source, tree.body, [*stubs, *_find_demonstration(tree.body, entry, entry_point)])


def keep_needed_statements(source: str, names: set[str], entry_point: str) -> str:
    """The statements of a program that define `names`, and those that they need in turn; "" for none."""
    tree = parse(source)
    body = tree.body if tree is not None else []
    program = ProgramEffects(body, entry_point)
    effects = [program.compute_effects(node) for node in body]
    usable = [(i, each) for i, each in enumerate(effects) if entry_point not in each.binds and not each.demonstrates]
    wanted, kept = set(names), set[int]()
    while True:
        useful = {i for i, found in usable if found.provides & wanted}
        if useful <= kept:
            dropped = [node for i, node in enumerate(body) if i not in kept]
            return _drop_statements(source, body, dropped) if kept else ""
        kept |= useful
        wanted |= {name for i in useful for name in effects[i].reads}


def has_real_body(node: ast.stmt, entry_point: str) -> bool:
    """Whether the entry point's function holds more than imports, a docstring and a placeholder."""
    function = find_definition(node, entry_point)
    return function is None or any(
        not isinstance(stmt, ast.Import | ast.ImportFrom | ast.Pass)
        and not (isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant))
        for stmt in function.body
    )


def returns_value(node: ast.stmt, entry_point: str) -> bool:
    """Whether the entry point's function returns or yields a value; True where it is not a plain function."""
    function = find_definition(node, entry_point)
    return function is None or any(
        isinstance(n, ast.Yield | ast.YieldFrom) or (isinstance(n, ast.Return) and n.value is not None)
        for n in ast.walk(function)
    )


def split_top_level(source: str) -> list[str]:
    """`source` split before every line at column 0 that can start a statement."""
    parts: list[list[str]] = [[]]
    for line in source.split("\n"):
        starts = bool(line) and not line[0].isspace() and not line.startswith(_CONTINUES)
        if starts and any(part.strip() for part in parts[-1]):
            parts.append([])
        parts[-1].append(line)
    return ["\n".join(part) for part in parts]


def _keep_parsable(source: str) -> str:
    """The parts of `source` that parse, in order; a part that is incomplete is joined with those after it."""
    parts = split_top_level(source)[:MAX_PARTS]
    kept: list[str] = []
    at = 0
    while at < len(parts):
        end = at + 1
        while is_incomplete("\n".join(parts[at:end])) and end < min(at + MAX_JOINED, len(parts)):
            end += 1
        joined = "\n".join(parts[at:end])
        if parse(joined) is not None:
            kept.append(joined)
            at = end
        else:
            at += 1
    return "\n".join(kept)


def _find_demonstration(body: list[ast.stmt], entry: int, entry_point: str) -> list[ast.stmt]:
    """The statements to cut: demonstration after the entry point; stray words and asserts before it."""
    dropped = [node for node in body[:entry] if _is_stray(node)]
    after = body[entry + 1 :]
    if all(isinstance(node, DEFINITIONS) for node in after):
        return dropped
    owner = entry_point.partition(".")[0]  # of a method, the class
    program = ProgramEffects(body, owner)
    needed = {owner}
    for node in [*body[: entry + 1], *(node for node in after if isinstance(node, DEFINITIONS))]:
        needed |= find_names_read(node)
    for node in reversed(after):
        if not isinstance(node, DEFINITIONS):
            effects = program.compute_effects(node)
            if (effects.provides & needed or effects.changes_settings) and not effects.demonstrates:
                needed |= effects.reads
            else:
                dropped.append(node)
    return dropped


def _is_stray(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()):
            return False  # a module docstring
        case ast.Expr():  # "Solution" and "Note: this" parse as Python; a call may be there for its effect
            return not any(isinstance(n, ast.Call) for n in ast.walk(node))
        case ast.Assert() | ast.AnnAssign(value=None):
            return True
        case ast.If(test=test):
            return compares_module_name(test)
    return False


def _drop_statements(source: str, body: list[ast.stmt], dropped: list[ast.stmt]) -> str:
    """`source` without the lines that belong only to dropped statements."""
    left_out = set(map(id, dropped))
    kept = {line for node in body if id(node) not in left_out for line in get_line_range(node)}
    cut = {line for node in dropped for line in get_line_range(node)} - kept
    if not cut:
        return source
    return "\n".join(line for number, line in enumerate(source.split("\n"), start=1) if number not in cut)


def get_line_range(node: ast.stmt) -> range:
    """The line numbers of a statement, decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    return range(first, (node.end_lineno or node.lineno) + 1)
