"""The checker: runs the task's test against a proxy of the candidate and decides the verdict.

It shares no interpreter with the guest. The proxy sends the arguments of a call and returns the plain data of the
reply; nothing else from the guest counts. A value of the test that no message can carry is an obstacle: the test then
has to run in the guest, and the program is not blamed for it.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import select
import sys
import traceback
import types
from collections.abc import Generator
from typing import Any, NoReturn

from evaluation.sandbox.inside import codec, exceptions
from evaluation.sandbox.inside.exceptions import TEXT_LIMIT, ExceptionFacts
from evaluation.sandbox.inside.plain import CodecError, check_list
from evaluation.sandbox.inside.shared import SharedObjects

REPLIES_IN, CALLS_OUT, VERDICT_OUT, JOB_IN = 3, 4, 5, 6
OBSTACLE = "obstacle"
_VALUE_LIMIT = 500
_EXECUTING = ("eval", "exec", "compile", "open")
"""Builtins that execute or open a text that a test passes them, which could be the candidate's."""


class _Ended(BaseException):
    """Ends the test; the proxy has recorded the outcome."""


class Proxy:
    """Stands for the candidate's function in the test. `names` are the definitions of the prompt."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.calls = 0
        self.fatal: tuple[str, str] | None = None
        self.raised: tuple[BaseException, ExceptionFacts] | None = None
        self.returned: list[Any] = []
        self._names = names
        self._messages = 0
        self._shared = SharedObjects(make_proxy=self._iterate_items)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the candidate's value for these arguments, or raise its exception."""
        self.returned.clear()
        self.calls += 1
        value = self._ask({"args": args, "kw": kwargs} if kwargs else {"args": args})["ret"]
        self.returned.append(value)
        return value

    def _iterate_items(self, number: int) -> Generator[Any, None, Any]:
        """Yield the items of an iterator of the guest, each fetched when the test asks for it."""
        while True:
            reply = self._ask({"next": number})
            if "end" in reply:
                return reply["end"]
            yield reply["ret"]

    def _ask(self, values: dict[str, Any]) -> dict[str, Any]:
        """Send values, with the objects that the test changed or dropped; return the reply, `ret` or `end` decoded.

        Raises the candidate's exception.
        """
        self._messages += 1
        try:
            changes = codec.encode_changes(self._shared)
            message = {"id": self._messages, "changes": changes, "unused": self._shared.drop_unused()}
            message |= {name: codec.encode(value, self._shared) for name, value in values.items()}
            frame = codec.dump(message)
        except CodecError as error:
            raise self.record_end(OBSTACLE, f"the test passes a value that cannot cross: {error}") from None
        self.send(frame)
        reply = self.receive()
        if type(reply.get("id")) is not int or reply["id"] != self._messages:
            raise self.record_end("forged", "a reply carries the wrong number")
        if type(reply.get("bad")) is str:
            raise self.record_end("wrong_answer", reply["bad"])
        facts = exceptions.parse_exception(reply)
        kind = "end" if "end" in reply and "next" in values else "ret"
        if facts is None and kind not in reply:
            raise self.record_end("forged", "a reply holds no value, no exception")
        try:
            codec.decode_changes(reply.get("changes", []), self._shared)
            value = None if facts else codec.decode(reply[kind], self._shared)
            raised = exceptions.rebuild(facts, self._names, self._shared) if facts else None
            for number in check_list(reply.get("unused", [])):
                self._shared.drop(number)
        except CodecError as error:
            raise self.record_end("forged", str(error)) from None
        self._shared.mark()
        if facts is None or raised is None:
            return {kind: value}
        self.raised = (raised, facts)
        raise raised

    def record_end(self, status: str, detail: str) -> BaseException:
        """Record the outcome, which no `except` of a test can undo, and return the exception to raise."""
        self.fatal = self.fatal or (status, detail)
        return _Ended()

    def refuse_execution(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Stand in for the builtins that execute text."""
        raise self.record_end(OBSTACLE, "the test executes text")

    def send(self, frame: bytes) -> None:
        """Send one frame to the guest."""
        try:
            codec.write(CALLS_OUT, frame)
        except OSError:
            raise self.record_end("crashed", "the program ended without an answer") from None

    def receive(self) -> dict[str, Any]:
        """Return the next frame of the guest."""
        try:
            reply = codec.read(REPLIES_IN)
        except CodecError as error:
            raise self.record_end("forged", str(error)) from None
        if reply is None:
            raise self.record_end("crashed", "the program ended without an answer")
        return reply


def report(message: dict[str, Any]) -> None:
    """Write one frame to the supervisor."""
    codec.write(VERDICT_OUT, codec.dump(message))


def refuse(reason: str) -> None:
    """Report that this process could not be confined."""
    report({"status": "sandbox_error", "detail": reason})


def serve(_job: dict[str, Any]) -> None:
    """Judge one candidate: wait for the guest's hello, send the program, run the test, report the verdict."""
    with open(JOB_IN, "rb") as file:
        job = json.loads(file.read())
    try:
        namespace, check = _load_test(job)
    except BaseException as error:
        lasting = not isinstance(error, MemoryError)
        detail = f"the task's test cannot be loaded: {_format_error(error)}"
        report({"status": "sandbox_error", "detail": detail, "lasting": lasting})
        return
    proxy = namespace[job["entry"]]
    try:
        hello = codec.read(REPLIES_IN)
    except CodecError as error:
        report({"status": "sandbox_error", "detail": f"the guest sent no hello: {error}"})
        return
    if hello is None or "hello" not in hello:
        reason = str((hello or {}).get("sandbox_error", "it ended first"))
        report({"status": "sandbox_error", "detail": f"the guest sent no hello: {reason}"})
        return
    report({"stage": "started"})
    report({**_judge(job, check, proxy), "calls": proxy.calls})


def _load_test(job: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    own_builtins = dict(vars(builtins))
    namespace: dict[str, Any] = {"__name__": "test", "__builtins__": own_builtins}
    # Prompts define helpers that tests use.
    exec(compile(job["prompt"], "<prompt>", "exec"), namespace)
    proxy = namespace[job["entry"]] = Proxy(dict(namespace))
    if job["reference"]:
        namespace["canonical_solution"] = _load_reference(job["reference"], job["entry"])
    exec(compile(job["test"], "<test>", "exec"), namespace)
    check = namespace.get("check")  # the entry point may have the same name
    if check is proxy or not callable(check):
        raise NameError("it defines no function check(candidate)")
    namespace[job["entry"]] = proxy
    # Tests that execute text run in the guest (see `crossing`); for one that was overlooked these builtins are blocked.
    own_builtins.update(dict.fromkeys(_EXECUTING, proxy.refuse_execution))
    return namespace, check


def _load_reference(program: str, entry: str) -> Any:
    """The task's own solution, in a module of its own. It gets the test's values and never the candidate's."""
    module = sys.modules["canonical_solution"] = types.ModuleType("canonical_solution")
    exec(compile(program, "<canonical_solution>", "exec"), module.__dict__)
    return module.__dict__[entry]


def _judge(job: dict[str, Any], check: Any, proxy: Proxy) -> dict[str, Any]:
    try:
        proxy.send(codec.dump({"code": job["code"], "entry": job["entry"]}))
        ready = proxy.receive()
    except _Ended:
        return _describe_fatal(proxy)
    if ready.get("ready") is not True:
        facts = exceptions.parse_exception(ready)
        if facts is None:
            return {"status": "forged", "detail": "the first reply is neither ready nor an error"}
        compiling = ready.get("phase") == "compile" and facts.status != "memory"
        status = "syntax_error" if compiling else facts.status
        return {"status": status, "detail": facts.summary, "traceback": facts.trace}
    try:
        answer = check(proxy)
    except BaseException as error:
        return _describe_fatal(proxy) if proxy.fatal else _describe_failure(job, proxy, error)
    if proxy.fatal:
        return _describe_fatal(proxy)
    if proxy.calls == 0:
        return {"status": "wrong_answer", "detail": "the test made no call"}
    if select.select([REPLIES_IN], [], [], 0)[0] and os.read(REPLIES_IN, 1):
        return {"status": "forged", "detail": "the program sent a reply that nobody asked for"}
    return {"status": "passed", "answer": answer} if type(answer) is str else {"status": "passed"}


def _describe_fatal(proxy: Proxy) -> dict[str, Any]:
    status, detail = proxy.fatal or ("crashed", "")
    return {"status": status, "detail": detail}


def _describe_failure(job: dict[str, Any], proxy: Proxy, error: BaseException) -> dict[str, Any]:
    theirs = proxy.raised is not None and proxy.raised[0] is error
    if isinstance(error, MemoryError) and not theirs:
        return {"status": "memory", "detail": "the test ran out of memory on the values returned"}
    outcome: dict[str, Any] = {}
    line = next(
        (frame.lineno for frame in reversed(traceback.extract_tb(error.__traceback__)) if frame.filename == "<test>"),
        None,
    )
    node = None if line is None else _find_assert(job["test"], line)
    if node is not None:
        outcome["failing_assert"] = (ast.get_source_segment(job["test"], node) or "")[:_VALUE_LIMIT]
    if proxy.raised is not None and theirs:
        facts = proxy.raised[1]
        # A test in the guest raises its assertions there.
        failed_there = job["in_guest"] and facts.builtin == "AssertionError"
        status = "wrong_answer" if failed_there else facts.status
        return {**outcome, "status": status, "detail": facts.summary, "traceback": facts.trace}
    if node is not None and proxy.returned:
        outcome["got"] = _format_value(proxy.returned[0])
        outcome["expected"] = _find_expected(node)
    detail = (
        "an assertion of the test is false"
        if isinstance(error, AssertionError)
        else f"in the test: {_format_error(error)}"
    )
    if isinstance(error, AssertionError) and error.args:
        detail += f": {_format_error(error)}"
    return {**outcome, "status": "wrong_answer", "detail": detail[:TEXT_LIMIT]}


def _find_assert(test: str, line: int) -> ast.Assert | None:
    for node in ast.walk(ast.parse(test)):
        if isinstance(node, ast.Assert) and node.lineno <= line <= (node.end_lineno or node.lineno):
            return node
    return None


def _find_expected(node: ast.Assert) -> str | None:
    test = node.test
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Eq, ast.Is)):
        sides = [test.comparators[0], test.left]
        side = next((side for side in sides if not any(isinstance(n, ast.Call) for n in ast.walk(side))), None)
        return None if side is None else ast.unparse(side)[:_VALUE_LIMIT]
    return None


def _format_value(value: Any) -> str:
    try:
        return repr(value)[:_VALUE_LIMIT]
    except Exception:  # an integer of more than 4300 digits has no repr
        return f"<{type(value).__name__}>"


def _format_error(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:_VALUE_LIMIT]
    except Exception:
        return type(error).__name__
