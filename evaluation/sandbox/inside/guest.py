"""The guest: runs the candidate and answers calls with values. It has a test only in in-guest jobs.

A candidate that takes over this process can only change the values that it returns.
"""

from __future__ import annotations

import linecache
import signal
import sys
import types
from typing import Any

from evaluation.sandbox.inside import codec, exceptions
from evaluation.sandbox.inside.plain import CodecError
from evaluation.sandbox.inside.shared import SharedObjects

CALLS_IN, REPLIES_OUT = 3, 4


def refuse(reason: str) -> None:
    """Report to the checker, instead of the hello, that this process could not be confined."""
    codec.write(REPLIES_OUT, codec.dump({"sandbox_error": reason}))


def serve(limits: dict[str, Any]) -> None:
    """Send the hello, load the program that comes back, answer calls until the checker closes the pipe."""
    codec.write(REPLIES_OUT, codec.dump({"hello": True}))
    job = codec.read(CALLS_IN)
    if job is None:
        return
    namespace: dict[str, Any] = {}
    error = _load(job["code"], job["entry"], namespace)
    codec.write(REPLIES_OUT, codec.dump(error or {"ready": True}))
    if error is None:
        function, shared = namespace[job["entry"]], SharedObjects(owns_iterators=True)
        while True:
            request = codec.read(CALLS_IN)
            if request is None:
                return
            codec.write(REPLIES_OUT, _answer(function, request, shared, limits["call_cpu_s"]))


def _load(code: str, entry: str, namespace: dict[str, Any]) -> Any:
    module = types.ModuleType("candidate")
    sys.modules["candidate"] = module
    linecache.cache["<candidate>"] = (len(code), None, code.splitlines(True), "<candidate>")
    try:
        compiled = compile(code, "<candidate>", "exec", dont_inherit=True)
    except BaseException as error:
        return {**exceptions.describe(error, SharedObjects()), "phase": "compile"}
    try:
        exec(compiled, module.__dict__)
        if entry not in module.__dict__:
            raise NameError(f"the program does not define {entry!r}")
    except BaseException as error:
        # A program may compile the model's answer when it runs, under this file name, to run it in the answer's own
        # module: a syntax error then is the answer's.
        has_bad_syntax = isinstance(error, SyntaxError) and error.filename == "<candidate>"
        return {**exceptions.describe(error, SharedObjects()), "phase": "compile" if has_bad_syntax else "run"}
    namespace[entry] = module.__dict__[entry]
    return None


def _answer(function: Any, request: dict[str, Any], shared: SharedObjects, limit_s: int | None) -> bytes:
    codec.decode_changes(request["changes"], shared)
    for number in request["unused"]:
        shared.drop(number)
    try:
        if limit_s is not None:  # the kernel then ends this process by SIGPROF; the program's other limits stay
            signal.setitimer(signal.ITIMER_PROF, limit_s)
        outcome = _run_request(function, request, shared)
        return codec.dump({"id": request["id"], **outcome, "unused": shared.drop_unused()})
    except CodecError as error:
        return codec.dump({"id": request["id"], "bad": str(error)})


def _run_request(function: Any, request: dict[str, Any], shared: SharedObjects) -> dict[str, Any]:
    """Return the outcome of one call or one step of an iterator, and the test's objects that it changed."""
    iterates = "next" in request
    kwargs: dict[str, Any] = {}
    if iterates:
        function, args = next, (shared.get(request["next"]),)
    else:
        args = codec.decode(request["args"], shared)
        kwargs = codec.decode(request["kw"], shared) if "kw" in request else kwargs
    shared.mark()
    count = shared.count
    try:
        try:
            kind, value = "ret", function(*args, **kwargs)
        except StopIteration as end:
            if not iterates:
                raise
            kind, value = "end", end.value
        return {"changes": codec.encode_changes(shared), kind: codec.encode(value, shared)}
    except CodecError:
        raise
    except BaseException as error:
        shared.truncate(count)
        return {"changes": codec.encode_changes(shared), **exceptions.describe(error, shared)}
