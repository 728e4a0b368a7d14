"""One run of a project's tests in the sandbox: what the tester's frames say, and what it means for the answer."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation.project_tests.spec import MAX_MEMORY_MIB, ProjectTests
from evaluation.sandbox import Limits, SandboxResult
from evaluation.sandbox.inside import codec
from evaluation.sandbox.inside.scratch import MAX_FILES
from evaluation.sandbox.jobs import describe_exit
from evaluation.sandbox.supervisor import JobObservations, close_with, open_pipe, parse_messages, watch
from evaluation.sandbox.zygotes import Zygote
from evaluation.verdicts import Status, Trust

LIMITS = Limits(cpu_s=6, wall_s=18.0, memory_bytes=MAX_MEMORY_MIB * 2**20, open_files=128, threads=32)
_FRAMES_BYTES = 16 * 2**20
_REASONS = {2: "it was interrupted", 3: "it or a plugin failed", 4: "it could not start"}
"""By pytest's exit codes."""
_DOCTEST_FAILED = ": DocTestFailure"
_ASSERTIONS = ("AssertionError", "assert ", "Failed:")
_ERROR_LINE = re.compile(r"ERROR: (?!usage:)|.*: error: |[\w.]+(Error|Exception|Exit|Interrupt)\b")


@dataclass(slots=True)
class SuiteOutcomes:
    """What a run reported. `passed`, `failed` and `unfinished` are ids of tests; `failed` has what was said,
    `unfinished` those that were collected, in this order, and did not end."""

    result: SandboxResult
    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)
    wrote: bool = False  # the tests used their scratch folder
    reported_end: bool = False  # pytest itself came to its end


@dataclass(slots=True)
class VariantOutcomes:
    """The first `tried` variants, and the numbers of those that failed a test that the original passed right after
    them. Nothing is known of the others: what the original left, such as caches, may hide a variant."""

    tried: int = 0
    killed: set[int] = field(default_factory=set)
    original_passed: bool = False  # it passed all tests

    def count_unkilled(self) -> int:
        """How many of the tried variants are not known to fail."""
        return self.tried - len(self.killed)

    def add(self, later: VariantOutcomes) -> None:
        """Append what a run found of the variants that follow."""
        self.killed |= {self.tried + number for number in later.killed}
        self.tried += later.tried
        self.original_passed = self.original_passed or later.original_passed


@dataclass(frozen=True, slots=True)
class ProjectTestJob:
    """The tests to run on a module: the spec, the folder of the project, the module with the answer."""

    spec: ProjectTests
    folder: str
    source: str
    tests: Sequence[str]
    stop_early: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)


def run_tests(zygote: Zygote, job: ProjectTestJob, limits: Limits) -> SuiteOutcomes:
    """Run the tests in a fork of the zygote. Raises ZygoteError where that must be discarded."""
    secret = secrets.token_hex(16)
    must_fail = [f"test_{secrets.token_hex(4)}" for _ in range(2)]
    started = time.monotonic()
    seen, end = _run_tester(zygote, job, limits, {"secret": secret, "must_fail": must_fail})
    wall_s = time.monotonic() - started
    outcomes = _judge_reports(parse_messages(seen.frames), secret, job, must_fail)
    cpu_s = float(end["cpu_s"])
    status, detail, text = outcomes.result.status, outcomes.result.detail, outcomes.result.traceback
    if status in (Status.CRASHED, Status.SANDBOX_ERROR) and cpu_s >= limits.cpu_s:
        status, detail = Status.TIMEOUT, f"the tests used more than {limits.cpu_s} CPU seconds"
    elif end.get("too_many_files"):
        status, detail = Status.OUTPUT_LIMIT, f"the tests made more than {MAX_FILES} files"
    elif not seen.ended and status != Status.FORGED:
        status, detail = Status.TIMEOUT, f"the tests did not end within {limits.wall_s:g} s"
    elif status == Status.CRASHED and not outcomes.reported_end:
        detail = f"{detail} ({describe_exit(end['exit_code'])})"
    outcomes.wrote = bool(end.get("wrote"))
    outcomes.result = SandboxResult(
        status, detail, text, calls=len(outcomes.passed) + len(outcomes.failed), cpu_s=cpu_s, wall_s=wall_s,
        waited_s=seen.waited_s, trust=Trust.IN_GUEST, failing_assert=_find_failing_line(text),
        lasting=outcomes.result.lasting,
    )  # fmt: skip
    return outcomes


