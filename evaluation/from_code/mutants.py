"""Mutants: copies of a function with one small fault each, to measure how many faults its test notices; and bodies
without content, none of which may pass.

Messages of exceptions and docstrings stay as they are, because tests seldom compare them.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation.datasets import Task
from evaluation.from_code.misreadings import list_misreadings
from evaluation.from_code.operators import MutationContext, list_mutations
from evaluation.from_code.oversights import (
    find_conditions_after_guards,
    find_preceding_tests,
    find_stored_parameters,
    pair_defaults,
)
from evaluation.project_tests.splice import iterate_functions
from evaluation.source import FunctionNode, find_compile_error, list_arguments, list_positional_arguments, unparse

_SIMPLE = ast.Constant | ast.Name | ast.Attribute
_IDENTITY = (ast.Is, ast.IsNot)
"""What is compared with these stays: the identity of a number or text says nothing."""
_STORED_BODIES = ("pass", 'return ""', "return 0", "return True", "return []", "return {}", "raise ValueError")


@dataclass(frozen=True)
class Mutant:
    """The source of a function with one fault. `operator` names the kind of fault, `line` counts in the original."""

    source: str
    operator: str
    line: int


@dataclass(frozen=True)
class FunctionUse:
    """What is known of a function beside its source.

    `owner` is its class, `fixed` are parameters and attributes that have one value in all cases, `has_none` says
    whether it returns None beside values that can be empty, `optional` are parameters that are None in some cases,
    `arriving` the names of exceptions that what it calls raises, and `types` those of its parameters and (as "return")
    of its results, where each has one.
    """

    owner: ast.ClassDef | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)
    has_none: bool = False
    optional: Collection[str] = ()
    arriving: Sequence[str] = ()
    types: Mapping[str, str] = field(default_factory=dict)


_UNKNOWN_USE = FunctionUse()


def build_mutants(function: FunctionNode, limit: int, use: FunctionUse = _UNKNOWN_USE) -> list[Mutant]:
    """At most `limit` mutants of a function that all differ, taken from each operator in turn.

    The choice depends on the arguments alone.
    """
    original = ast.unparse(function)
    defaults = _find_defaults(function, use.owner) | {name: ast.Constant(value) for name, value in use.fixed.items()}
    context = MutationContext(
        _list_local_names(function), list_parameters(function), defaults, use.has_none,
        find_stored_parameters(function), find_preceding_tests(function), find_conditions_after_guards(function),
        {*use.optional, *_find_none_defaults(function)}, _list_attributes(function),
        use.owner.name if use.owner else "",
    )  # fmt: skip
    found: dict[str, Mutant] = {}
    elsewhere = (*_swallow_exceptions(function, use.arriving), *list_misreadings(function, use.types))
    for operator, line, source in (*_list_faulty(function, context), *elsewhere):
        if source != original and source not in found:
            found[source] = Mutant(source, operator, line)
    queues: dict[str, list[Mutant]] = {}
    for mutant in sorted(found.values(), key=lambda m: hashlib.sha256(m.source.encode("utf-8", "replace")).digest()):
        queues.setdefault(mutant.operator, []).append(mutant)
    chosen: list[Mutant] = []
    while len(chosen) < limit and any(queues.values()):
        for operator in sorted(queues):
            while queues[operator] and len(chosen) < limit:
                mutant = queues[operator].pop(0)
                if find_compile_error(mutant.source) is None:
                    chosen.append(mutant)
                    break
    return sorted(chosen, key=lambda mutant: (mutant.line, mutant.operator, mutant.source))


def _find_defaults(function: FunctionNode, owner: ast.ClassDef | None) -> dict[str, ast.expr]:
    """The simple defaults of the parameters by name, and those of the constructor's parameters (also what replaces None
    in it) by `self.NAME`: an attribute of that name usually holds it."""
    found = _read_defaults(function.args)
    for each in owner.body if owner else ():
        if isinstance(each, ast.FunctionDef) and each.name == "__init__" and each is not function:
            defaults = _read_defaults(each.args) | dict(_find_values_for_none(each))
            found |= {f"self.{name}": value for name, value in defaults.items()}
    return found


def _read_defaults(arguments: ast.arguments) -> dict[str, ast.expr]:
    return {name: value for name, value in pair_defaults(arguments) if isinstance(value, _SIMPLE)}


def _find_values_for_none(constructor: FunctionNode) -> Iterator[tuple[str, ast.expr]]:
    """The parameters that get another value where they are None, with it: `if NAME is None: NAME = VALUE`."""
    parameters = list_parameters(constructor)
    for each in ast.walk(constructor):
        match each:
            case ast.If(
                test=ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]),
                body=[ast.Assign(targets=[ast.Name(id=assigned)], value=value)],
            ) if name == assigned and isinstance(value, _SIMPLE):
                if not (isinstance(value, ast.Name) and value.id in parameters):
                    yield name, value


def _list_attributes(function: FunctionNode) -> list[str]:
    """The attributes of `self` that a function uses and does not call, in the order of their names."""
    nodes = list(ast.walk(function))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    own = (n for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "self")
    return sorted({node.attr for node in own if id(node) not in called})


def _find_none_defaults(function: FunctionNode) -> set[str]:
    """The parameters whose default is None."""
    defaults = _read_defaults(function.args).items()
    return {name for name, value in defaults if isinstance(value, ast.Constant) and value.value is None}


def list_parameters(function: FunctionNode) -> list[str]:
    """The names of the parameters, in the order of the signature, without `*` and `**`."""
    return [each.arg for each in list_arguments(function.args)]


def _list_local_names(function: FunctionNode) -> list[str]:
    """Parameters and variables, in the order of their names."""
    stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return sorted({*list_parameters(function), *stored})


def _list_faulty(function: FunctionNode, context: MutationContext) -> Iterator[tuple[str, int, str]]:
    """(operator, line, source) of the function with each fault at each place, in a fixed order."""
    function = copy.deepcopy(function)  # it is changed, and other threads read the tree that it stands in
    for node, parent, (name, index) in list(_walk_mutable_nodes(function)):
        for operator, variants in list_mutations(node, context):
            for replacement in variants:
                _replace_child(parent, name, index, ast.fix_missing_locations(replacement))
                if (source := unparse(function)) is not None:
                    yield operator, node.lineno, source
                _replace_child(parent, name, index, node)


def _swallow_exceptions(function: FunctionNode, names: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """The function that returns None where one of these exceptions arrives."""
    n_docstrings = int(ast.get_docstring(function, clean=False) is not None)
    for name in names:
        handler = ast.ExceptHandler(ast.Name(name, ast.Load()), None, [ast.Return(None)])
        caught = copy.copy(function)
        caught.body = [*function.body[:n_docstrings], ast.Try(function.body[n_docstrings:], [handler], [], [])]
        if (source := unparse(ast.fix_missing_locations(caught))) is not None:
            yield "handler", function.lineno, source


def _replace_child(parent: ast.AST, name: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, name, node)
    else:
        getattr(parent, name)[index] = node


def _walk_mutable_nodes(
    function: FunctionNode,
) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST, tuple[str, int | None]]]:
    """The statements and expressions of the body with parents and places in these; annotations, asserts, docstring
    and raised expressions left out."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    todo: list[tuple[ast.AST, ast.AST, tuple[str, int | None]]] = [
        (node, function, ("body", function.body.index(node))) for node in body
    ]
    while todo:
        node, parent, place = todo.pop(0)
        if isinstance(node, ast.expr | ast.stmt):
            yield node, parent, place
        for name, value in ast.iter_fields(node):
            skipped = name in ("annotation", "returns", "decorator_list") or isinstance(node, ast.Raise | ast.Assert)
            identity = isinstance(node, ast.Compare) and isinstance(node.ops[0], _IDENTITY) and name == "comparators"
            if skipped or identity or name == "format_spec":
                continue
            if isinstance(value, ast.AST):
                todo.append((value, node, (name, None)))
            elif isinstance(value, list):
                todo.extend((each, node, (name, i)) for i, each in enumerate(value) if isinstance(each, ast.AST))


