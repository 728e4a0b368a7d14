"""Rules for tests that cannot be judged on copies of the candidate's values.

Each rule reads the task's source and returns a reason in a few words, or None. A rule may be too strict, never too lax:
a refused test runs beside the candidate instead, and the verdict's trust says so.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from itertools import pairwise

from evaluation.sandbox.interpreter import InterpreterNames
from evaluation.source import list_arguments

_MODULES = frozenset({
    "__future__", "abc", "base64", "binascii", "bisect", "calendar", "cmath", "collections", "copy", "dataclasses",
    "datetime", "decimal", "enum", "fractions", "functools", "hashlib", "heapq", "itertools", "json", "math",
    "numbers", "operator", "random", "re", "statistics", "string", "struct", "textwrap", "time", "typing",
    "unicodedata", "zlib",
})  # fmt: skip
"""Modules that execute no text, hold no state shared with the candidate and do not read this process."""
_CONSTANTS = {"sys": {"maxsize", "float_info", "version_info"}}
_OF_NUMPY = frozenset({
    "abs", "absolute", "all", "allclose", "any", "arange", "argmax", "argmin", "argsort", "around", "array",
    "array_equal", "array_equiv", "asarray", "assert_allclose", "assert_almost_equal", "assert_array_almost_equal",
    "assert_array_equal", "assert_equal", "bool_", "ceil", "complex128", "concatenate", "cumsum", "diff", "dot",
    "dtype", "e", "exp", "float32", "float64", "floating", "floor", "full", "generic", "inf", "int32", "int64",
    "integer", "isclose", "isfinite", "isinf", "isnan", "linalg", "linspace", "log", "log10", "log2", "max",
    "maximum", "mean", "median", "min", "minimum", "nan", "ndarray", "norm", "number", "ones", "pi", "power",
    "prod", "ravel", "reshape", "round", "sign", "sort", "sqrt", "square", "stack", "std", "sum", "testing",
    "transpose", "unique", "var", "where", "zeros",
})  # fmt: skip
"""What a test may use of numpy in the checker: it computes and compares. Other parts open files or execute text."""
_OF_ARRAYS = frozenset(("T", "all", "any", "astype", "dtype", "flatten", "item", "ndim", "shape", "size", "tolist"))
"""Attributes of arrays. A program has no numpy, so what has one of these was made by the test."""
_EXECUTING = frozenset({
    "eval", "exec", "compile", "__import__", "open", "globals", "locals", "vars", "input", "breakpoint", "setattr",
    "delattr", "__builtins__", "__globals__", "__subclasses__", "__code__", "attrgetter", "methodcaller",
    "get_type_hints", "ForwardRef",
})  # fmt: skip
_QUIET = frozenset(("StopIteration", "StopAsyncIteration", "GeneratorExit"))
_ITERATORS = frozenset(("map", "filter", "zip", "enumerate", "reversed"))
_UNSENDABLE_ATTRIBUTES = frozenset(("__class__", "send", "throw"))
"""Attributes of plain types that behave differently on a copy."""


def find_execution(tree: ast.Module, names: InterpreterNames) -> str | None:
    """A test that executes text could execute the candidate's; unlisted modules may do so or share state."""
    for node in ast.walk(tree):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        is_pattern = isinstance(node, ast.Attribute) and name == "compile" and _is_mentioning(node.value, {"re"})
        if name in _EXECUTING and not is_pattern:
            return (
                f"the test or its prompt uses {name}, which can execute a text or reach around the candidate's values"
            )
        if _is_call(node, "getattr", "hasattr") and not _is_naming_attribute(node):
            return "the test or its prompt looks up an attribute by a name that is computed or forbidden"
        if name == "seed":
            return "the test or its prompt seeds random numbers that the candidate may draw"
    foreign = (name for name in _iterate_imports(tree) if not _is_harmless(name, tree, names))
    return next((f"the test or its prompt imports {name}" for name in foreign), None)


def find_identity_comparison(tree: ast.Module) -> str | None:
    """A returned immutable value is another object in the checker, and a subclass is replaced by its base."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for operator, pair in zip(node.ops, pairwise(sides), strict=True):
                if isinstance(operator, ast.Is | ast.IsNot) and not any(map(_is_singleton, pair)):
                    return "the test compares identities"
        if _is_call(node, "id") or (_is_call(node, "type") and len(node.args) == 1):  # type: ignore[attr-defined]
            return f"the test asks for the {node.func.id} of a value"  # type: ignore[attr-defined]
        if isinstance(node, ast.Attribute) and node.attr == "__class__":
            return "the test asks for the class of a value"
    return None


def find_async_use(tree: ast.Module, prompt: ast.Module, entry_point: str) -> str | None:
    """Two event loops cannot share a coroutine, and a StopIteration from the guest could end a test silently."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith | ast.AsyncFunctionDef):
            return "the test is asynchronous"
        if isinstance(node, ast.Name) and node.id in _QUIET:
            return f"the test expects {node.id}"
    if any(isinstance(node, ast.AsyncFunctionDef) and node.name == entry_point for node in prompt.body):
        return "the entry point is asynchronous"
    return None


