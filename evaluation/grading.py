"""Grading: a program and its task in, a verdict out."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from typing import Literal, Protocol

from evaluation.sandbox.crossing import needs_prompt, obstacle
from evaluation.sandbox.inside.checker import OBSTACLE
from evaluation.sandbox.limits import Limits
from evaluation.sandbox.sandbox import Sandbox
from evaluation.sandbox.supervisor import Job, Result

Status = Literal[
    "passed", "wrong_answer", "exception", "syntax_error", "timeout", "memory", "output_limit", "crashed", "empty",
    "forged", "sandbox_error",
]  # fmt: skip
STATUSES: tuple[Status, ...] = Status.__args__  # type: ignore[attr-defined]
"""Every status. Only `sandbox_error` is not the program's doing: such a sample is not scored."""

Trust = Literal["proxy", "in-guest"]
MAX_PROGRAM_BYTES = 4 * 2**20
_ATTEMPTS = 3
_ENTRY, _OWN = "__bassline_check__", "__bassline_builtins__"


class Task(Protocol):
    """What grading needs of a task."""

    @property
    def prompt(self) -> str:
        """The text that the program begins with."""

    @property
    def entry_point(self) -> str:
        """The function under test."""

    @property
    def test(self) -> str:
        """Source that defines check(candidate)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one program. Times in seconds; all texts are the program's to choose: escape them where
    they are shown.

    `trust` is "proxy" where the test ran in a process of its own, "in-guest" where it had to run beside the
    program, which could then have forged the verdict. `isolation` is the sandbox's tier.
    """

    status: Status
    detail: str
    traceback: str
    failing_assert: str | None
    got: str | None
    expected: str | None
    cpu_s: float
    wall_s: float
    calls: int
    isolation: str
    trust: Trust

    @property
    def passed(self) -> bool:
        """Return whether the program is right."""
        return self.status == "passed"


class Grader:
    """Judges programs in a sandbox. Safe to use from many threads."""

    def __init__(self, sandbox: Sandbox, limits: Limits | None = None) -> None:
        self._sandbox = sandbox
        self._limits = limits or Limits()

    def judge(self, program: str, task: Task) -> Verdict:
        """Return the verdict on a complete program.

        A timeout is repeated once alone, since other work slows the wall clock; a fault of the sandbox is
        repeated up to twice, then it is the verdict (`sandbox_error`).
        """
        job, trust = prepare(program, task)
        result = _refuse(program) or self._settled(job)
        if result.status == OBSTACLE:
            # Only what the test did while it ran showed that it cannot cross.
            job, trust = _in_guest(program, task), "in-guest"
            result = self._settled(job)
        return self._verdict(result, trust)

    def judge_many(self, items: Iterable[tuple[str, Task]], workers: int = 2) -> Iterator[tuple[int, Verdict]]:
        """Yield (position, verdict) as verdicts come; `items` is read a few steps ahead of the workers."""
        if workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers}")
        positions: dict[Future[Verdict], int] = {}
        source = enumerate(items)
        executor = ThreadPoolExecutor(workers, "grader")
        try:
            while True:
                for position, (program, task) in islice(source, 2 * workers - len(positions)):
                    positions[executor.submit(self.judge, program, task)] = position
                if not positions:
                    return
                for future in wait(positions, return_when=FIRST_COMPLETED).done:
                    yield positions.pop(future), future.result()
        finally:
            executor.shutdown(cancel_futures=True)

    def _settled(self, job: Job) -> Result:
        result = self._attempt(job, alone=False)
        return self._attempt(job, alone=True) if result.status == "timeout" else result

    def _attempt(self, job: Job, alone: bool) -> Result:
        for _ in range(_ATTEMPTS):
            result = self._sandbox.run(job, self._limits, alone)
            if result.status != "sandbox_error":
                break
        return result

    def _verdict(self, result: Result, trust: Trust) -> Verdict:
        status: Status = next((s for s in STATUSES if s == result.status), "sandbox_error")
        return Verdict(
            status=status,
            detail=clean(result.detail),
            traceback=clean(result.traceback),
            failing_assert=_clean(result.failing_assert),
            got=_clean(result.got),
            expected=_clean(result.expected),
            cpu_s=result.cpu_s,
            wall_s=result.wall_s,
            calls=result.calls,
            isolation=self._sandbox.tier,
            trust=trust,
        )


def clean(text: str) -> str:
    """Return text that any database and terminal takes: no lone surrogates, no control characters but \\t and \\n."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(c if (c >= " " and c != "\x7f") or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


def _clean(text: str | None) -> str | None:
    return None if text is None else clean(text)


def _refuse(program: str) -> Result | None:
    if not program.strip():
        return Result("empty", "the program is empty")
    if len(program.encode("utf-8", "surrogatepass")) > MAX_PROGRAM_BYTES:
        return Result("syntax_error", f"the program is longer than {MAX_PROGRAM_BYTES} bytes")
    return None


_obstacle = functools.lru_cache(maxsize=4096)(obstacle)
_needs_prompt = functools.lru_cache(maxsize=4096)(needs_prompt)


def prepare(program: str, task: Task) -> tuple[Job, Trust]:
    """Return the sandbox's job for a program, and how far its verdict can be trusted."""
    if _obstacle(task.prompt, task.test, task.entry_point) is None:
        prompt = task.prompt if _needs_prompt(task.prompt, task.test, task.entry_point) else ""
        return Job(program, task.entry_point, prompt, task.test), "proxy"
    return _in_guest(program, task), "in-guest"


def _in_guest(program: str, task: Task) -> Job:
    # The test is a text of its own there: neither can change how the other is read.
    test = f"{_OWN}.exec({_OWN}.compile({task.test!r}, '<test>', 'exec', dont_inherit=True), {_OWN}.globals())"
    whole = f"{program}\nimport builtins as {_OWN}\n{test}\ndef {_ENTRY}():\n    check({task.entry_point})\n"
    return Job(whole, _ENTRY, "", "def check(candidate):\n    candidate()\n", in_guest=True)
