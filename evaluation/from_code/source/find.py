"""Finds the functions of a project, and says of each whether it can become a task or why not."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from evaluation.from_code.source.project import Module, Project

MIN_LINES = 3
MAX_LINES = 60
_TRANSPARENT = ("lru_cache", "cache", "functools.lru_cache", "functools.cache")
"""Decorators that change neither arguments nor results."""
_SEES_ITS_NAMES = frozenset(("locals", "vars", "dir", "eval", "exec", "globals"))


@dataclass(frozen=True)
class Function:
    """A function of a project. `reason` says why it cannot become a task, "" where it can.

    `solution_line` is the line after signature and docstring, where the body to be written starts (from 1).
    """

    module: Module
    node: ast.FunctionDef | ast.AsyncFunctionDef
    qualified: str
    reason: str = ""
    solution_line: int = 0

    @property
    def key(self) -> str:
        """Its file, name and line, unique in the project."""
        return f"{self.module.path}:{self.qualified}:{self.node.lineno}"

    @property
    def is_generator(self) -> bool:
        """Whether a call returns a generator."""
        return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in own_nodes(self.node))


def find(project: Project) -> list[Function]:
    """Every function and method of the project's modules, by file and line. Functions in functions are parts of those
    and not listed."""
    found: list[Function] = []
    for module in sorted(project.modules.values(), key=lambda module: module.path):
        found.extend(_in_body(module, module.tree.body, "", at_top=True))
    return found


def own_nodes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function's body, without the bodies of nested functions and classes."""
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            todo.extend(ast.iter_child_nodes(node))


def _in_body(module: Module, body: list[ast.stmt], prefix: str, at_top: bool) -> Iterator[Function]:
    names = [node.name for node in module.tree.body if isinstance(node, ast.FunctionDef)]
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            reason = "" if at_top else "is a method" if prefix else "is defined under a condition"
            reason = reason or _unfit(node, names.count(node.name))
            line = _solution_line(module, node)
            if not reason:
                reason = "" if line else "has its body on the line of its signature or docstring"
            yield Function(module, node, prefix + node.name, reason, line)
        elif isinstance(node, ast.ClassDef):
            yield from _in_body(module, node.body, f"{prefix}{node.name}.", at_top=False)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            for inner in (node.body, getattr(node, "orelse", []), getattr(node, "finalbody", [])):
                yield from _in_body(module, inner, prefix, at_top=False)
            for handler in getattr(node, "handlers", []):
                yield from _in_body(module, handler.body, prefix, at_top=False)


def _unfit(node: ast.FunctionDef | ast.AsyncFunctionDef, same_name: int) -> str:
    decorators = [ast.unparse(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list]
    if any(name.rpartition(".")[2] == "overload" for name in decorators):
        return "is a declaration of an overload"
    if isinstance(node, ast.AsyncFunctionDef):
        return "is asynchronous"
    if same_name > 1:
        return "is defined more than once"
    other = next((name for name in decorators if name not in _TRANSPARENT), None)
    if other:
        return "has a decorator, which may change its arguments or result"
    docstring = ast.get_docstring(node, clean=False)
    if docstring is None and not _is_hinted(node):
        return "has neither a docstring nor type hints"
    lines = code_lines(node)
    if lines < MIN_LINES:
        return f"has fewer than {MIN_LINES} lines without its docstring"
    if lines > MAX_LINES:
        return f"has more than {MAX_LINES} lines without its docstring"
    if any(isinstance(n, ast.Name) and n.id in _SEES_ITS_NAMES for n in own_nodes(node)):
        return "reads its own names or executes text (locals, vars, eval and the like)"
    if any(isinstance(n, ast.Await) for n in own_nodes(node)):
        return "is asynchronous"
    return ""


def _is_hinted(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return node.returns is not None or any(argument.annotation for argument in every)


def code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without its docstring."""
    assert node.end_lineno is not None
    lines = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node, clean=False) is not None:
        doc = node.body[0]
        assert doc.end_lineno is not None
        lines -= doc.end_lineno - doc.lineno + 1
    return lines


def _solution_line(module: Module, node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The line on which the body to be written starts, 0 where it shares a line with what precedes it."""
    if ast.get_docstring(node, clean=False) is not None:
        if len(node.body) == 1:
            return 0
        end = node.body[0].end_lineno or 0
    else:
        end = _signature_end(module, node)
    start = min(node.body[0].lineno if end < node.body[0].lineno else node.body[1].lineno, node.end_lineno or 0)
    return end + 1 if start > end else 0


def _signature_end(module: Module, node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The line of the colon that ends the signature."""
    text = "".join(module.lines[node.lineno - 1 : node.end_lineno])
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
            if token.string == ":" and depth == 0:
                return node.lineno + token.start[0] - 1
    return node.body[0].lineno
