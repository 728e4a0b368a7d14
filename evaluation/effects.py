"""The effects of a program's top-level statements, read from their source; nothing is executed.

After the function that it was asked for, an answer may hold statements that the function needs (a loop that fills a
table) and statements that demonstrate it (calls, prints, input). Their effects distinguish the two.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from evaluation.source import FILENAME, FunctionNode, compares_module_name, list_bound_names

_BUILTINS = frozenset(dir(builtins))
_CHANGING_BUILTINS = {"setattr", "delattr", "next"}
_ENDING_CALLS = {"input", "exit", "quit", "breakpoint", "_exit"}
_DEMONSTRATING_MODULES = {"unittest", "doctest", "pytest", "timeit", "cProfile"}
_SETTINGS = {"setrecursionlimit", "set_int_max_str_digits", "stack_size", "seed"}
"""Functions that programs call to change a setting of their module."""

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)


@dataclass(slots=True)
class Effects:
    """Module-level names that a statement reads (in the bodies of its functions too), binds, and whose objects it may
    change. `changes_settings`: it sets a limit or a seed. `demonstrates`: it uses the function asked for or a test
    module, compares `__name__`, waits for input, asserts, or ends the program."""

    reads: set[str] = field(default_factory=set)
    binds: set[str] = field(default_factory=set)
    changes: set[str] = field(default_factory=set)
    changes_settings: bool = False
    demonstrates: bool = False

    @property
    def provides(self) -> set[str]:
        """The names whose value or content the statement changes."""
        return self.binds | self.changes


class ProgramEffects:
    """The effects of a program's top-level statements and of the functions that they call."""

    def __init__(self, body: list[ast.stmt], entry_point: str) -> None:
        self._entry = entry_point
        imports = [n for n in body if isinstance(n, ast.Import)]
        self._modules = {name for node in imports for name in list_bound_names(node)}
        self._functions = {node.name: node for node in body if isinstance(node, FunctionNode)}
        self._call_effects: dict[str, Effects] = {}

    def compute_effects(self, node: ast.stmt) -> Effects:
        """The effects of running this statement."""
        effects = Effects(reads=find_names_read(node), binds=list_bound_names(node))
        if not isinstance(node, DEFINITIONS):
            loop_targets = self._add_effects([node], effects)
            effects.demonstrates |= self._entry in loop_targets
            shown = any(isinstance(n, ast.Name) and n.id == self._entry and _is_load(n) for n in _walk([node]))
            rebinds = isinstance(node, ast.Assign | ast.AnnAssign)
            effects.demonstrates |= shown and not rebinds and self._entry not in effects.changes
        return effects

    def _add_effects(self, nodes: Iterable[ast.AST], effects: Effects) -> set[str]:
        """Add the effects of these nodes; return the names that loops and with-blocks bind as targets."""
        passing: set[str] = set()
        for node in _walk(nodes):
            match node:
                case ast.Assert():
                    effects.demonstrates = True
                case ast.For() | ast.AsyncFor():
                    passing |= _find_target_names(node.target)
                    effects.binds |= {name for inner in node.body for name in list_bound_names(inner)}
                case ast.While():
                    effects.binds |= {name for inner in node.body for name in list_bound_names(inner)}
                case ast.withitem(optional_vars=ast.expr() as target):
                    passing |= _find_target_names(target)
                case ast.Subscript() | ast.Attribute() if not _is_load(node):
                    effects.changes |= find_root_name(node)
                case ast.Attribute(attr="stdin"):
                    effects.demonstrates = True
                case ast.Compare() if compares_module_name(node):
                    effects.demonstrates = True
                case ast.Call():
                    self._add_call_effects(node, effects)
        return passing

    def _add_call_effects(self, node: ast.Call, effects: Effects) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else None
        attribute = node.func.attr if isinstance(node.func, ast.Attribute) else None
        root = find_root_name(node.func)
        effects.demonstrates |= (name or attribute) in _ENDING_CALLS or name == self._entry
        effects.demonstrates |= bool(root & _DEMONSTRATING_MODULES)
        effects.changes_settings |= (name or attribute) in _SETTINGS
        if attribute is not None:
            effects.changes |= root - self._modules
        if name is None or name not in _BUILTINS or name in _CHANGING_BUILTINS:
            effects.changes |= {a.id for a in node.args if isinstance(a, ast.Name)} - {self._entry}
        if name in self._functions:
            called = self._find_call_effects(name)
            effects.changes |= called.provides
            effects.demonstrates |= called.demonstrates

    def _find_call_effects(self, name: str) -> Effects:
        """The effects of a call of one of the program's functions on names outside the function."""
        if name not in self._call_effects:
            self._call_effects[name] = effects = Effects()  # a recursive call reads this entry
            function = self._functions[name]
            self._add_effects(function.body, effects)
            shared = find_names_read(function)
            declared = {n for node in _walk(function.body) if isinstance(node, ast.Global) for n in node.names}
            effects.changes &= shared | declared
            effects.binds = declared
        return self._call_effects[name]


def find_names_read(node: ast.stmt) -> set[str]:
    """Module-level names that a statement reads when it runs, or that functions in it read when they are called."""
    try:
        tables = [symtable.symtable(ast.unparse(node), FILENAME, "exec")]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and _is_load(n)}
    found: set[str] = set()
    for table in tables:
        tables += table.get_children()
        at_top = table.get_type() == "module"
        found |= {s.get_name() for s in table.get_symbols() if s.is_referenced() and (at_top or s.is_global())}
    return found


def is_builtin(name: str) -> bool:
    """Whether the name is defined in every program."""
    return name in _BUILTINS or name in ("__name__", "__file__", "__doc__")


def _walk(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes that run with the statement; bodies of functions that it defines do not."""
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if not isinstance(node, FunctionNode):
            yield node
            todo.extend(ast.iter_child_nodes(node))


def _is_load(node: ast.Name | ast.Attribute | ast.Subscript) -> bool:
    return isinstance(node.ctx, ast.Load)


def _find_target_names(target: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}


def find_root_name(node: ast.AST) -> set[str]:
    """The name that an expression such as a.b[0].c() starts from, as a set: empty where it starts from no name."""
    while True:
        match node:
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Call(func=inner):
                node = inner
            case ast.Name(id=name):
                return {name}
            case _:
                return set()
