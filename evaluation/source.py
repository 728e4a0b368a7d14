"""Reading Python source that may be wrong in any way, without running it."""

from __future__ import annotations

import ast
import codeop
import threading
import warnings

FILENAME = "<candidate>"
_ATTEMPTS = 5
# Python 3.11 counts its depth in a tree once for all threads, so two that build trees at once may both be refused
# (python/cpython issue 106905). Other libraries parse as well, hence the further attempts.
_parsing = threading.Lock()

# compile() warns about odd escapes in the code it reads; that is the author's affair, not the log's.
warnings.filterwarnings("ignore", module=r"<candidate>")


def parse(source: str) -> ast.Module | None:
    """The syntax tree of `source`, or None where Python's parser refuses it for any reason. Safe in many threads."""
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
    try:
        compile(source, FILENAME, "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"{error.msg} (line {error.lineno})"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def is_open(source: str) -> bool:
    """Whether `source` is the start of a statement that needs more lines: a bracket, a string, a def without body."""
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
    """Names that one statement binds in its scope by def, class, import or assignment."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return {(alias.asname or alias.name).split(".")[0] for alias in aliases}
        case ast.Assign(targets=targets):
            return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            return {name}
    return set()
