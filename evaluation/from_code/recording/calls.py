"""Writes the calls of the chosen functions to a file: arguments copied before the call, and its outcome.

Nothing here runs the project's code, and nothing is raised into it: a call that cannot be written is not recorded.
Which calls are kept depends on their arguments alone: for each function, those whose digests are the smallest. So the
order of tests, threads and processes matters little, and a function called often has a sample spread over its
first MAX_EXAMINED calls in each process. A few of every shape (types of the arguments) and of every exception are
kept in addition, because a rare one is worth more than the next common one.

The tests run twice. The first run notes the digests of its calls, and the second one keeps only calls that repeat them:
arguments that depend on the time, a random number or a port are others in every run.
"""

from __future__ import annotations

import _thread
import functools
import hashlib
import heapq
import json
import sys
import types
from collections.abc import Callable
from typing import Any

from . import seen, values

MAX_CALLS = 120
"""Calls of a function."""
MAX_CALLS_OF_A_KIND = 4
"""Calls of a function with one shape, or with one exception."""
MAX_EXAMINED = 1_000
"""Calls of a function that are examined in a process; later ones cost nothing."""
MAX_PARTS_WRITTEN = 8_000
"""Parts of values that are written for a function in a process."""
MAX_PARTS_REFUSED = 10_000
"""Parts of values that are looked at for a function in a process and cannot be written, most of them too large."""
_PARTS_BEFORE_SKIPPING = 4_000
"""Such parts until calls after a too large one are skipped: neighbours are alike, and would use up all parts in one
test."""
_MAX_SKIPPED = 15
"""Calls that are skipped after a too large one; fewer at first."""
_PARTS_OF_REFUSED = 50
"""Parts that unwritable arguments count for at least."""

_here = _thread._local()
"""`busy` while the recorder works in this thread: it calls functions of the standard library, which may be recorded."""
Entry = Callable[..., "_RunningCall | None"]
_lines = seen.LineWriter("", "calls")
_functions: dict[str, _RecordedFunction] = {}
_repeated: dict[str, frozenset[str]] | None = None


def start_recording(folder: str, repeated: str | None) -> None:
    """Records from now on into files in this folder, one for each process.

    `repeated` is a file with the digests of the calls of an earlier run, by function: only these are recorded. Without
    one, digests alone are.
    """
    global _lines, _repeated  # noqa: PLW0603  (one per process)
    _lines = seen.LineWriter(folder, "calls")
    if repeated is not None:
        with open(repeated, encoding="utf-8") as file:
            _repeated = {key: frozenset(digests) for key, digests in json.load(file).items()}


def get_entry(key: str, switch_off: Callable[[], None]) -> Entry:
    """What a recorded function calls first; `switch_off` is called when the later calls of the function count no more.

    It takes the parameters that a position can fill, what `*args` received, the parameters that need their names, and
    what `**kwargs` received. It returns None for a call that is not recorded.
    """
    function = _functions.get(key)
    if function is None:
        function = _functions[key] = _RecordedFunction(key, switch_off)
    return function.enter