def find_own_type_use(tree: ast.Module, prompt: ast.Module, proxies: set[str], names: InterpreterNames) -> str | None:
    """Objects of the candidate's classes, and functions that it returns, cannot leave the guest."""
    if own := _find_class(prompt, names.exceptions - _QUIET):
        return f"the prompt defines the class {own}"
    arrays = _OF_ARRAYS if "numpy" in _iterate_imports(tree) else frozenset()
    sendable = (names.attributes - _UNSENDABLE_ATTRIBUTES) | arrays
    results = _find_result_names(tree, proxies)
    functions = (node.args for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda))
    maybe = results | {each.arg for arguments in functions for each in list_arguments(arguments)}
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if any(_is_result(part, results, proxies) for part in _list_called(node)):
            return "the test calls what the candidate returned"
        match node:
            case ast.Attribute(value=value, attr=name) if name not in sendable and _is_mentioning(value, maybe):
                return f"the test uses an attribute that no plain value has ({name})"
            case ast.Name(id=name) if name in _ITERATORS and id(node) not in called:
                return f"the test asks whether a value is a {name}"
            case ast.FunctionDef(decorator_list=parts) if any(_is_mentioning(part, proxies) for part in parts):
                return "the test passes a function or class to the candidate"
    return None


def _find_class(tree: ast.Module, exceptions: Set[str]) -> str | None:
    """The name of a class that is not derived from one of these exceptions."""
    known = set(exceptions)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            if not any(isinstance(base, ast.Name) and base.id in known for base in node.bases):
                return node.name
            known.add(node.name)
    return None


def _list_called(node: ast.AST) -> list[ast.expr]:
    """What a node calls, or hands over to be called."""
    match node:
        case ast.Call(func=ast.Name(id="map" | "filter" | "reduce") as function, args=[first, *_]):
            return [function, first]
        case ast.Call(func=called) | ast.keyword(arg="key", value=called):
            return [called]
    return []


def find_aliases(tree: ast.Module, names: set[str]) -> set[str]:
    """Return `names` and the names to which one of them is assigned."""
    found = set(names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in found:
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def _is_call(node: ast.AST, *names: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _is_naming_attribute(node: ast.AST) -> bool:
    second = node.args[1] if isinstance(node, ast.Call) and len(node.args) > 1 else None
    return isinstance(second, ast.Constant) and second.value not in _EXECUTING


def _iterate_imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def _iterate_paths(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """(bound name, path of modules and name) of what is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from {n.asname or n.name.partition(".")[0]: n.name.split(".") for n in node.names}.items()
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")
            yield from ((n.asname or n.name, [*module, n.name]) for n in node.names)


def _is_using_numpy_to_compute(tree: ast.Module) -> bool:
    """Whether a test uses the listed parts of numpy only, each by its name."""
    imports = [(name, path[1:]) for name, path in _iterate_paths(tree) if path[0] == "numpy"]
    bound = {name for name, _ in imports}
    parts = {part for _, path in imports for part in path}
    roots: set[int] = set()
    for node in ast.walk(tree):
        root: ast.AST = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(node, ast.Attribute) and isinstance(root, ast.Name) and root.id in bound:
            parts.add(node.attr)
            roots.add(id(root))
    uses = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    return parts <= _OF_NUMPY and all(node.id not in bound or id(node) in roots for node in uses)


def _is_harmless(module: str, tree: ast.Module, names: InterpreterNames) -> bool:
    """A module outside the standard library that the judge lacks is not loaded at all."""
    if module == "numpy":
        return _is_using_numpy_to_compute(tree)
    if module in _MODULES or module not in names.modules:
        return True
    return module in _CONSTANTS and _is_using_constants(tree, module, _CONSTANTS[module])


def _is_using_constants(tree: ast.Module, module: str, allowed: set[str]) -> bool:
    """Whether a test uses these constants of a module only, each by its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == module and {n.name for n in node.names} - allowed:
            return False
        if isinstance(node, ast.Import) and any(n.name.startswith(f"{module}.") or n.asname for n in node.names):
            return False
    uses = {id(node) for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == module}
    named = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in allowed}
    return uses <= named


def _is_singleton(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and any(node.value is value for value in (None, True, False, ...))


def _find_result_names(tree: ast.Module, proxies: set[str]) -> set[str]:
    """Return the names that may hold a value that the candidate returned or raised."""
    bindings: list[tuple[ast.AST, ast.expr]] = []
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                bindings += [(target, value) for target in targets]
            case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                bindings.append((target, value))
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                bindings.append((target, value))
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                bindings.append((target, value))
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                bindings.append((target, value))
            case ast.ExceptHandler(name=str(name)):
                found.add(name)
    size = -1
    while size != len(found):
        size = len(found)
        for bound, source in bindings:
            is_alias = isinstance(source, ast.Name) and source.id in proxies
            if not is_alias and _is_mentioning(source, found | proxies):
                found |= {n.id for n in ast.walk(bound) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return found


def _is_mentioning(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(node))


def _is_result(node: ast.expr, results: set[str], proxies: set[str]) -> bool:
    """Return whether an expression is a result of the candidate: a call of it, or a name or an item of a result."""
    match node:
        case ast.Subscript(value=value) | ast.Starred(value=value):
            return _is_result(value, results, proxies)
        case ast.Call(func=ast.Name(id=name)):
            return name in proxies
    return isinstance(node, ast.Name) and node.id in results