def run_variants(
    zygote: Zygote, job: ProjectTestJob, limits: Limits, sources: Sequence[str], max_unkilled: int
) -> VariantOutcomes:
    """Run the tests on variants of the function, until more than `max_unkilled` are not known to fail. Raises
    ZygoteError where the zygote must be discarded."""
    content = {
        "secret": "", "must_fail": [], "qualified": job.spec.qualified, "line": job.spec.line, "variants": sources,
        "max_unkilled": max_unkilled,
    }  # fmt: skip
    seen, _ = _run_tester(zygote, job, limits, content)
    outcomes = VariantOutcomes()
    for frame in parse_messages(seen.frames):
        outcomes.original_passed = frame.get("original", outcomes.original_passed)
        outcomes.tried = frame.get("tried", outcomes.tried)
        if "killed" in frame:
            outcomes.killed.add(frame["killed"])
    return outcomes


def _run_tester(
    zygote: Zygote, job: ProjectTestJob, limits: Limits, more: Mapping[str, Any]
) -> tuple[JobObservations, dict[str, Any]]:
    """What a tester sent, and what its zygote says of its end."""
    started = time.monotonic()
    with contextlib.ExitStack() as ours:
        with contextlib.ExitStack() as theirs:
            reports_in, reports_out = open_pipe(ours, theirs)
            output_in, output_out = open_pipe(ours, theirs)
            content = {
                "project": job.folder, "file": job.spec.file, "source": job.source, "tests": list(job.tests),
                "paths": list(job.spec.paths), "stop_early": job.stop_early, "options": list(job.spec.options),
                "environment": job.environment, "variants": (), **more,
            }  # fmt: skip
            file = close_with(theirs, os.memfd_create("job"))
            codec.write(file, json.dumps(content).encode())
            os.lseek(file, 0, os.SEEK_SET)
            zygote.start(limits, [output_out, file, reports_out])
        seen = watch(reports_in, output_in, started + limits.wall_s, 2**30, zygote.measure_waited_s, _FRAMES_BYTES)
    return seen, zygote.end_job()


@dataclass(slots=True)
class _Reports:
    """What the frames of the tests' runner said so far."""

    collected: list[str] | None = None
    guards: list[str] = field(default_factory=list)  # the tests that must fail
    phases: dict[str, dict[str, str]] = field(default_factory=dict)  # outcomes of phases, by test
    texts: dict[str, str] = field(default_factory=dict)  # of tests that did not pass
    reported_end: bool = False


def _judge_reports(
    frames: list[dict[str, Any]], secret: str, job: ProjectTestJob, must_fail: Sequence[str]
) -> SuiteOutcomes:
    """The outcomes that the frames report, and the status that follows. Frames come from a process that an answer may
    have taken over: what does not fit exactly is a forgery or a crash, never a pass."""
    reports = _Reports()
    if (result := _read_frames(frames, secret, reports)) is not None:
        return SuiteOutcomes(result, reported_end=reports.reported_end)
    by_test = {test: _determine_outcome(phases) for test, phases in reports.phases.items()}
    wanted = [test for test in by_test if test not in reports.guards]
    outcomes = SuiteOutcomes(
        SandboxResult(Status.CRASHED, ""),
        passed=[test for test in wanted if by_test[test] == "passed"],
        failed={test: reports.texts.get(test, "") for test in wanted if by_test[test] not in ("passed", "incomplete")},
        unfinished=[test for test in reports.collected or () if by_test.get(test, "incomplete") == "incomplete"],
        reported_end=reports.reported_end,
    )
    of_guards = [by_test.get(guard) for guard in reports.guards]
    outcomes.result = _judge_outcomes(outcomes, reports.collected, of_guards, len(must_fail), job, frames)
    return outcomes


def _judge_outcomes(
    outcomes: SuiteOutcomes, collected: Sequence[str] | None, of_guards: Sequence[str | None], n_guards: int,
    job: ProjectTestJob, frames: Sequence[dict[str, Any]],
) -> SandboxResult:  # fmt: skip
    """The result that follows from what was collected, and from the outcomes of tests and guards."""
    if "passed" in of_guards:
        return _build_result(Status.FORGED, "a test that must fail passed: the runner was changed")
    if collected is not None and set(job.tests) != set(collected):
        missing = sorted(set(job.tests) - set(collected))
        return _build_result(Status.EXCEPTION, f"not collected: {', '.join(missing[:3])}")
    if outcomes.failed:
        return _describe_failed_test(*next(iter(outcomes.failed.items())))
    did_all_end = outcomes.reported_end and collected is not None and len(collected) == len(outcomes.passed)
    if not did_all_end or sorted(outcomes.passed) != sorted(job.tests):
        return _describe_crash(*_explain_end(frames, job.folder))
    if of_guards != ["failed"] * n_guards:
        return _build_result(Status.FORGED, "the tests that must fail did not run")
    return _build_result(Status.PASSED, "")


