"""Judges a program that its test is part of: it is run, and its exit code decides.

This is how MultiPL-E and HumanEval-X judge. The test runs in the program's own process, where `exit(0)` passes it, so
every verdict is in-guest.
"""

from __future__ import annotations

import re
import signal
from dataclasses import replace

from evaluation.languages.base import Language, Toolchain
from evaluation.languages.judging import compile_program
from evaluation.sandbox import Limits, ProgramEndedError, RunningProgram, Sandbox, SandboxResult
from evaluation.sandbox.jobs import describe_exit
from evaluation.sandbox.zygotes import ZygoteError
from evaluation.verdicts import Status, Trust

_SHOWN = 500
_LAST_LINES = 20
_SAYS = (
    (Status.MEMORY, re.compile(r"out of memory|bad_alloc|OutOfMemoryError|memory allocation of")),
    (Status.SYNTAX_ERROR, re.compile(r"^(?:Uncaught )?SyntaxError\b", re.MULTILINE)),
    (Status.WRONG_ANSWER, re.compile(r"assert|--- FAIL", re.IGNORECASE)),
)
"""What a failed program prints, by the status that it then gets; else it crashed or raised an exception."""
_REASON = re.compile(r"assert|error|exception|panic|FAIL", re.IGNORECASE)


def judge(
    sandbox: Sandbox, language: Language, toolchain: Toolchain, program: str, test: str, limits: Limits
) -> SandboxResult:
    """The verdict on a program and the test that follows it."""
    try:
        result = _judge(sandbox, language, toolchain, program, test, limits)
    except (ZygoteError, OSError) as error:
        result = SandboxResult(Status.SANDBOX_ERROR, str(error))
    return replace(result, trust=Trust.IN_GUEST)


def _judge(
    sandbox: Sandbox, language: Language, toolchain: Toolchain, program: str, test: str, limits: Limits
) -> SandboxResult:
    limits, ended = replace(limits, threads=toolchain.tools.run_threads), None
    with sandbox.open_program_slot(toolchain.tools) as slot:
        slot.write_files(language.build_test_files(program, test))
        if toolchain.tools.compile is not None and (failed := compile_program(slot)) is not None:
            failure, wall_s = failed
            return SandboxResult(failure.status, failure.detail, failure.traceback, wall_s=wall_s)
        running = RunningProgram(slot, limits)
        try:
            with running:
                running.wait()
        except ProgramEndedError as error:
            ended = error
    base = SandboxResult(Status.PASSED, cpu_s=running.cpu_s, wall_s=running.wall_s, waited_s=running.waited_s)
    if ended is not None:
        return replace(base, status=ended.status, detail=ended.detail)
    if running.cpu_s >= limits.cpu_s:
        return replace(base, status=Status.TIMEOUT, detail=f"the program used more than {limits.cpu_s} CPU seconds")
    if running.exit_code == 0:
        return base
    return _build_failure(base, running.exit_code, running.output.decode("utf-8", "replace"))


def _build_failure(base: SandboxResult, exit_code: int, output: str) -> SandboxResult:
    """The result of a program that ended with another exit code than 0."""
    lines = [line[:_SHOWN] for line in output.splitlines() if line.strip()]
    reason = next((line for line in lines if _REASON.search(line)), describe_exit(exit_code))
    status = next((status for status, says in _SAYS if says.search(output)), None)
    if status is None:
        crashed = exit_code < 0 and exit_code != -signal.SIGABRT
        status = Status.CRASHED if crashed or not lines else Status.EXCEPTION
    return replace(base, status=status, detail=reason.strip(), traceback="\n".join(lines[-_LAST_LINES:]))
