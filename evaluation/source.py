"""Parses Python source that may be invalid in any way; nothing is executed."""

from __future__ import annotations

import ast
import codeop
import contextlib
import threading
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
FILENAME = "<candidate>"
_ATTEMPTS = 5
_CALL_CHARS = 100
"""Fixed cost of one parse, in characters."""
_KEPT_TREES = 6
_MARGINS = ("    ", "  ", "\t", "        ", "            ", "\t\t", "                ")
"""Indentations of a body that is left open: of a function, and of a method."""
# Python 3.11 counts the depth of a tree in one variable for all threads, so that two threads that build trees at once
# may both fail (python/cpython issue 106905). Other libraries parse too, hence the repeated attempts.
_parsing = threading.Lock()

# compile() warns about invalid escapes in candidates; those warnings do not belong in our log.
warnings.filterwarnings("ignore", module=r"<candidate>")


class ParseLimitError(Exception):
    """More source was parsed inside `limit_characters` than it allows."""


@dataclass(slots=True)
class _Allowance:
    left: int
    trees: dict[str, ast.Module | None] = field(default_factory=dict)
    """Trees of the sources parsed last: the readings of an answer parse the same ones again."""


_allowance: ContextVar[_Allowance | None] = ContextVar("allowance", default=None)


@contextlib.contextmanager
def limit_characters(characters: int) -> Iterator[None]:
    """Bound the source that the functions below parse in this block; a call that exceeds it raises ParseLimitError.

    The bound is in characters, not seconds, so that every machine reads an answer the same way. Callers share the
    trees and must not change them.
    """
    token = _allowance.set(_Allowance(characters))
    try:
        yield
    finally:
        _allowance.reset(token)


def _spend_characters(source: str, times: int = 1) -> None:
    if (allowance := _allowance.get()) is not None:
        allowance.left -= times * (len(source) + _CALL_CHARS)
        if allowance.left < 0:
            raise ParseLimitError


def parse(source: str) -> ast.Module | None:
    """The syntax tree of `source`, or None where Python's parser rejects it for any reason. Thread-safe."""
    allowance = _allowance.get()
    if allowance is None:
        return _parse(source)
    if source not in allowance.trees:
        _spend_characters(source)
        while len(allowance.trees) >= _KEPT_TREES:
            del allowance.trees[next(iter(allowance.trees))]
        allowance.trees[source] = _parse(source)
    return allowance.trees[source]


def _parse(source: str) -> ast.Module | None:
    for attempt in range(_ATTEMPTS):
        try:
            with _parsing:
                return ast.parse(source, FILENAME)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        except SystemError:
            if attempt == _ATTEMPTS - 1:
                raise
    return None


def parse_open(prompt: str) -> ast.Module | None:
    """The tree of code that may end in a def without its body; None where it does not parse either way."""
    return next((tree for _, tree in _iterate_closed(prompt)), None)


def close_definition(prompt: str) -> str | None:
    """The code that `parse_open` reads: `prompt`, with a body for the def that it may end in."""
    return next((closed for closed, _ in _iterate_closed(prompt)), None)


def _iterate_closed(prompt: str) -> Iterator[tuple[str, ast.Module]]:
    for body in ("", *(f"\n{margin}pass\n" for margin in _MARGINS)):
        if (tree := parse(prompt + body)) is not None:
            yield prompt + body, tree