def list_identities(function: FunctionNode, is_generator: bool) -> list[str]:
    """The function with bodies that give an argument back."""
    names = [argument.arg for argument in list_arguments(function.args, starred=True)]
    return _replace_body(
        function, [*(f"return {name}" for name in names), *_list_yields(function, names, is_generator)]
    )


def list_trivial_variants(function: FunctionNode, raised: Sequence[str], is_generator: bool) -> list[str]:
    """The function with bodies that have no content: nothing, a constant, one of its arguments, an exception.

    `raised` are the exceptions that the original was seen to raise.
    """
    names = [argument.arg for argument in list_arguments(function.args, starred=True)]
    constants = ("None", '""', "0", "1", "[]", "{}", "()", "True", "False", 'b""', "set()")
    bodies = ["pass", *(f"return {text}" for text in (*constants, *names))]
    bodies += [f"raise {name}" for name in dict.fromkeys(("Exception", "NotImplementedError", *raised))]
    return _replace_body(function, [*bodies, *_list_yields(function, ("()", *names), is_generator)])


def _list_yields(function: FunctionNode, names: Sequence[str], is_generator: bool) -> list[str]:
    can_yield_from = is_generator and not isinstance(function, ast.AsyncFunctionDef)
    return [f"yield from {name}" for name in names] if can_yield_from else []


def _replace_body(function: FunctionNode, bodies: Sequence[str]) -> list[str]:
    """The function with each of these bodies, without repetitions."""
    found = []
    for body in bodies:
        fields = {**dict(ast.iter_fields(function)), "body": ast.parse(f"def f():\n {body}").body[0].body}  # type: ignore[attr-defined]
        found.append(ast.unparse(ast.fix_missing_locations(ast.copy_location(type(function)(**fields), function))))
    return list(dict.fromkeys(found))


def list_trivial_completions(task: Task) -> list[str]:
    """Completions of a stored task's prompt that do nothing, return a constant or the last argument, or raise: to count
    how many tasks one of them passes, independently of `list_trivial_variants`, which left such tasks out."""
    solution = task.canonical_solution
    margin = solution[: len(solution) - len(solution.lstrip())]
    functions = [node for name, node in iterate_functions(task.build_program(solution)) if name == task.entry_point]
    arguments = [each.arg for node in functions[-1:] for each in list_positional_arguments(node.args)]
    return [f"{margin}{body}\n" for body in (*_STORED_BODIES, *(f"return {name}" for name in arguments[-1:]))]
