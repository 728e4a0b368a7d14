"""Reading Python source that may be wrong in any way, without running it."""

from __future__ import annotations

import ast
import codeop
import contextlib
import threading
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field

FILENAME = "<candidate>"
_ATTEMPTS = 5
_CALL_CHARS = 100
"""What one reading costs beside its length, in characters."""
_KEPT_TREES = 6
# Python 3.11 counts its depth in a tree once for all threads, so two that build trees at once may both be refused
# (python/cpython issue 106905). Other libraries parse as well, hence the further attempts.
_parsing = threading.Lock()

# compile() warns about odd escapes in the code it reads; that is the author's affair, not the log's.
warnings.filterwarnings("ignore", module=r"<candidate>")


class TooMuch(Exception):  # noqa: N818  (no fault of the program: the text asks for too much work)
    """More source was read inside `at_most` than it allows."""


@dataclass(slots=True)
class _Allowance:
    left: int
    trees: dict[str, ast.Module | None] = field(default_factory=dict)
    """Of the sources parsed last: the readings of an answer come back to the same ones."""


_allowance: ContextVar[_Allowance | None] = ContextVar("what may still be read", default=None)


@contextlib.contextmanager
def at_most(characters: int) -> Iterator[None]:
    """Bound the source that the functions below read in this block; the one that exceeds it raises TooMuch.

    Characters and not seconds, so that an answer is read the same way on every machine. Trees are shared in the
    block: nobody changes them.
    """
    token = _allowance.set(_Allowance(characters))
    try:
        yield
    finally:
        _allowance.reset(token)


def _charge(source: str, times: int = 1) -> None:
    if (allowance := _allowance.get()) is not None:
        allowance.left -= times * (len(source) + _CALL_CHARS)
        if allowance.left < 0:
            raise TooMuch


def parse(source: str) -> ast.Module | None:
    """The syntax tree of `source`, or None where Python's parser refuses it for any reason. Safe in many threads."""
    allowance = _allowance.get()
    if allowance is None:
        return _parse(source)
    if source not in allowance.trees:
        _charge(source)
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
    """The tree of code that may end in a def still waiting for its body, or None where it is not such code."""
    for body in ("", "\n    pass\n", "\n  pass\n", "\n\tpass\n"):
        if (tree := parse(prompt + body)) is not None:
            return tree
    return None


def compile_error(source: str) -> str | None:
    """Why `source` does not compile, as one sentence; None where it does. Nothing is executed."""
    _charge(source)
    try:
        compile(source, FILENAME, "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"{error.msg} (line {error.lineno})"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def is_open(source: str) -> bool:
    """Whether `source` is the start of a statement that needs more lines: a bracket, a string, a def without body."""
    _charge(source, times=3)  # compile_command compiles three variants
    try:
        return codeop.compile_command(source, FILENAME, "exec") is None
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return False


def defined_names(tree: ast.Module) -> set[str]:
    """Names that the module's own statements bind by def, class, import or plain assignment."""
    names: set[str] = set()
    for node in tree.body:
        names |= bound_names(node)
    return names


def bound_names(node: ast.stmt) -> set[str]:
    """Names that one statement binds in its scope by def, class, import or assignment, inside if, try and with too.

    Nothing of `if __name__ == ...` counts: it holds what is not for those who import the code.
    """
    match node:
        case ast.If(test=test) if any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(test)):
            return set()
        case ast.If() | ast.Try() | ast.With():
            return {name for inner in _inner_statements(node) for name in bound_names(inner)}
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return {(alias.asname or alias.name).split(".")[0] for alias in aliases}
        case ast.Assign(targets=targets):
            return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()) | ast.AugAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def _inner_statements(node: ast.If | ast.Try | ast.With) -> Iterator[ast.stmt]:
    yield from node.body
    if not isinstance(node, ast.With):
        yield from node.orelse
    if isinstance(node, ast.Try):
        yield from node.finalbody
        for handler in node.handlers:
            yield from handler.body
