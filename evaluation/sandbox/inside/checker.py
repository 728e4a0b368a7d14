"""The checker: it runs the task's test against a proxy of the candidate and alone decides the verdict.

It shares no interpreter with the guest. The proxy sends the arguments of a call and returns the plain data that
comes back; nothing the guest prints, raises or leaves behind is looked at.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import select
import traceback
from typing import Any

from evaluation.sandbox.inside import codec

REPLIES_IN, CALLS_OUT, VERDICT_OUT, JOB_IN = 3, 4, 5, 6
_TEXT_LIMIT = 4000
_VALUE_LIMIT = 500
_CONTROL_FLOW = (StopIteration, StopAsyncIteration, GeneratorExit, KeyboardInterrupt, SystemExit)


class CandidateError(Exception):
    """An exception of the candidate that has no safe builtin class of its own on this side."""


class _Ended(BaseException):
    """The judgement is over: the proxy has recorded why."""


class Proxy:
    """Stands for the candidate's function in the test."""

    def __init__(self) -> None:
        self.calls = 0
        self.fatal: tuple[str, str] | None = None
        self.raised: tuple[BaseException, list[str]] | None = None
        self.returned: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the candidate's value for these arguments, or raise its exception."""
        try:
            request = {"id": self.calls + 1, "args": codec.encode(list(args)), "kw": codec.encode(kwargs)}
            frame = codec.dump(request)
        except codec.CodecError as error:
            raise self.end(
                "exception", f"the test passes an argument that cannot cross to the candidate: {error}"
            ) from None
        self.send(frame)
        reply = self.receive()
        if type(reply.get("id")) is not int or reply["id"] != self.calls + 1:
            raise self.end("forged", "a reply carries the wrong number")
        self.calls += 1
        if "ret" in reply:
            try:
                value = codec.decode(reply["ret"])
            except codec.CodecError as error:
                raise self.end("forged", str(error)) from None
            self.returned[:] = [value]
            return value
        self.returned.clear()
        if type(reply.get("bad")) is str:
            raise self.end("wrong_answer", reply["bad"])
        facts = _strings(reply.get("exc"))
        if facts is None:
            raise self.end("forged", "a reply holds no value, no exception")
        raised = _exception(facts)
        self.raised = (raised, facts)
        raise raised

    def end(self, status: str, detail: str) -> BaseException:
        """Record the outcome, which no `except` in a test can undo, and return what to raise."""
        self.fatal = self.fatal or (status, detail)
        return _Ended()

    def send(self, frame: bytes) -> None:
        """Send one frame to the guest."""
        try:
            codec.write(CALLS_OUT, frame)
        except OSError:
            raise self.end("crashed", "the program ended without an answer") from None

    def receive(self) -> dict[str, Any]:
        """Return the next frame of the guest."""
        try:
            reply = codec.read(REPLIES_IN)
        except codec.CodecError as error:
            raise self.end("forged", str(error)) from None
        if reply is None:
            raise self.end("crashed", "the program ended without an answer")
        return reply


def report(message: dict[str, Any]) -> None:
    """Write one frame to the supervisor."""
    codec.write(VERDICT_OUT, codec.dump(message))


def refuse(reason: str) -> None:
    """Report that this process could not be confined."""
    report({"status": "sandbox_error", "detail": reason})


def serve() -> None:
    """Judge one candidate: wait for the guest's hello, send the program, run the test, report the verdict."""
    with open(JOB_IN, "rb") as file:
        job = json.loads(file.read())
    try:
        namespace = _load_test(job)
    except BaseException as error:
        report({"status": "sandbox_error", "detail": f"the task's test cannot be loaded: {_line(error)}"})
        return
    proxy = namespace[job["entry"]]
    try:
        hello = codec.read(REPLIES_IN)
    except codec.CodecError as error:
        report({"status": "sandbox_error", "detail": f"the guest sent no hello: {error}"})
        return
    if hello is None or "hello" not in hello:
        reason = str((hello or {}).get("sandbox_error", "it ended first"))
        report({"status": "sandbox_error", "detail": f"the guest sent no hello: {reason}"})
        return
    report({"stage": "started"})
    report({**_judge(job, namespace, proxy), "calls": proxy.calls})


def _load_test(job: dict[str, Any]) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "test"}
    # Prompts define helpers that tests use; one that ends in a bare `def` line compiles once it has a body.
    for text in (job["prompt"], job["prompt"] + "\n    pass\n"):
        try:
            exec(compile(text, "<prompt>", "exec"), namespace)
            break
        except SyntaxError:
            continue
    namespace[job["entry"]] = Proxy()
    exec(compile(job["test"], "<test>", "exec"), namespace)
    if not callable(namespace.get("check")):
        raise NameError("it defines no function check(candidate)")
    return namespace