class _RunningCall:
    """One call between its start and its end."""

    def __init__(self, function: _RecordedFunction, args: Any, kwargs: Any, before: str, digest: str) -> None:
        self.function, self.args, self.kwargs, self.before, self.digest = function, args, kwargs, before, digest
        self.shape = describe_shape(args, kwargs)

    def record_return(self, value: Any) -> None:
        """Records the end of the call."""
        _report_quietly(self._record_return, value)

    def record_generator(self) -> None:
        """Records a call of a generator function, at the start of its body."""
        _report_quietly(self._end, lambda: {"iterator": "generator"}, "")

    def record_exception(self, error: BaseException) -> None:
        """Records the exception that ended the call."""
        names = [kind.__name__ for kind in type(error).__mro__ if kind is not object]
        _report_quietly(self._end, lambda: {"raised": names}, names[0])

    def _record_return(self, value: Any) -> None:
        if hasattr(type(value), "__next__") or hasattr(type(value), "__anext__"):
            self._end(lambda: {"iterator": type(value).__name__}, "")
        else:
            self._end(lambda: {"returned": self._serialize_result(value)}, "")

    def _serialize_result(self, value: Any) -> str:
        try:
            return values.serialize(value)
        except values.UnwritableError:
            self.function.note_unwritable(value)
            raise

    def _end(self, describe_outcome: Callable[[], dict[str, Any]], exception: str) -> None:
        function, digest = self.function, self.digest
        groups = [("", MAX_CALLS), ("shape " + self.shape, MAX_CALLS_OF_A_KIND)]
        if exception:
            groups.append(("raised " + exception, MAX_CALLS_OF_A_KIND))
        if digest in function.kept or not any(function.has_place_for(digest, group, size) for group, size in groups):
            return
        # before the call takes a place: its result or changed arguments may be some that cannot be written
        outcome, after = describe_outcome(), values.serialize((self.args, self.kwargs))
        function.keep(digest, groups)
        line = {"function": function.key, "call": self.before, "digest": digest, "shape": self.shape, **outcome}
        if after != self.before:
            line["after"] = after
        _lines.write(line)


def _report_quietly(report: Any, *arguments: Any) -> None:
    """Report without raising into the project's code and without recording what reporting calls."""
    try:
        _here.busy = True
        report(*arguments)
    except Exception:
        return
    finally:
        _here.busy = False