def find_compile_error(source: str) -> str | None:
    """The reason why `source` does not compile, in one sentence; None where it compiles."""
    _spend_characters(source)
    try:
        compile(source, FILENAME, "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"{error.msg} (line {error.lineno})"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def unparse(node: ast.AST) -> str | None:
    """The source of a changed tree; None where there is none: before Python 3.12 the expressions in an f-string cannot
    hold a backslash, so a text there cannot become one with a line break."""
    try:
        return ast.unparse(node)
    except ValueError:
        return None


def is_incomplete(source: str) -> bool:
    """Whether `source` starts a statement that needs more lines: an open bracket or string, a def without body."""
    _spend_characters(source, times=3)  # compile_command compiles three variants
    try:
        return codeop.compile_command(source, FILENAME, "exec") is None
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return False


def list_defined_names(tree: ast.Module) -> set[str]:
    """Names that the module's top-level statements bind by def, class, import or assignment."""
    names: set[str] = set()
    for node in tree.body:
        names |= list_bound_names(node)
    return names


def list_bound_names(node: ast.stmt) -> set[str]:
    """Names that one statement binds in its scope by def, class, import or assignment, inside if, try and with too.

    Names bound under `if __name__ == ...` do not count: importers of the code do not see them.
    """
    match node:
        case ast.If(test=test) if compares_module_name(test):
            return set()
        case ast.If() | ast.Try() | ast.With():
            return {name for inner in _iterate_inner_statements(node) for name in list_bound_names(inner)}
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return {(alias.asname or alias.name).split(".")[0] for alias in aliases}
        case ast.Assign(targets=targets):
            names = (n for target in targets for n in ast.walk(target) if isinstance(n, ast.Name))
            return {n.id for n in names if isinstance(n.ctx, ast.Store)}  # `a[i] = x` binds neither `a` nor `i`
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()) | ast.AugAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def compares_module_name(node: ast.AST) -> bool:
    """Whether an expression compares `__name__`: what depends on it runs in scripts, and not when it is imported."""
    sides = (side for n in ast.walk(node) if isinstance(n, ast.Compare) for side in (n.left, *n.comparators))
    return any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)


def list_positional_arguments(arguments: ast.arguments) -> list[ast.arg]:
    """The parameters that arguments by position fill, in their order, without `*args`."""
    return [*arguments.posonlyargs, *arguments.args]


def list_arguments(arguments: ast.arguments, starred: bool = False) -> list[ast.arg]:
    """The parameters in the order of the signature; `starred` appends `*args` and `**kwargs`."""
    last = (arguments.vararg, arguments.kwarg) if starred else ()
    return [each for each in (*list_positional_arguments(arguments), *arguments.kwonlyargs, *last) if each]


def get_called_name(call: ast.Call) -> str:
    """The name of the called function or method, "" where it has none."""
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def is_self(node: ast.expr) -> bool:
    """Whether an expression is the instance or the class that a method belongs to."""
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def is_type_checking(node: ast.stmt) -> bool:
    """Whether a statement is `if TYPE_CHECKING:`, whose body only type checkers read."""
    return isinstance(node, ast.If) and ast.unparse(node.test).rpartition(".")[2] == "TYPE_CHECKING"


def list_runtime_names(tree: ast.Module) -> set[str]:
    """Names that the module's top-level statements bind when it runs: not those for type checkers alone."""
    names: set[str] = set()
    for node in tree.body:
        for each in node.orelse if isinstance(node, ast.If) and is_type_checking(node) else [node]:
            names |= list_bound_names(each)
    return names


def is_definition_of(node: ast.stmt, name: str) -> bool:
    """Whether a statement binds this name; a dotted one is the name of a class and of a function in it."""
    owner, dot, rest = name.partition(".")
    if not dot:
        return name in list_bound_names(node)
    if isinstance(node, ast.If | ast.Try | ast.With):
        return any(is_definition_of(inner, name) for inner in _iterate_inner_statements(node))
    inside = isinstance(node, ast.ClassDef) and node.name == owner
    return inside and any(is_definition_of(inner, rest) for inner in node.body)  # type: ignore[attr-defined]


def find_definition(node: ast.stmt, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The last function of this name, possibly dotted, that a statement defines."""
    owner, dot, rest = name.partition(".")
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node if node.name == name else None
    if isinstance(node, ast.If | ast.Try | ast.With):
        inner, rest = list(_iterate_inner_statements(node)), name
    elif dot and isinstance(node, ast.ClassDef) and node.name == owner:
        inner = node.body
    else:
        return None
    found = (find_definition(each, rest) for each in reversed(inner))
    return next((each for each in found if each is not None), None)


def _iterate_inner_statements(node: ast.If | ast.Try | ast.With) -> Iterator[ast.stmt]:
    """The statements of all branches, in the order in which they are written."""
    yield from node.body
    if isinstance(node, ast.Try):
        for handler in node.handlers:
            yield from handler.body
    if not isinstance(node, ast.With):
        yield from node.orelse
    if isinstance(node, ast.Try):
        yield from node.finalbody