def _judge(job: dict[str, Any], namespace: dict[str, Any], proxy: Proxy) -> dict[str, Any]:
    try:
        proxy.send(codec.dump({"code": job["code"], "entry": job["entry"]}, codec.MAX_CODE_FRAME))
        ready = proxy.receive()
    except _Ended:
        return _fatal(proxy)
    if ready.get("ready") is not True:
        facts = _strings(ready.get("load_error"))
        if facts is None:
            return {"status": "forged", "detail": "the first reply is neither ready nor an error"}
        status = "syntax_error" if ready.get("phase") == "compile" and facts[1] != "MemoryError" else _status(facts)
        return {"status": status, "detail": _summary(facts), "traceback": facts[3]}
    try:
        namespace["check"](proxy)
    except BaseException as error:
        return _fatal(proxy) if proxy.fatal else _failure(job, proxy, error)
    if proxy.fatal:
        return _fatal(proxy)
    if proxy.calls == 0:
        return {"status": "wrong_answer", "detail": "the test made no call"}
    if select.select([REPLIES_IN], [], [], 0)[0] and os.read(REPLIES_IN, 1):
        return {"status": "forged", "detail": "the program sent a reply that nobody asked for"}
    return {"status": "passed"}


def _fatal(proxy: Proxy) -> dict[str, Any]:
    status, detail = proxy.fatal or ("crashed", "")
    return {"status": status, "detail": detail}


def _failure(job: dict[str, Any], proxy: Proxy, error: BaseException) -> dict[str, Any]:
    theirs = proxy.raised is not None and proxy.raised[0] is error
    if isinstance(error, MemoryError) and not theirs:
        return {"status": "memory", "detail": "the test ran out of memory on the values returned"}
    outcome: dict[str, Any] = {}
    line = next(
        (frame.lineno for frame in reversed(traceback.extract_tb(error.__traceback__)) if frame.filename == "<test>"),
        None,
    )
    node = None if line is None else _assert_at(job["test"], line)
    if node is not None:
        outcome["failing_assert"] = (ast.get_source_segment(job["test"], node) or "")[:_VALUE_LIMIT]
    if proxy.raised is not None and theirs:
        facts = proxy.raised[1]
        # A test that runs inside the guest raises its assertions there.
        failed_there = job["in_guest"] and facts[1] == "AssertionError"
        status = "wrong_answer" if failed_there else _status(facts)
        return {**outcome, "status": status, "detail": _summary(facts), "traceback": facts[3]}
    if node is not None and proxy.returned:
        outcome["got"] = _shown(proxy.returned[0])
        outcome["expected"] = _expected(node)
    detail = (
        "an assertion of the test is false" if isinstance(error, AssertionError) else f"in the test: {_line(error)}"
    )
    if isinstance(error, AssertionError) and error.args:
        detail += f": {_line(error)}"
    return {**outcome, "status": "wrong_answer", "detail": detail[:_TEXT_LIMIT]}


def _assert_at(test: str, line: int) -> ast.Assert | None:
    for node in ast.walk(ast.parse(test)):
        if isinstance(node, ast.Assert) and node.lineno <= line <= (node.end_lineno or node.lineno):
            return node
    return None


def _expected(node: ast.Assert) -> str | None:
    test = node.test
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Eq, ast.Is)):
        sides = [test.comparators[0], test.left]
        side = next((side for side in sides if not any(isinstance(n, ast.Call) for n in ast.walk(side))), None)
        return None if side is None else ast.unparse(side)[:_VALUE_LIMIT]
    return None


def _shown(value: Any) -> str:
    try:
        return repr(value)[:_VALUE_LIMIT]
    except Exception:  # an integer of more than 4300 digits has no repr
        return f"<{type(value).__name__}>"


def _line(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:_VALUE_LIMIT]
    except Exception:
        return type(error).__name__


def _strings(facts: Any) -> list[str] | None:
    is_list = type(facts) is list and len(facts) == 4 and all(type(fact) is str for fact in facts)
    return [fact[:_TEXT_LIMIT] for fact in facts] if is_list else None


def _status(facts: list[str]) -> str:
    return "memory" if facts[1] == "MemoryError" else "exception"


def _summary(facts: list[str]) -> str:
    return f"{facts[0]}: {facts[2]}" if facts[2] else facts[0]


def _exception(facts: list[str]) -> BaseException:
    # Control flow is never re-raised: StopIteration would quietly end a test's all(map(candidate, cases)).
    kind = getattr(builtins, facts[1], None)
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, _CONTROL_FLOW):
        try:
            return kind(facts[2])
        except TypeError:  # UnicodeDecodeError and its like need more than a text
            pass
    return CandidateError(_summary(facts))
