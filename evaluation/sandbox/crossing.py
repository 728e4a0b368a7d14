"""Decides whether a test can run against a proxy, in another process, and whether it needs the prompt there.

The decision depends on the task and the sandbox's Python, never on the candidate: a candidate that could influence it
would choose how far its verdict is trusted.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from evaluation.sandbox import obstacles
from evaluation.sandbox.interpreter import InterpreterNames
from evaluation.source import parse, parse_open

CANONICAL = "canonical_solution"
"""A test may call its task's own solution by this name. It runs in the checker, where no program can see it."""


@functools.lru_cache(maxsize=4096)
def find_obstacle(prompt: str, test: str, entry_point: str, names: InterpreterNames) -> str | None:
    """Return why the test cannot run against a proxy, in a few words, or None where it can.

    `names` are the names that the sandbox's Python defines.

    It cannot if it passes functions or classes to the candidate, uses an attribute of it, needs one of its classes,
    uses other names that only the candidate defines, or breaks a rule of `obstacles`. A test that does not compile is
    left to the checker, which reports it.
    """
    tree = parse(test)
    if tree is None:
        return None
    tree = _ConstantDropper().visit(tree)
    prompt_tree = parse_open(prompt) or ast.Module([], [])
    if any(isinstance(node, ast.ClassDef) and node.name == entry_point for node in prompt_tree.body):
        return "the entry point is a class"
    checks = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    parameters = {node.args.args[0].arg for node in checks if node.args.args}
    proxies = obstacles.find_aliases(tree, {entry_point, *parameters})
    bound = _find_bound_names(tree) | _find_bound_names(prompt_tree)
    unknown = _find_used_names(tree) - bound - names.builtins - {entry_point, "__name__", CANONICAL}
    return (
        obstacles.find_execution(tree, names)
        or (obstacles.find_execution(prompt_tree, names) if needs_prompt(prompt, test, entry_point) else None)
        or obstacles.find_identity_comparison(tree)
        or obstacles.find_async_use(tree, prompt_tree, entry_point)
        or obstacles.find_own_type_use(tree, prompt_tree, proxies, names)
        or _find_function_use(tree, prompt_tree, proxies, names)
        or (f"the test uses {min(unknown)!r}, which only the candidate defines" if unknown else None)
    )


def _find_function_use(tree: ast.Module, prompt: ast.Module, proxies: set[str], names: InterpreterNames) -> str | None:
    """An attribute of the candidate, or a function or class that it gets."""
    own = _find_callables(tree) | _find_callables(prompt)
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in proxies:
                return f"the test uses an attribute of the candidate ({attribute})"
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in proxies:
                passed = [part for each in (*args, *(k.value for k in keywords)) for part in _iterate_parts(each)]
                if any(_is_callable(part, own, names) for part in passed):
                    return "the test passes a function or class to the candidate"
    return None


@functools.lru_cache(maxsize=4096)
def needs_prompt(prompt: str, test: str, entry_point: str) -> bool:
    """Return whether the test uses a name that the prompt defines, other than the entry point."""
    tree = parse(test)
    if tree is None:
        return True
    used = _find_used_names(tree)
    bound = _find_bound_names(parse_open(prompt) or ast.Module([], [])) - {entry_point}
    return "*" in bound or bool(used & bound)


class _ConstantDropper(ast.NodeTransformer):
    """Leaves constants out of lists and the like: a test may hold 100,000 of them, and every rule reads the tree."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """The node without the constants among its items."""
        super().generic_visit(node)
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            node.elts = [part for part in node.elts if not self._is_constant(part)]
        return node

    def _is_constant(self, node: ast.expr) -> bool:
        match node:
            case ast.Constant() | ast.UnaryOp(operand=ast.Constant()) | ast.List([]) | ast.Tuple([]) | ast.Set([]):
                return True
        return False


def _find_callables(tree: ast.Module) -> set[str]:
    return {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}


def _iterate_parts(argument: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions that an argument passes: itself, or the items of a literal collection."""
    if isinstance(argument, ast.List | ast.Tuple | ast.Set):
        for item in argument.elts:
            yield from _iterate_parts(item)
    elif isinstance(argument, ast.Dict):
        for value in argument.values:
            yield from _iterate_parts(value)
    elif isinstance(argument, ast.Starred):
        yield from _iterate_parts(argument.value)
    else:
        yield argument


def _is_callable(part: ast.expr, own: set[str], names: InterpreterNames) -> bool:
    if isinstance(part, ast.Lambda):
        return True
    if isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
        # An instance of a class that the test defines cannot be sent either.
        return part.func.id[:1].isupper() and part.func.id in own
    return isinstance(part, ast.Name) and (part.id in own or part.id in names.callables)


def _find_used_names(tree: ast.Module) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def _find_bound_names(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                names.add(name)
            case ast.alias(name=name, asname=asname):
                names.add((asname or name).split(".")[0])
    return names
