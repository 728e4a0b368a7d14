"""Runs in the sandbox, beside the answer: loads the module with the answer in it, rebuilds objects, calls.

Everything here may be changed by the answer. That decides nothing: what is expected stays outside, and only trees of
values leave. Only for variants, which are ours, the expected outcomes come along (`try_variant`).
"""

from __future__ import annotations
import __future__

import ast
import builtins
import importlib
import itertools
import json
import sys
import textwrap
import types
from collections.abc import Callable
from typing import Any

from evaluation.from_code.placing.definitions import (
    CAPTURE,
    is_future,
    is_lazy,
    is_type_checking,
    list_bound_names,
    render_module,
)
from evaluation.from_code.placing.expected_case import ExpectedCase
from evaluation.from_code.placing.sharing import list_shared
from evaluation.from_code.placing.steps import (
    FILE,
    MAX_STEPS,
    MUTANT_CPU_S,
    MUTANT_STEPS,
    VIEW_STEPS,
    ArcTracer,
    CallStopped,
    CpuTimer,
    StepCounter,
    ViewCounter,
)
from evaluation.from_code.placing.task_modules import TaskModuleFinder
from evaluation.from_code.placing.tree_equality import agrees, match_views
from evaluation.from_code.placing.views import read_views
from evaluation.from_code.recording import values

MAX_ITEMS = 200
MAX_MESSAGE = 500
"""Characters of what an exception says."""


