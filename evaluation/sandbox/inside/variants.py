"""Runs tests on variants of one function, one after the other, in the process that collected the tests once.

Collecting costs more than most tests. So a variant takes the place of the function's code, the tests run until one
fails, and the original has to pass that test at once: else the process is no longer what it was, and ends.
The variants are Bassline's own, never a model's answer.
"""

from __future__ import annotations

import ast
import gc
import signal
import time
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_CPU_S, _WALL_S = 0.5, 5.0
_TIMES_THE_ORIGINAL = 10
_AGAIN_S = 1.0
"""Seconds until VariantTimeoutError is raised again in a variant that caught it."""


class VariantTimeoutError(BaseException):
    """Ends a variant that needs many times what the original does."""


class VariantRuns:
    """The runs. `run_item` runs one test and returns whether it passed; `report` sends a frame."""

    def __init__(
        self, code: types.CodeType, job: Mapping[str, Any], run_item: Callable[[Any, Any], bool],
        report: Callable[[dict[str, Any]], None],
    ) -> None:  # fmt: skip
        self._module = code
        self._job = job
        self._run_item = run_item
        self._report = report
        self._timer = _VariantTimer()
        self._items: Sequence[Any] = ()
        self._seconds: dict[Any, float] = {}
        self._globs: dict[Any, dict[str, Any]] = {}

    def run(self, items: Sequence[Any]) -> None:
        """Run the tests with the original, then with each variant."""
        self._items = items
        self._globs = {item: dict(item.dtest.globs) for item in items if getattr(item, "dtest", None) is not None}
        cpu_start_s, wall_start_s = time.process_time(), time.monotonic()
        passed = self._run_until_failure() is None
        cpu_s, wall_s = time.process_time() - cpu_start_s, time.monotonic() - wall_start_s
        self._report({"original": passed})
        original = find_code(self._module, self._job["qualified"], self._job["line"])
        functions = [] if original is None else find_functions(original)
        if not passed or original is None or not functions:
            return
        n_unkilled = 0
        for number, source in enumerate(self._job["variants"]):
            if n_unkilled > self._job["max_unkilled"]:
                return
            self._report({"tried": number + 1})
            n_unkilled += 1
            variant = _compile_variant(source, self._job["qualified"], original)
            if variant is None:
                continue
            for function in functions:
                function.__code__ = variant
            failed_item, in_time = self._timer.limit(self._run_until_failure, cpu_s, wall_s)
            for function in functions:
                function.__code__ = original
            has_survived = in_time and failed_item is None
            if has_survived:
                continue
            if not self._passes_again(items[0] if failed_item is None else failed_item):
                return
            if in_time:
                n_unkilled -= 1
                self._report({"killed": number})

    def _run_until_failure(self) -> Any:
        """Run the tests; return the first that fails, None if none does."""
        # The quick ones come first, as soon as the original has shown which those are.
        ordered = sorted(self._items, key=lambda item: self._seconds.get(item, 0.0))
        for item, following in zip(ordered, [*ordered[1:], None], strict=True):
            self._restore_globals(item)
            started = time.process_time()
            if not self._run_item(item, following):
                return item
            self._seconds.setdefault(item, time.process_time() - started)
        return None

    def _passes_again(self, item: Any) -> bool:
        """Whether the original passes a test now, so that the variant before it spoilt nothing."""
        self._restore_globals(item)
        # Without a next test it also ends the fixtures that tests before it share with those after it.
        return self._run_item(item, None)

    def _restore_globals(self, item: Any) -> None:
        if item in self._globs:  # doctest clears them after each run
            item.dtest.globs.update(self._globs[item])


class _VariantTimer:
    """Ends what takes too long: CPU time kills a variant, other time says nothing, since it depends on the machine."""

    def __init__(self) -> None:
        self._armed = False
        self._waited = False

    def limit(self, run: Callable[[], Any], cpu_s: float, wall_s: float) -> tuple[Any, bool]:
        """What `run` returns, and whether that counts: not where it waited too long, nor where the timer struck outside
        a test."""
        self._armed, self._waited = True, False
        signal.signal(signal.SIGPROF, self._end)
        signal.signal(signal.SIGALRM, self._end)
        signal.setitimer(signal.ITIMER_PROF, _CPU_S + _TIMES_THE_ORIGINAL * cpu_s, _AGAIN_S)
        signal.setitimer(signal.ITIMER_REAL, _WALL_S + _TIMES_THE_ORIGINAL * wall_s, _AGAIN_S)
        result = None
        try:
            result = run()
        except VariantTimeoutError:
            self._waited = True
        finally:
            self._armed = False
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
        return result, not self._waited

    def _end(self, number: int, _frame: Any) -> None:
        if self._armed:
            self._waited = self._waited or number == signal.SIGALRM
            raise VariantTimeoutError


def find_code(module: types.CodeType, qualified: str, line: int) -> types.CodeType | None:
    """The code of a function in its module's; of several, the last one that begins at `line` or before."""
    places = [module]
    for name in qualified.split("."):
        places = [
            code for place in places for code in place.co_consts
            if isinstance(code, types.CodeType) and code.co_name == name
        ]  # fmt: skip
    earlier = (code for code in places if code.co_firstlineno <= line)
    return max(earlier, key=lambda code: code.co_firstlineno, default=None)


def find_functions(code: types.CodeType) -> list[Any]:
    """The functions that have this code."""
    return [
        each for each in gc.get_referrers(code)
        if isinstance(each, types.FunctionType) and each.__code__ is code
    ]  # fmt: skip


def _compile_variant(source: str, qualified: str, original: types.CodeType) -> types.CodeType | None:
    """The code of a variant, None where the original's functions cannot take it."""
    flags = original.co_flags & 0x1000000  # from __future__ import annotations
    try:
        tree = ast.parse(source)
        if "__class__" in original.co_freevars:
            _name_class(tree, qualified)
        module = compile(tree, original.co_filename, "exec", dont_inherit=True, flags=flags)
    except (SyntaxError, ValueError, RecursionError):
        return None
    last_line = len(source.splitlines())
    code = find_code(module, qualified, last_line)
    return code if code is not None and code.co_freevars == original.co_freevars else None


def _name_class(tree: ast.Module, qualified: str) -> None:
    """Let the variant name `__class__`, as an original with `super()` does, since its functions have a cell for it."""
    place: Any = tree
    for name in qualified.split("."):
        place = next(node for node in place.body if getattr(node, "name", "") == name)
    place.body[:0] = ast.parse("if 0: __class__").body
    ast.fix_missing_locations(tree)