class _RecordedFunction:
    """A function that is recorded: its defaults, and the digests kept so far, by group."""

    def __init__(self, key: str, switch_off: Callable[[], None]) -> None:
        self.key = key
        self.switch_off = switch_off
        self.examined = self.parts = self.parts_refused = 0
        self.skipped = self.to_skip = 0
        self.groups: dict[str, list[tuple[int, str]]] = {}
        self.kept: set[str] = set()
        self.refused: set[str] = set()
        self.defaults: dict[str, Any] | None = None

    def enter(
        self,
        named: tuple[tuple[str, Any], ...],
        rest: tuple[Any, ...],
        only: tuple[tuple[str, Any], ...],
        extra: dict[str, Any],
    ) -> _RunningCall | None:
        """The call that starts, None for one that is not recorded."""
        if getattr(_here, "busy", False):
            return None
        try:
            _here.busy = True
            if self.skipped < self.to_skip:
                self.skipped += 1
                return None
            self.examined += 1
            if (
                self.examined > MAX_EXAMINED
                or self.parts > MAX_PARTS_WRITTEN
                or self.parts_refused >= MAX_PARTS_REFUSED
            ):
                self.switch_off()
                return None
            if self.defaults is None:
                self.defaults = _find_defaults(sys._getframe(1), self.key)
            args, kwargs = self.split_arguments(named, rest, only, extra)
            try:
                before, parts = values.serialize_counted((args, kwargs))
            except values.UnwritableError as error:
                self.parts_refused += max(error.parts, _PARTS_OF_REFUSED)
                if error.parts > _PARTS_OF_REFUSED and self.parts_refused > _PARTS_BEFORE_SKIPPING:
                    self.skipped, self.to_skip = 0, min(2 * self.to_skip + 1, _MAX_SKIPPED)
                return None
            self.parts += parts
            self.to_skip = 0
            digest = hashlib.blake2b(before.encode(), digest_size=8).hexdigest()
            if digest in self.kept:
                return None
            if _repeated is None:  # of the outcome nothing is noted
                self.kept.add(digest)
                _lines.write({"function": self.key, "digest": digest})
                return None
            return _RunningCall(self, args, kwargs, before, digest) if digest in _repeated.get(self.key, ()) else None
        except Exception:
            return None
        finally:
            _here.busy = False

    def split_arguments(self, named: Any, rest: Any, only: Any, extra: Any) -> tuple[Any, Any]:
        """Arguments and keywords of the call. A parameter that holds its default object is left out."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        defaults = self.defaults or {}
        needs_name = False  # a parameter before was left out
        for name, value in named:
            if not rest and name in defaults and defaults[name] is value:
                needs_name = True
            elif needs_name:
                kwargs[name] = value
            else:
                args.append(value)
        args.extend(rest)
        for name, value in only:
            if not (name in defaults and defaults[name] is value):
                kwargs[name] = value
        kwargs.update(extra)
        return tuple(args), kwargs

    def has_place_for(self, digest: str, group: str, size: int) -> bool:
        """Whether a group of this size takes this digest: it is new and among the smallest there."""
        heap = self.groups.get(group, [])
        entry = (-int(digest, 16), digest)
        return entry not in heap and (len(heap) < size or entry > heap[0])

    def keep(self, digest: str, groups: list[tuple[str, int]]) -> None:
        """Put a digest into the groups that take it."""
        self.kept.add(digest)
        for group, size in groups:
            if self.has_place_for(digest, group, size):
                heap = self.groups.setdefault(group, [])
                if len(heap) < size:
                    heapq.heappush(heap, (-int(digest, 16), digest))
                else:
                    heapq.heapreplace(heap, (-int(digest, 16), digest))

    def note_unwritable(self, value: Any) -> None:
        """Notes that results of this type cannot be written: once for a type, and for four types at most."""
        kind = type(value).__name__
        if kind not in self.refused and len(self.refused) < 4:
            self.refused.add(kind)
            _lines.write({"function": self.key, "refused": kind})


def _find_defaults(frame: types.FrameType, key: str) -> dict[str, Any]:
    """The default objects of the function that runs in this frame, by parameter."""
    code = frame.f_code
    found = _find_function(frame.f_globals, key.rsplit(":", 2)[1].split("."), code)
    if found is None:
        return {}
    positional = code.co_varnames[: code.co_argcount]
    defaults = found.__defaults__ or ()
    by_name = dict(zip(positional[len(positional) - len(defaults) :], defaults))  # noqa: B905  (new in 3.10)
    for name in positional[: code.co_posonlyargcount]:  # a later one could not be given without it
        by_name.pop(name, None)
    return {**by_name, **(found.__kwdefaults__ or {})}


def _find_function(space: Any, path: list[str], code: types.CodeType) -> Any:
    """The function at this path that has this code, None where what decorates it hides it."""
    for part in path[:-1]:
        owner = space.get(part)
        if not isinstance(owner, type):
            return None
        space = vars(owner)
    todo = [space.get(path[-1])]
    for _ in range(10):
        if not todo:
            break
        found = todo.pop()
        if type(found) is types.FunctionType and found.__code__ is code:
            return found
        inner = ("fget", "fset", "fdel") if type(found) is property else ("__func__", "__wrapped__", "func")
        if type(found) in _WRAPPER_TYPES or hasattr(type(found), "__wrapped__") or type(found) is types.FunctionType:
            todo += [each for each in (getattr(found, name, None) for name in inner) if each is not None]
    return None


_WRAPPER_TYPES = (property, staticmethod, classmethod, functools.cached_property, type(functools.lru_cache(len)))


def describe_shape(args: Any, kwargs: Any) -> str:
    """The kinds of the arguments: two calls of one shape take the same types, empty, zero and negative values told
    apart."""
    parts = [_describe_kind(value) for value in args] + [
        f"{name}={_describe_kind(kwargs[name])}" for name in sorted(kwargs)
    ]
    return ",".join(parts)[:200]


def _describe_kind(value: Any) -> str:
    kind = type(value)
    if kind is bool:
        return str(value)
    if kind in (list, tuple, set, frozenset, dict, str, bytes):
        if not value:
            return kind.__name__ + " empty"
        if kind in (list, tuple):
            return f"{kind.__name__} of {type(value[0]).__name__}"
    if kind in (int, float):
        return kind.__name__ + (" 0" if value == 0 else " -" if value < 0 else "")
    return kind.__name__
