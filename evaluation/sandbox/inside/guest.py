"""The guest: it runs the candidate and answers calls with values. It knows no test and no expected value.

Whatever a candidate does to this process, it can only change the values that leave it.
"""

from __future__ import annotations

import linecache
import sys
import traceback
import types
from typing import Any

from evaluation.sandbox.inside import codec

CALLS_IN, REPLIES_OUT = 3, 4
_TEXT_LIMIT = 4000


def refuse(reason: str) -> None:
    """Tell the checker, in place of the hello, that this process could not be confined."""
    codec.write(REPLIES_OUT, codec.dump({"sandbox_error": reason}))


def serve() -> None:
    """Say hello, take the program, load it, answer calls until the checker goes away."""
    codec.write(REPLIES_OUT, codec.dump({"hello": True}))
    job = codec.read(CALLS_IN, codec.MAX_CODE_FRAME)
    if job is None:
        return
    namespace: dict[str, Any] = {}
    error = _load(job["code"], job["entry"], namespace)
    codec.write(REPLIES_OUT, codec.dump(error or {"ready": True}))
    if error is None:
        function = namespace[job["entry"]]
        while True:
            call = codec.read(CALLS_IN)
            if call is None:
                return
            codec.write(REPLIES_OUT, _answer(function, call))


def _load(code: str, entry: str, namespace: dict[str, Any]) -> Any:
    module = types.ModuleType("candidate")
    sys.modules["candidate"] = module
    linecache.cache["<candidate>"] = (len(code), None, code.splitlines(True), "<candidate>")
    try:
        compiled = compile(code, "<candidate>", "exec", dont_inherit=True)
    except BaseException as error:
        return {"load_error": _describe(error), "phase": "compile"}
    try:
        exec(compiled, module.__dict__)
        if entry not in module.__dict__:
            raise NameError(f"the program does not define {entry!r}")
    except BaseException as error:
        return {"load_error": _describe(error), "phase": "run"}
    namespace[entry] = module.__dict__[entry]
    return None


def _answer(function: Any, call: dict[str, Any]) -> bytes:
    number = call["id"]
    try:
        result = function(*codec.decode(call["args"]), **codec.decode(call["kw"]))
        reply = {"id": number, "ret": codec.encode(result)}
        return codec.dump(reply)
    except codec.CodecError as error:
        return codec.dump({"id": number, "bad": str(error)})
    except BaseException as error:
        return codec.dump({"id": number, "exc": _describe(error)})


def _describe(error: BaseException) -> list[str]:
    """Return class name, name of the nearest builtin class, text, traceback: all of them the candidate's to forge."""
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
    return [kind.__name__[:100], builtin, text[:_TEXT_LIMIT], story[-_TEXT_LIMIT:]]
