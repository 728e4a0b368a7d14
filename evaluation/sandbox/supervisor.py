"""The supervisor: runs one job in two forked processes and decides its result.

It keeps the wall clock, counts the candidate's output, and trusts only the checker's pipe.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from evaluation.sandbox.inside import codec
from evaluation.sandbox.inside.checker import OBSTACLE
from evaluation.sandbox.inside.plain import CodecError
from evaluation.sandbox.jobs import SandboxJob, SandboxResult, describe_exit
from evaluation.sandbox.limits import NOTICEABLE_WAIT_S, Limits
from evaluation.sandbox.zygotes import JudgeSlot
from evaluation.verdicts import Status

_VERDICT_BYTES = 2**20
_LOOK_S = 0.5
"""How often a job that may be stopped is looked at."""
_FROM_CHECKER = {
    *(Status.PASSED, Status.WRONG_ANSWER, Status.EXCEPTION, Status.SYNTAX_ERROR, Status.MEMORY, Status.CRASHED),
    *(Status.FORGED, Status.SANDBOX_ERROR, OBSTACLE),
}
"""The statuses that the checker may report; the others come from elsewhere."""
_TEXTS = ("failing_assert", "got", "expected", "answer")


_stop: ContextVar[threading.Event | None] = ContextVar("stop", default=None)


@contextlib.contextmanager
def stop_jobs_on(event: threading.Event) -> Iterator[None]:
    """In the block, setting the event ends this thread's jobs as a timeout does."""
    before = _stop.set(event)
    try:
        yield
    finally:
        _stop.reset(before)


def is_stopped() -> bool:
    """Whether this thread's jobs were stopped: then their results do not count."""
    event = _stop.get()
    return event is not None and event.is_set()


@dataclass(slots=True)
class JobObservations:
    """The supervisor's observations while the job runs."""

    printed: int = 0
    frames: bytes = b""
    ended: bool = False
    wall_s: float = 0.0
    waited_s: float = 0.0


def run_job(slot: JudgeSlot, job: SandboxJob, limits: Limits) -> SandboxResult:
    """Run one job on a slot. Raises ZygoteError where the slot must be discarded."""
    started = time.monotonic()
    with contextlib.ExitStack() as ours:
        with contextlib.ExitStack() as theirs:
            calls_in, calls_out = open_pipe(theirs, theirs)
            replies_in, replies_out = open_pipe(theirs, theirs)
            verdict_in, verdict_out = open_pipe(ours, theirs)
            output_in, output_out = open_pipe(ours, theirs)
            null_output = close_with(theirs, os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC))
            slot.guest.start(limits, [output_out, calls_in, replies_out])
            slot.checker.start(limits, [null_output, replies_in, calls_out, verdict_out, _open_job_file(theirs, job)])
        seen = watch(verdict_in, output_in, started + limits.wall_s, limits.output_bytes, slot.measure_waited_s)
        seen.wall_s = time.monotonic() - started
    guest, checker = slot.guest.end_job(), slot.checker.end_job()
    return _decide(seen, guest, checker, limits)


def close_with(stack: contextlib.ExitStack, descriptor: int) -> int:
    """The descriptor, which the stack closes."""
    stack.callback(os.close, descriptor)
    return descriptor


def open_pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[int, int]:
    """A pipe, each end of which a stack closes."""
    read_end, write_end = os.pipe()
    return close_with(reader, read_end), close_with(writer, write_end)