class PlacedAnswer:
    """The answer in its module. Raises SyntaxError for a text that does not define the function."""

    def __init__(self, spec: dict[str, Any], answer: str, compile_module: Callable[[str, str, str], Any]) -> None:
        self.spec = spec
        self.function: Any = None
        self.left: dict[int, Any] = {}  # the containers that calls left, by id
        self.loaded: set[str] = set()  # the modules that `observe` named
        self.cases: list[ExpectedCase] = []  # that variants are tried on
        tree = ast.parse(answer, FILE)
        source, definition = render_module(spec, tree)
        modules = dict(spec["modules"])
        self.last = source.count("\n") - spec["after"].count("\n")
        modules[spec["name"]] = (spec["package"], source)
        for name in [name for name in sys.modules if name in modules or name == spec["name"]]:
            del sys.modules[name]
        sys.meta_path.insert(0, TaskModuleFinder(modules, spec["codes"], compile_module))
        setattr(builtins, CAPTURE, self._capture)
        self.module = importlib.import_module(spec["name"])
        self._run_other_statements(tree, definition, source)
        if self.function is None:
            raise NameError(f"{spec['function']} is not defined when its module is imported")
        self.first: int = self.function.__code__.co_firstlineno  # of its first decorator

    def _capture(self, function: Any) -> Any:
        self.function = function
        return function

    def _run_other_statements(self, tree: ast.Module, definition: Any, source: str) -> None:
        """Run the other statements of the answer, in its order, without what the module has already."""
        others = [n for n in tree.body if not is_future(n) and all(inner is not definition for inner in ast.walk(n))]
        if not others:
            return
        known = set(vars(self.module))
        own: set[str] = set()
        written = ast.parse(source).body
        checked = {name for node in written if is_type_checking(node) for name in list_bound_names(node)}
        lazy = __future__.annotations.compiler_flag if any(map(is_lazy, [*written, *tree.body])) else 0
        for node in others:
            names = list_bound_names(node)
            if is_type_checking(node) and names <= known | checked:
                continue
            if not names and not own:
                own = {ast.dump(each) for each in written}
            if not names <= known or (not names and ast.dump(node) not in own):
                code = compile(ast.Module([node], []), FILE, "exec", dont_inherit=True, flags=lazy)
                try:
                    exec(code, self.module.__dict__)
                except ImportError:
                    if not (isinstance(node, (ast.Import, ast.ImportFrom)) and names <= known | checked):
                        raise

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; a coroutine is run to its end."""
        return run_coroutine(self.function(*args, **kwargs))

    def run_to_json(self, text: str) -> str:
        """What a call does, as JSON."""
        return json.dumps(self.run_call(text, self.function))

    def run_call(self, text: str, function: Any, tracer: Any = None) -> dict[str, Any]:
        """What a call does; with a `tracer`, rebuilt arguments are compared, and `dependent` names the views of
        objects that run the function."""
        row, every = self._run_without_views(text, function, tracer, compare_rebuilt=bool(tracer))
        row = _parse_row_values(row)
        if shared := list_shared(every, self.left):
            row["shared"] = shared
        counter = ViewCounter(VIEW_STEPS if tracer else 0, function)
        seen = self._read_views(every, counter)
        if any(seen):
            row["seen"] = seen
            if tracer:
                row["dependent"] = [
                    _list_dependent(views, ran) for views, ran in zip(seen, counter.dependent, strict=True)
                ]
        return row

    def _run_without_views(
        self, text: str, function: Any, tracer: Any = None, compare_rebuilt: bool = False
    ) -> tuple[dict[str, Any], tuple[Any, ...]]:
        """What a call does without the views of objects, with its values as texts; and the values that may have views,
        arguments and result."""
        try:
            args, kwargs = values.read(text)
            if compare_rebuilt and values.serialize((args, kwargs)) != text:
                return {"refused": "is not the same when it is rebuilt"}, ()
        except (ValueError, values.UnwritableError, ImportError) as reason:
            return {"refused": f"cannot be rebuilt: {reason}"}, ()
        row: dict[str, Any] = {}
        sys.setprofile(tracer.note_hidden_input if compare_rebuilt else None)
        sys.settrace(tracer and tracer.trace)
        try:
            try:
                result = run_coroutine(function(*args, **kwargs))
                if hasattr(type(result), "__next__"):
                    row["iterator"] = True
                    result = list(itertools.islice(result, MAX_ITEMS + 1))
                elif hasattr(type(result), "__anext__"):
                    row["iterator"] = True
                    result = list(itertools.islice(iterate_async(result), MAX_ITEMS + 1))
            finally:
                sys.settrace(None)
                sys.setprofile(None)
        except CallStopped as reason:
            return {"refused": str(reason)}, ()
        except BaseException as error:
            raised = [kind.__name__ for kind in type(error).__mro__ if kind is not object]
            return {"raised": raised, "message": read_message(error)}, ()
        try:
            if "iterator" in row and len(result) > MAX_ITEMS:
                raise values.UnwritableError("too large")
            row["returned"] = values.serialize(result)
            after = values.serialize((args, kwargs))
        except values.UnwritableError as reason:
            return {"refused": str(reason), "iterator": "iterator" in row}, ()
        if after != text:
            row["after"] = after
        return row, (*args, *kwargs.values(), result)

    def _read_views(self, every: tuple[Any, ...], counter: ViewCounter) -> list[Any]:
        """The views of each value; none where they take too many steps."""
        sys.settrace(counter.trace if counter.limit else None)
        try:
            return [
                read_views(value, self._is_own, None, counter.start_value(place), counter.name)
                for place, value in enumerate(every)
            ]
        except CallStopped:
            return []
        finally:
            sys.settrace(None)

    def _is_own(self, kind: type) -> bool:
        return kind.__module__ in self.spec["modules"] or kind.__module__ == self.spec["name"]

    def observe(self, text: str) -> str:
        """The outcome of a call, with the lines that it took, and the names of the modules loaded since the last."""
        tracer = ArcTracer(MAX_STEPS, self.first, self.last)
        row = self.run_call(text, self.function, tracer)
        loaded = [name for name in self.spec["modules"] if name in sys.modules and name not in self.loaded]
        self.loaded.update(loaded)
        noted = {"arcs": sorted(tracer.arcs), "steps": tracer.steps, "hidden_inputs": sorted(tracer.hidden_inputs)}
        return json.dumps({**row, **noted, "loaded": loaded})

    def try_variant(self, command: str) -> str:
        """The numbers of the cases that a variant disagrees with, or only the first number; None where it cannot take
        the function's place here.

        The first command has the cases, and an empty one stands for the original, on all cases tried so far.
        """
        given = json.loads(command)
        if not self.cases:
            self.cases = [ExpectedCase(*each) for each in given]
            return "null"
        original = self.function.__code__
        if not given:
            tried = [number for number, case in enumerate(self.cases) if case.tried]
            return json.dumps(self._list_noticed(self.function, tried, stop_at_first=True))
        source, numbers, stop_at_first = given
        function = self._install_variant(source)
        found = None if function is None else self._list_noticed(function, numbers, stop_at_first)
        self.function.__code__ = original
        return json.dumps(found)

    def _list_noticed(self, function: Any, numbers: list[int], stop_at_first: bool) -> list[int]:
        noticed = []
        with CpuTimer(MUTANT_CPU_S) as timer:
            for number in numbers:
                try:
                    if timer.is_over or not self._matches_case(function, self.cases[number]):
                        noticed.append(number)
                except CallStopped:
                    noticed.append(number)
                if noticed and stop_at_first:
                    break
        return noticed

    def _matches_case(self, function: Any, case: ExpectedCase) -> bool:
        """Whether a variant does what a case expects. Views are compared where all else agrees, and of objects whose
        state is the original's only those that run the function."""
        case.tried = True
        row, every = self._run_without_views(
            case.call, function, StepCounter(case.steps * MUTANT_STEPS + MAX_STEPS // 20)
        )
        if not (case.repeats(row) or agrees(_parse_row_values(row), case.without_views, case.tree)):
            return False
        if not case.shared.issuperset(list_shared(every)):
            return False
        counter = ViewCounter(VIEW_STEPS * MUTANT_STEPS, function)
        for value, views, names in zip(every, case.seen, case.list_wanted(row), strict=False):
            if not names:
                continue
            sys.settrace(counter.trace)
            try:
                got = read_views(value, self._is_own, names, judged=counter.name)
            except CallStopped:
                return False
            finally:
                sys.settrace(None)
            if not match_views([got], [[view for view in views if view[0] in names]]):
                return False
        return True

    def _install_variant(self, source: str) -> Any:
        """Put a variant's code into the function and return it; None where that fails."""
        *path, name = self.spec["function"].split(".")
        text = source
        for part in reversed(path):
            text = f"class {part}:\n" + textwrap.indent(text, " ")
        tree = ast.parse(text, FILE)
        if "__class__" in self.function.__code__.co_freevars:
            _name_class(tree)
        code: Any = compile(tree, FILE, "exec", dont_inherit=True, flags=self._get_compile_flags())
        for part in (*path, name):
            code = next((c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == part), None)
            if code is None:
                return None
        try:
            self.function.__code__ = code
        except ValueError:
            return None
        return self.function

    def _get_compile_flags(self) -> int:
        return int(self.function.__code__.co_flags) & 0x1000000  # from __future__ import annotations


def _name_class(tree: ast.Module) -> None:
    """Let the function in the innermost class name `__class__`, as an original with `super()` does: only code with the
    same free variables can take its place."""
    place: Any = tree.body[-1]
    while isinstance(place, ast.ClassDef):
        place = place.body[-1]
    place.body.insert(0, ast.parse("if 0: __class__").body[0])
    ast.fix_missing_locations(tree)


def _parse_row_values(row: dict[str, Any]) -> dict[str, Any]:
    """What a call did, with its values as trees."""
    return {name: json.loads(part) if name in ("returned", "after") else part for name, part in row.items()}


def _list_dependent(views: list[Any], ran: set[str]) -> list[str]:
    """The names of the views that ran the function. Where a shared part (`()`, `.`) did, all its views count."""
    return [
        name for name, _ in views
        if name in ran or ("()" in ran and name.endswith("()")) or ("." in ran and "." in name)
    ]  # fmt: skip


def read_message(error: BaseException) -> str:
    """What an exception says, the first MAX_MESSAGE characters."""
    try:
        return str(error)[:MAX_MESSAGE]
    except Exception:
        return ""


def run_coroutine(result: Any) -> Any:
    """The result of a coroutine, another value as it is."""
    if type(result) is not types.CoroutineType:
        return result
    try:
        result.send(None)
    except StopIteration as end:
        return end.value
    result.close()
    raise CallStopped("waits for an event loop")


def iterate_async(iterator: Any) -> Any:
    """The items of an asynchronous iterator."""
    while True:
        step = type(iterator).__anext__(iterator)
        try:
            step.send(None)
        except StopIteration as end:
            yield end.value
            continue
        except StopAsyncIteration:
            return
        raise CallStopped("waits for an event loop")
