"""Exceptions of the candidate: described in the guest, rebuilt in the checker from classes that it has itself."""

from __future__ import annotations

import builtins
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evaluation.sandbox.inside import codec
from evaluation.sandbox.inside.plain import CodecError
from evaluation.sandbox.inside.shared import SharedObjects

TEXT_LIMIT = 4000
FORM_LIMIT = 2**20
"""Bytes of args and of attributes; an exception with more crosses without them."""
_CLASSES = 20
# These end a loop or generator of the test silently: all(map(candidate, cases)) would pass on StopIteration.
_QUIET = (StopIteration, StopAsyncIteration, GeneratorExit)


class CandidateError(Exception):
    """An exception of the candidate whose class does not exist on this side."""


@dataclass(frozen=True, slots=True)
class ExceptionFacts:
    """An exception as the guest describes it; the candidate can forge all of it."""

    name: str
    builtin: str  # the nearest builtin class
    text: str
    trace: str
    classes: Any  # (module, name), its own class first
    args: Any  # a form, None if they are not plain data
    state: Any  # the same

    @property
    def status(self) -> str:
        """Return the verdict on a program that ends with this exception."""
        return "memory" if self.builtin == "MemoryError" else "exception"

    @property
    def summary(self) -> str:
        """Return one line for people."""
        return f"{self.name}: {self.text}" if self.text else self.name


def describe(error: BaseException, shared: SharedObjects) -> dict[str, Any]:
    """Return the description of an exception as JSON."""
    kind = type(error)
    builtin = next((base.__name__ for base in kind.__mro__ if base.__module__ == "builtins"), "Exception")
    try:
        text = str(error)
    except BaseException:
        text = ""
    try:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != "<candidate>":
            trace = trace.tb_next
        story = "".join(traceback.format_exception(kind, error, trace))
    except BaseException:
        story = ""
    facts = {"exc": [kind.__name__[:100], builtin, text[:TEXT_LIMIT], story[-TEXT_LIMIT:]]}
    try:
        classes = [[str(base.__module__)[:100], str(base.__qualname__)[:100]] for base in kind.__mro__[:_CLASSES]]
        arguments, state = _list_arguments(error), vars(error)
    except BaseException:
        return facts
    return {**facts, "classes": classes, "args": _encode_form(arguments, shared), "state": _encode_form(state, shared)}


def _list_arguments(error: BaseException) -> Any:
    # The args of an OSError leave out its file name.
    if isinstance(error, OSError) and error.filename is not None:
        return [error.errno, error.strerror, error.filename]
    return list(error.args)


def _encode_form(value: Any, shared: SharedObjects) -> Any:
    count = shared.count
    try:
        form = codec.encode(value, shared)
        codec.dump(form, FORM_LIMIT)
    except CodecError:
        shared.truncate(count)
        return None
    return form


def parse_exception(reply: Mapping[str, Any]) -> ExceptionFacts | None:
    """Return the exception described in a reply, None where there is none."""
    facts = reply.get("exc")
    if type(facts) is not list or len(facts) != 4 or any(type(fact) is not str for fact in facts):
        return None
    name, builtin, text, trace = (fact[:TEXT_LIMIT] for fact in facts)
    return ExceptionFacts(name, builtin, text, trace, reply.get("classes"), reply.get("args"), reply.get("state"))


def rebuild(raised: ExceptionFacts, names: Mapping[str, Any], shared: SharedObjects) -> BaseException:
    """Return the exception to raise in the test, of the first of its classes that exists in this process.

    These are builtin classes, classes of standard modules loaded here, and classes among `names`, which the prompt
    defines. Raises CodecError for forms that the guest's codec never writes.
    """
    arguments = codec.decode(raised.args, shared)
    state = codec.decode(raised.state, shared)
    kind, exact = _find_known_class(raised, names)
    if kind is None:
        return CandidateError(raised.summary)
    error = _make(kind, arguments) if type(arguments) is list else None
    if error is not None and exact and type(state) is dict and all(type(key) is str for key in state):
        error.__dict__.update(state)
    if error is None or (not exact and _format_text(error) != raised.text):
        error = _make(kind, [raised.text]) or CandidateError(raised.summary)
    return error


def _find_known_class(raised: ExceptionFacts, names: Mapping[str, Any]) -> tuple[type[BaseException] | None, bool]:
    classes = raised.classes if type(raised.classes) is list else []
    for position, entry in enumerate([*classes[:_CLASSES], ["builtins", raised.builtin]]):
        if type(entry) is not list or len(entry) != 2 or any(type(word) is not str for word in entry):
            continue
        module, name = entry
        if module == "candidate":
            found = names.get(name)
            found = found if getattr(found, "__module__", None) == names["__name__"] else None
        elif module == "builtins":
            found = vars(builtins).get(name)
        elif module.partition(".")[0] in sys.stdlib_module_names and module in sys.modules:
            found = vars(sys.modules[module]).get(name)
        else:
            continue
        if isinstance(found, type) and issubclass(found, BaseException):
            return (None if issubclass(found, _QUIET) else found), position == 0
    return None, False


def _make(kind: type[BaseException], arguments: list[Any]) -> BaseException | None:
    """Return an exception without running its class's __init__: its state crosses separately."""
    base: Any = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    try:
        error: BaseException = base.__new__(kind, *arguments)
        base.__init__(error, *arguments)
    except Exception:
        return None
    return error


def _format_text(error: BaseException) -> str | None:
    try:
        return str(error)
    except Exception:
        return None