def _read_frames(frames: list[dict[str, Any]], secret: str, reports: _Reports) -> SandboxResult | None:
    """Add the frames to the reports; return the result where one of them decides it, else None."""
    if not frames or frames[0].get("hello") is not True:
        reason = str(frames[0].get("sandbox_error", "it sent something else")) if frames else "it ended first"
        return _build_result(Status.SANDBOX_ERROR, f"the process of the tests sent no hello: {reason}"[:300])
    for number, frame in enumerate(frames[1:], 1):
        if frame.get("secret") != secret or frame.get("number") != number:
            return _build_result(Status.FORGED, "a report came from somewhere else than the tests' runner")
        if "no_runner" in frame and number == 1:
            reason = f"pytest cannot be imported in the sandbox: {frame['no_runner']}"
            return _build_result(Status.SANDBOX_ERROR, reason, lasting=True)
        if "syntax" in frame:
            return _build_result(Status.SYNTAX_ERROR, str(frame["syntax"]))
        if "not_collected" in frame:
            text = str(frame.get("text", ""))
            detail = f"{frame['not_collected']} cannot be imported: {_find_error_line(text)}"
            return _build_result(Status.EXCEPTION, detail, text)
        if "broken" in frame:
            return _describe_crash(f"pytest was ended by {frame['broken']}")
        if "collected" in frame:
            if reports.collected is not None:
                return _build_result(Status.FORGED, "the tests were collected twice")
            reports.collected = list(map(str, frame["collected"]))
        reports.guards = list(map(str, frame.get("must_fail", reports.guards)))
        reports.reported_end = reports.reported_end or frame.get("end") is True
        if "test" in frame and not _add_phase(frame, reports):
            return _build_result(Status.FORGED, f"{frame['test']} reported twice")
    return None


def _add_phase(frame: dict[str, Any], reports: _Reports) -> bool:
    """Add the outcome of a test's phase to the reports; return False where the phase was reported before."""
    test, when, outcome = str(frame["test"]), str(frame["when"]), str(frame["outcome"])
    phases = reports.phases.setdefault(test, {})
    if frame.get("part") is True:  # a subtest; its test reports as well
        if outcome not in ("passed", "skipped"):
            phases["part"] = outcome
    elif when in phases:
        return False
    else:
        phases[when] = outcome
    if outcome != "passed":
        reports.texts.setdefault(test, str(frame.get("text", "")))
    return True


def _build_result(status: Status, detail: str, text: str = "", lasting: bool = False) -> SandboxResult:
    return SandboxResult(status, detail[:1000], text, lasting=lasting)


def _describe_crash(detail: str, text: str = "") -> SandboxResult:
    """What ended pytest. Where memory is used up, pytest cannot always report the test that did it."""
    return _build_result(Status.MEMORY if "MemoryError" in detail else Status.CRASHED, detail, text)


def _describe_failed_test(test: str, text: str) -> SandboxResult:
    error = _find_error_line(text)
    said = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    is_assertion = text.endswith(_DOCTEST_FAILED) or any(line.startswith(_ASSERTIONS) for line in said)
    status = Status.MEMORY if "MemoryError" in error else Status.EXCEPTION
    if is_assertion or not text:
        status = Status.WRONG_ANSWER
    return _build_result(status, f"{test}: {error or 'it was skipped'}", text)


def _explain_end(frames: Sequence[dict[str, Any]], folder: str) -> tuple[str, str]:
    """Why not all tests ran, in a sentence and in pytest's own words."""
    names = ("started", "internal", "code", "printed")
    last = {name: frame[name] for frame in frames for name in names if name in frame}
    if "code" not in last:
        during = f"while {last['started']} ran" if "started" in last else "while tests were collected"
        return f"the tests' process ended {during}", ""
    said = str(last.get("internal") or last["printed"])
    return _describe_ending(last["code"], said.replace(f"{folder}/", "")), said


def _describe_ending(code: Any, said: str) -> str:
    lines = [line.removeprefix("E ").strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR_LINE.match(line)] or lines or [f"exit code {code}"]
    cause = errors[-1].rpartition("ERROR: ")[2].rpartition(": error: ")[2][:300]
    reason = _REASONS.get(code, "it ended early")
    return f"pytest did not run all tests, since {reason}: {cause}"


def _determine_outcome(phases: dict[str, str]) -> str:
    """The outcome of a test, from its phases; "incomplete" where one is missing."""
    if phases == {"setup": "passed", "call": "passed", "teardown": "passed"}:
        return "passed"
    return next((outcome for outcome in phases.values() if outcome != "passed"), "incomplete")


def _find_error_line(text: str) -> str:
    lines = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    if text.endswith(_DOCTEST_FAILED) and (example := text.rfind("\nExpected")) >= 0:
        return " ".join(text[example:].rpartition("\n\n")[0].split())[:300]
    if raised := re.search(r"^UNEXPECTED EXCEPTION: (.*)$", text, re.MULTILINE):
        return raised[1][:300]
    return (lines[0] if lines else text.strip().rpartition("\n")[2])[:300]


def _find_failing_line(text: str) -> str | None:
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("assert ")]
    return lines[-1][:500] if lines else None