def _open_job_file(stack: contextlib.ExitStack, job: SandboxJob) -> int:
    # Python skips a byte order mark at the start of a file; in a string it is a syntax error.
    content = {
        "code": job.program.removeprefix("\ufeff"),
        "entry": job.entry_point,
        "prompt": job.prompt,
        "test": job.test,
        "reference": job.reference,
    }
    descriptor = close_with(stack, os.memfd_create("job"))
    codec.write(descriptor, json.dumps({**content, "in_guest": job.in_guest}).encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def watch(
    verdict: int,
    output: int,
    deadline: float,
    output_limit: int,
    measure_waited_s: Callable[[], float],
    frames_limit: int = _VERDICT_BYTES,
) -> JobObservations:
    """Read until the process that reports has ended or sent too much, the candidate has printed too much, the wall
    limit is reached, or the jobs of this thread are stopped.

    The deadline moves by the seconds that the job waited for a CPU, so that other work on the machine decides nothing.
    """
    observed = JobObservations()
    with selectors.DefaultSelector() as selector:
        for descriptor in (verdict, output):
            os.set_blocking(descriptor, False)
            selector.register(descriptor, selectors.EVENT_READ)
        longest = _LOOK_S if _stop.get() else math.inf
        while not observed.ended and observed.printed <= output_limit:
            remaining = deadline + observed.waited_s - time.monotonic()
            if is_stopped():
                return observed
            over = remaining <= 0 and not _record_wait(observed, measure_waited_s())
            for key, _ in selector.select(max(0.0, min(remaining, longest))):
                data = os.read(key.fd, 65536)
                if key.fd == output:
                    observed.printed += len(data)
                else:
                    over = False  # it answered in time, and this thread was late
                    observed.frames += data
                    observed.ended = not data or len(observed.frames) > frames_limit
                if not data:
                    selector.unregister(key.fd)
            if over:
                return observed
        with contextlib.suppress(BlockingIOError):
            while observed.printed <= output_limit and (data := os.read(output, 65536)):
                observed.printed += len(data)
    return observed


def _record_wait(observed: JobObservations, waited_s: float) -> bool:
    """Note how long the job has waited for a CPU; return whether it is noticeably more than was known before."""
    more = waited_s - observed.waited_s
    observed.waited_s = max(observed.waited_s, waited_s)
    return more > NOTICEABLE_WAIT_S


def parse_messages(frames: bytes) -> list[dict[str, Any]]:
    """The messages in the bytes of a pipe, up to the first that is not complete or not one."""
    messages = []
    with contextlib.suppress(CodecError):
        while len(frames) >= 4:
            end = 4 + int.from_bytes(frames[:4], "big")
            if len(frames) < end:
                break
            messages.append(codec.parse(frames[4:end]))
            frames = frames[end:]
    return messages


def _decide(observed: JobObservations, guest: dict[str, Any], checker: dict[str, Any], limits: Limits) -> SandboxResult:
    messages = parse_messages(observed.frames)
    started = any(message.get("stage") == "started" for message in messages)
    verdict = next((message for message in messages if message.get("status") in _FROM_CHECKER), None)
    cpu_s = float(guest["cpu_s"])

    def build_result(status: str, detail: str, **more: Any) -> SandboxResult:
        return SandboxResult(status, detail, cpu_s=cpu_s, wall_s=observed.wall_s, waited_s=observed.waited_s, **more)

    if observed.printed > limits.output_bytes:
        return build_result(Status.OUTPUT_LIMIT, f"the program printed more than {limits.output_bytes} bytes")
    if not observed.ended:
        return build_result(Status.TIMEOUT, f"no answer within {limits.wall_s:g} s")
    out_of_time = cpu_s >= limits.cpu_s
    ending = describe_exit(checker["exit_code"])
    broken = build_result(Status.CRASHED, f"the test's process ended with {ending} on the values returned")
    if verdict is None:
        # Once the candidate has its code, its values may have broken the checker: the failure is the candidate's.
        if not started:
            return build_result(Status.SANDBOX_ERROR, f"the checker ended with {ending} before the program was sent")
        if out_of_time or float(checker["cpu_s"]) >= limits.cpu_s:
            return build_result(
                Status.TIMEOUT, f"the test used more than {limits.cpu_s} CPU seconds on the values returned"
            )
        return broken
    status, detail = str(verdict["status"]), str(verdict.get("detail", ""))
    if status == Status.SANDBOX_ERROR:
        # A fault counts only before the code was sent; later a candidate could report one to avoid a failure.
        late = "a fault was reported after the program was sent"
        lasting = verdict.get("lasting") is True
        return build_result(Status.CRASHED, late) if started else build_result(status, detail, lasting=lasting)
    calls = verdict.get("calls", 0)
    if out_of_time:
        return build_result(Status.TIMEOUT, f"the program used more than {limits.cpu_s} CPU seconds")
    if limits.call_cpu_s is not None and guest["exit_code"] == -signal.SIGPROF:
        return build_result(Status.TIMEOUT, f"one call used more than {limits.call_cpu_s} CPU seconds", calls=calls)
    if status == Status.CRASHED:
        detail = f"{detail} ({describe_exit(guest['exit_code'])})"
    if checker["exit_code"] != 0:
        return broken
    texts = {key: verdict[key] for key in _TEXTS if isinstance(verdict.get(key), str)}
    return build_result(status, detail, traceback=str(verdict.get("traceback", "")), calls=calls, **texts)
