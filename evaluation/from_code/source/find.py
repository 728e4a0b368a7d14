"""Finds the functions of a project, and says of each whether it can become a task or why not."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from evaluation.from_code.source.project import Module, Project

MIN_LINES = 2
MAX_LINES = 80
_KNOWN_DECORATORS = frozenset({
    "property", "setter", "getter", "deleter", "cached_property", "staticmethod", "classmethod", "cache", "lru_cache",
    "contextmanager", "asynccontextmanager", "abstractmethod", "override", "final", "no_type_check", "singledispatch",
    "singledispatchmethod",
})  # fmt: skip
"""Decorators of the standard library: a call of the function decides what its callers see."""


@dataclass(frozen=True)
class ProjectFunction:
    """A function of a project. `reason` says why it cannot become a task, "" where it can.

    `qualified` is its name after the names of its classes; `owners` are these classes, the outermost first.
    `solution_line` is the line after signature and docstring, where the body to be written starts (from 1).
    """

    module: Module
    node: ast.FunctionDef | ast.AsyncFunctionDef
    qualified: str
    reason: str = ""
    solution_line: int = 0
    owners: tuple[ast.ClassDef, ...] = ()

    @property
    def key(self) -> str:
        """Its file, name and line, unique in the project."""
        return f"{self.module.path}:{self.qualified}:{self.node.lineno}"

    @property
    def owner(self) -> ast.ClassDef | None:
        """The class that it is a method of."""
        return self.owners[-1] if self.owners else None

    @property
    def is_generator(self) -> bool:
        """Whether a call returns a generator."""
        return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in walk_own_nodes(self.node))

    @property
    def kind(self) -> str:
        """What it is for a reader: function, method, property, classmethod, staticmethod, constructor."""
        if not self.owners:
            return "function"
        if self.node.name == "__init__":
            return "constructor"
        names = list(map(get_decorator_name, self.node.decorator_list))
        if any(name in ("property", "cached_property", "setter", "deleter", "getter") for name in names):
            return "property"
        return next((name for name in names if name in ("classmethod", "staticmethod")), "method")

    @property
    def has_unknown_decorator(self) -> bool:
        """Whether it has a decorator that may change what callers see: recorded calls saw the function itself."""
        return not {get_decorator_name(each) for each in self.node.decorator_list} <= _KNOWN_DECORATORS

    @property
    def first_line(self) -> int:
        """The line of its first decorator, or of its `def`."""
        return min([self.node.lineno, *(decorator.lineno for decorator in self.node.decorator_list)])

    @property
    def indent(self) -> str:
        """The white space before its `def`."""
        return self.module.get_indent(self.node.lineno)


def find_functions(project: Project) -> list[ProjectFunction]:
    """Every function and method of the project's modules, by file and line. Functions in functions are parts of those
    and not listed."""
    found: list[ProjectFunction] = []
    for module in sorted(project.modules.values(), key=lambda module: module.path):
        found.extend(_iterate_functions(module, module.tree.body, ()))
    return found


def walk_own_nodes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function's body, without the bodies of nested functions and classes."""
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            todo.extend(ast.iter_child_nodes(node))


def _iterate_functions(
    module: Module, body: list[ast.stmt], owners: tuple[ast.ClassDef, ...]
) -> Iterator[ProjectFunction]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            reason = _find_exclusion(node)
            line = 0
            if not reason:
                line = _find_solution_line(module, node)
                reason = "" if line else "has its body on the line of its signature or docstring"
            qualified = ".".join([*(owner.name for owner in owners), node.name])
            yield ProjectFunction(module, node, qualified, reason, line, owners)
        elif isinstance(node, ast.ClassDef):
            yield from _iterate_functions(module, node.body, (*owners, node))
        elif isinstance(node, ast.If | ast.Try | ast.With):
            for inner in (node.body, getattr(node, "orelse", []), getattr(node, "finalbody", [])):
                yield from _iterate_functions(module, inner, owners)
            for handler in getattr(node, "handlers", []):
                yield from _iterate_functions(module, handler.body, owners)


def _find_exclusion(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    decorators = set(map(get_decorator_name, node.decorator_list))
    if "overload" in decorators:
        return "is a declaration of an overload"
    if "abstractmethod" in decorators or all(map(_is_placeholder, node.body)):
        return "has no body of its own"
    if node.name == "__hash__":
        return "is a hash, which is right with any number that equal objects share"
    lines = count_lines_without_docstring(node)
    if lines < MIN_LINES:
        return f"has fewer than {MIN_LINES} lines without its docstring"
    if lines > MAX_LINES:
        return f"has more than {MAX_LINES} lines without its docstring"
    return ""


def get_decorator_name(decorator: ast.expr) -> str:
    """The last name of a decorator: `cache` for @functools.cache and @cache()."""
    return ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator).rpartition(".")[2]


def _is_placeholder(node: ast.stmt) -> bool:
    match node:
        case ast.Pass() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Raise(exc=ast.Name(id="NotImplementedError") | ast.Call(func=ast.Name(id="NotImplementedError"))):
            return True
    return False


def count_lines_without_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The number of lines of a function, blank lines and comments included, without its docstring."""
    assert node.end_lineno is not None
    lines = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node, clean=False) is not None:
        doc = node.body[0]
        assert doc.end_lineno is not None
        lines -= doc.end_lineno - doc.lineno + 1
    return lines


def _find_solution_line(module: Module, node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The line on which the body to be written starts, 0 where it shares a line with what precedes it."""
    if ast.get_docstring(node, clean=False) is not None:
        if len(node.body) == 1:
            return 0
        end = node.body[0].end_lineno or 0
    else:
        end = _find_signature_end(module, node)
    start = min(node.body[0].lineno if end < node.body[0].lineno else node.body[1].lineno, node.end_lineno or 0)
    return end + 1 if start > end else 0


def _find_signature_end(module: Module, node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The line of the colon that ends the signature."""
    text = "".join(module.lines[node.lineno - 1 : node.end_lineno])
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
            if token.string == ":" and depth == 0:
                return node.lineno + token.start[0] - 1
    return node.body[0].lineno
