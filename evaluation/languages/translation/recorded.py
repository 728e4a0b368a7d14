"""Records what a task's own solution does while the task's test calls it, in the sandbox."""

from __future__ import annotations

import json
from dataclasses import dataclass

from evaluation.datasets import Task
from evaluation.from_code.loading import build_loader
from evaluation.from_code.recording import values
from evaluation.languages.translation.type_inference import UntranslatableError
from evaluation.sandbox import Limits, Sandbox, SandboxJob, retry_faults
from evaluation.verdicts import Status

MAX_CALLS = 100
LIMITS = Limits(cpu_s=5, wall_s=20.0)
_ENTRY = "__bassline_record__"
_INSTALL = """
import builtins as __bassline_builtins__
__bassline_space__ = {{}}
__bassline_builtins__.exec(
    __bassline_builtins__.compile({recorder!r}, "<recorder>", "exec", dont_inherit=True), __bassline_space__)
{entry} = __bassline_space__["recorder"]({function})
"""
"""The recorder has a namespace of its own: a program may define any name for itself."""
_RECORDER = """
import json, random{load}
values = {values}

def recorder(function):
    def run(test):
        calls = []
        def candidate(*args, **kwargs):
            row = {{}}
            try:
                row["call"] = values.serialize_plain((args, kwargs))
            except values.UnwritableError as reason:
                row["refused"] = str(reason)
            if len(calls) < {limit}:
                calls.append(row)
            try:
                result = function(*args, **kwargs)
            except Exception as error:
                row["raised"] = type(error).__name__
                raise
            try:
                row["returned"] = values.serialize_plain(result)
            except values.UnwritableError as reason:
                row["refused"] = str(reason)
            return result
        space = dict(function.__globals__)
        random.seed(0)
        exec(compile(test, "<test>", "exec", dont_inherit=True), space)
        space["check"](candidate)
        return json.dumps(calls)
    return run
"""


@dataclass(frozen=True, slots=True)
class PlainCall:
    """One call with plain data, and what came of it."""

    args: tuple[object, ...]
    returned: object = None
    raised: str = ""


def record(sandbox: Sandbox, task: Task) -> list[PlainCall]:
    """The calls of the task's test, each argument list once. Raises UntranslatableError where there are none."""
    if not task.canonical_solution:
        raise UntranslatableError("it has no canonical solution")
    load, loaded = build_loader("recording.objects", "recording.values")
    recorder = _RECORDER.format(load=load, values=loaded, limit=MAX_CALLS)
    install = _INSTALL.format(recorder=recorder, entry=_ENTRY, function=task.entry_point)
    test = f"def check(candidate):\n    return candidate({task.test!r})\n"
    job = SandboxJob(task.build_program(task.canonical_solution) + install, _ENTRY, "", test)
    result = retry_faults(lambda: sandbox.run(job, LIMITS))
    if result.status != Status.PASSED:
        raise UntranslatableError("its own test fails")
    calls: dict[str, PlainCall] = {}
    for row in json.loads(result.answer or "[]"):
        if "refused" in row or not all(values.is_plain(row[name]) for name in ("call", "returned") if name in row):
            continue
        args, keywords = values.read_plain(row["call"])
        if keywords:
            raise UntranslatableError("its test names arguments")
        returned = values.read_plain(row["returned"]) if "returned" in row else None
        calls.setdefault(row["call"], PlainCall(args, returned, row.get("raised", "")))
    if not calls:
        raise UntranslatableError("its test makes no call with plain data")
    return list(calls.values())
