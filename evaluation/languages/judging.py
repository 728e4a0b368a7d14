"""Judges a program of another language: by its task's cases, or by the exit code of a test that is part of it.

Cases are asked one by one and compared outside of the program's process. A test runs in it, as MultiPL-E and
HumanEval-X judge: there `exit(0)` passes, so every such verdict is in-guest.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from evaluation.languages.base import Language
from evaluation.languages.cases import JsonCase, Signature
from evaluation.languages.types import Type
from evaluation.languages.values import Json, ValueFormError, from_json, is_same_value
from evaluation.sandbox import Limits, ProgramEndedError, ProgramSlot, RunningProgram, Sandbox, SandboxResult
from evaluation.sandbox.jobs import describe_exit
from evaluation.verdicts import Status

MAX_RESTARTS = 3
_SHOWN = 500
_FIRST_LINES = 20
_LAST_LINES = 20
_SAYS = (
    (Status.MEMORY, re.compile(r"out of memory|bad_alloc|OutOfMemoryError|memory allocation of")),
    (Status.SYNTAX_ERROR, re.compile(r"^(?:Uncaught )?SyntaxError\b", re.MULTILINE)),
    (Status.WRONG_ANSWER, re.compile(r"assert|--- FAIL", re.IGNORECASE)),
)
"""What a failed program prints, by the status that it then gets; else it crashed or raised an exception."""
_REASON = re.compile(r"assert|error|exception|panic|FAIL", re.IGNORECASE)
_RUNTIME_NOTE = re.compile(r"\[\w+\.cc : \d+\] RAW: ")
"""The start of a line that V8 (Abseil) logs when its threads wait for each other and the sandbox denies it their
priorities."""


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """What one case came to. `got` is in JSON form."""

    status: Status
    detail: str = ""
    traceback: str = ""
    got: str | None = None


@dataclass(slots=True)
class Judgement:
    """The outcome of every case, in order; without any where the program could not be compiled or loaded."""

    outcomes: list[CaseOutcome] = field(default_factory=list)
    failure: CaseOutcome | None = None  # of compiling or loading
    cpu_s: float = 0.0
    wall_s: float = 0.0
    waited_s: float = 0.0

    def to_result(self) -> SandboxResult:
        """The result but for the cases: passed, or why the program could not be compiled or loaded."""
        why = self.failure or CaseOutcome(Status.PASSED)
        return SandboxResult(
            why.status, why.detail, why.traceback, calls=len(self.outcomes), cpu_s=self.cpu_s, wall_s=self.wall_s,
            waited_s=self.waited_s,
        )  # fmt: skip


def judge_by_cases(
    sandbox: Sandbox, language: Language, program: str, signature: Signature, cases: Sequence[JsonCase], limits: Limits
) -> SandboxResult:
    """The verdict on a program: passed if every case did, else what the first case that failed came to.

    Raises ZygoteError and OSError for a fault of the sandbox.
    """
    judgement = run_cases(sandbox, language, program, signature, cases, limits)
    failed = [position for position, outcome in enumerate(judgement.outcomes) if outcome.status is not Status.PASSED]
    if judgement.failure is not None or not failed:
        return judgement.to_result()
    first = judgement.outcomes[failed[0]]
    detail = f"{len(failed)} of {len(cases)} cases failed"
    return replace(
        judgement.to_result(),
        status=first.status,
        detail=f"{first.detail}; {detail}" if first.detail else detail,
        traceback=first.traceback,
        failing_assert=_format_call(signature, cases[failed[0]]),
        got=first.got,
        expected=_format_expected(cases[failed[0]]),
    )


def run_cases(
    sandbox: Sandbox, language: Language, program: str, signature: Signature, cases: Sequence[JsonCase], limits: Limits
) -> Judgement:
    """Run every case. Raises ToolchainError, and ZygoteError and OSError for a fault of the sandbox."""
    judgement, tools = Judgement(), language.toolchain.find().tools
    limits = replace(limits, threads=tools.run_threads)
    with sandbox.open_program_slot(tools) as slot:
        slot.write_files(language.build_files(program, signature))
        if (failed := compile_program(slot)) is not None:
            return failed
        for _ in range(1 + MAX_RESTARTS):
            ended = _run(slot, judgement, signature, cases, limits)
            if ended is None or judgement.failure is not None:
                return judgement
            judgement.outcomes.append(ended)
            if len(judgement.outcomes) == len(cases) or judgement.cpu_s >= limits.cpu_s:
                break
            if judgement.wall_s - judgement.waited_s >= limits.wall_s:
                break
    missing, why = len(cases) - len(judgement.outcomes), "ended too often or used up its time"
    judgement.outcomes += [CaseOutcome(Status.CRASHED, f"not run: the program {why} before")] * missing
    return judgement


def compile_program(slot: ProgramSlot) -> Judgement | None:
    """Compile the program, if its language asks for it; return why it does not compile, None where it does."""
    if slot.tools.compile is None:
        return None
    compiler = RunningProgram(slot, slot.tools.compile_limits, compiling=True)
    reason = ""
    try:
        with compiler:
            compiler.wait()
    except ProgramEndedError as ended:
        reason = ended.detail.replace("the program", "the compiler")
    output = compiler.output.decode("utf-8", "replace").replace(f"{slot.folder}/", "")
    lines = _list_lines(output)
    limit_s = slot.tools.compile_limits.cpu_s
    # At other limits ProgramEndedError is raised, and the exact clock may be ahead of the one that counts `cpu_s`.
    if not reason and (compiler.cpu_s >= limit_s or compiler.exit_code == -signal.SIGKILL):
        reason = f"the compiler used more than {limit_s} CPU seconds"
    if not reason and compiler.exit_code:
        silent = f"the compiler ended with {describe_exit(compiler.exit_code)}"
        reason = next((line for line in lines if "error" in line.lower()), lines[0] if lines else silent)
    if not reason:
        return None
    failure = CaseOutcome(Status.COMPILE_ERROR, reason, "\n".join(lines[:_FIRST_LINES]))
    return Judgement(failure=failure, wall_s=compiler.wall_s)


def _run(
    slot: ProgramSlot, judgement: Judgement, signature: Signature, cases: Sequence[JsonCase], limits: Limits
) -> CaseOutcome | None:
    """Start the program and ask it the cases that are left; None once all are answered, else how the next one ended.

    A program that is not loaded the first time fails as a whole.
    """
    program = RunningProgram(slot, limits, judgement.cpu_s)
    failure: CaseOutcome | None = None
    asked = False
    try:
        with program:
            failure = _check_loading(program)
            while failure is None and len(judgement.outcomes) < len(cases):
                position, asked = len(judgement.outcomes), True
                judgement.outcomes.append(_ask(program, position, cases[position], signature.returns))
    except ProgramEndedError as ended:
        failure = CaseOutcome(ended.status, ended.detail)
    finally:
        judgement.cpu_s += program.cpu_s
        judgement.wall_s += program.wall_s
        judgement.waited_s += program.waited_s
    if not asked and not judgement.outcomes:
        judgement.failure = failure
        return None
    return failure


def _check_loading(program: RunningProgram) -> CaseOutcome | None:
    """None once the program is loaded, else why it is not. Raises ProgramEndedError."""
    frame = _parse_frame(program.read())
    if frame.get("ready") is True and not program.has_unread():
        return None
    if (failed := frame.get("failed")) is None:
        return CaseOutcome(Status.FORGED, "the first reply is neither ready nor an error")
    status = Status.SYNTAX_ERROR if frame.get("syntax") is True else Status.EXCEPTION
    return CaseOutcome(status, *_describe_error(failed))


def _ask(program: RunningProgram, position: int, case: JsonCase, returns: Type) -> CaseOutcome:
    """The outcome of one case. Raises ProgramEndedError."""
    line = json.dumps({"id": position, "args": case.args}).encode() + b"\n"
    frame = _parse_frame(program.ask(line))
    if type(frame.get("id")) is not int or frame["id"] != position:
        raise ProgramEndedError(Status.FORGED, "a reply is malformed or carries the wrong number")
    if program.has_unread():
        raise ProgramEndedError(Status.FORGED, "the program sent a reply that nobody asked for")
    return _compare_case(frame, case, returns)


def _compare_case(frame: dict[str, Json], case: JsonCase, returns: Type) -> CaseOutcome:
    if "raised" in frame:
        if case.raises:
            return CaseOutcome(Status.PASSED)
        return CaseOutcome(Status.EXCEPTION, *_describe_error(frame["raised"]))
    if "bad" in frame:
        return CaseOutcome(Status.WRONG_ANSWER, f"the result has another type: {str(frame['bad'])[:_SHOWN]}")
    if "result" not in frame:
        return CaseOutcome(Status.FORGED, "a reply holds no value, no exception")
    shown = _format_value(frame["result"])
    try:
        got = from_json(frame["result"], returns)
    except ValueFormError as error:
        return CaseOutcome(Status.WRONG_ANSWER, f"the result has another type: {error}", got=shown)
    if case.raises:
        return CaseOutcome(Status.WRONG_ANSWER, f"it should raise {case.raises}", got=shown)
    if is_same_value(got, from_json(case.result, returns), returns, case.tolerance):
        return CaseOutcome(Status.PASSED)
    return CaseOutcome(Status.WRONG_ANSWER, "the result is wrong", got=shown)


def _parse_frame(line: bytes) -> dict[str, Json]:
    """The object in a line, empty for anything else."""
    try:
        frame = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return frame if isinstance(frame, dict) else {}


def _describe_error(error: Json) -> tuple[str, str]:
    facts = error if isinstance(error, dict) else {}
    return str(facts.get("summary", ""))[:_SHOWN], str(facts.get("trace", ""))[: 4 * _SHOWN]


def _format_call(signature: Signature, case: JsonCase) -> str:
    return f"{signature.name}({', '.join(map(_format_value, case.args))})"[:_SHOWN]


def _format_expected(case: JsonCase) -> str:
    return f"raises {case.raises}" if case.raises else _format_value(case.result)


def _format_value(form: Json) -> str:
    return json.dumps(form, ensure_ascii=False)[:_SHOWN]


def judge_by_exit_code(sandbox: Sandbox, language: Language, program: str, test: str, limits: Limits) -> SandboxResult:
    """The verdict on a program and the test that follows it. Raises ZygoteError and OSError."""
    tools, ended = language.toolchain.find().tools, None
    limits = replace(limits, threads=tools.run_threads)
    with sandbox.open_program_slot(tools) as slot:
        slot.write_files(language.build_test_files(program, test))
        if (failed := compile_program(slot)) is not None:
            return failed.to_result()
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
    lines = _list_lines(output)
    reason = next((line for line in lines if _REASON.search(line)), describe_exit(exit_code))
    status = next((status for status, says in _SAYS if says.search(output)), None)
    if status is None:
        crashed = exit_code < 0 and exit_code != -signal.SIGABRT
        status = Status.CRASHED if crashed or not lines else Status.EXCEPTION
    return replace(base, status=status, detail=reason.strip(), traceback="\n".join(lines[-_LAST_LINES:]))


def _list_lines(output: str) -> list[str]:
    """The start of each line that a program or its compiler printed."""
    return [line[:_SHOWN] for line in output.splitlines() if line.strip() and not _RUNTIME_NOTE.match(line)]
