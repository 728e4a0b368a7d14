"""Jobs of the sandbox and their results: a program and a test, made from a task."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from evaluation.sandbox.crossing import CANONICAL, find_obstacle, needs_prompt
from evaluation.sandbox.interpreter import InterpreterNames
from evaluation.sandbox.packages import JUDGE_PACKAGES, find_outside_imports
from evaluation.source import close_definition
from evaluation.verdicts import Status, Trust

_ENTRY, _BUILTINS = "__bassline_check__", "__bassline_builtins__"
_ATTEMPTS = 3


class SandboxTask(Protocol):
    """The fields of a task that the sandbox reads."""

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
class SandboxJob:
    """One program and the test to judge it by. `in_guest`: the test is part of the program and runs in the guest.

    `reference` is a right program, which the checker runs for a test that calls CANONICAL. `packages` are those outside
    the standard library that the test, the prompt it uses and the reference need.
    """

    program: str
    entry_point: str
    prompt: str
    test: str
    in_guest: bool = False
    reference: str = ""
    packages: tuple[str, ...] = ()
    fault: str = ""  # why it cannot be judged, whatever the program

    @property
    def trust(self) -> Trust:
        """How far a verdict on this job can be trusted."""
        return Trust.IN_GUEST if self.in_guest else Trust.PROXY

    @property
    def has_many_inputs(self) -> bool:
        """Whether the test is of EvalPlus' kind, with hundreds of inputs for one program."""
        return bool(self.reference) or self.needs_judge_packages

    @property
    def needs_judge_packages(self) -> bool:
        """Whether the test needs a compiled package of Bassline's environment."""
        return not set(JUDGE_PACKAGES).isdisjoint(self.packages)


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """The outcome of a job. Times in seconds; texts may be hostile: use `clean_text` before storing them."""

    status: str  # a `Status`, or "obstacle" if only running the test showed that it needs the guest
    detail: str = ""
    traceback: str = ""
    failing_assert: str | None = None
    got: str | None = None
    expected: str | None = None
    # the text that check(candidate) returned, if it passed: such a check computes something and judges nothing
    answer: str | None = None
    calls: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    # the part of `wall_s` in which its processes were ready to run and waited for a CPU; measured only for a job that
    # reaches the wall-clock limit
    waited_s: float = 0.0
    lasting: bool = False  # another attempt would meet the same fault, as when the task's test cannot be loaded
    trust: Trust = Trust.PROXY


def build_job(program: str, task: SandboxTask, names: InterpreterNames, reference: str = "") -> SandboxJob:
    """The job that judges a program by its task's test: against a proxy where the test allows it, else in the guest.

    `names` are the names that the sandbox's Python defines; `reference` is the task's own program.
    """
    obstacle = find_obstacle(task.prompt, task.test, task.entry_point, names)
    if obstacle is not None:
        return build_guest_job(program, task, names, obstacle)
    prompt = ""
    if needs_prompt(task.prompt, task.test, task.entry_point):
        prompt = close_definition(task.prompt) or task.prompt
    reference = reference if CANONICAL in task.test else ""
    needed = {name for text in (prompt, task.test, reference) for name in find_outside_imports(text, names.modules)}
    return SandboxJob(program, task.entry_point, prompt, task.test, reference=reference, packages=tuple(sorted(needed)))


def build_guest_job(program: str, task: SandboxTask, names: InterpreterNames, obstacle: str) -> SandboxJob:
    """The job that runs the test beside the program, in the guest, because of the obstacle."""
    # The test is executed as a separate text: neither text can change how the other is parsed.
    run_test = (
        f"{_BUILTINS}.exec({_BUILTINS}.compile({task.test!r}, '<test>', 'exec', dont_inherit=True),"
        f" {_BUILTINS}.globals())"
    )
    whole = f"{program}\nimport builtins as {_BUILTINS}\n{run_test}\ndef {_ENTRY}():\n    check({task.entry_point})\n"
    return SandboxJob(
        whole,
        _ENTRY,
        "",
        "def check(candidate):\n    candidate()\n",
        in_guest=True,
        packages=find_outside_imports(task.test, names.modules),
        fault=f"the test calls {CANONICAL} and must run beside the program: {obstacle}"
        if CANONICAL in task.test
        else "",
    )


def retry_faults(attempt: Callable[[], SandboxResult]) -> SandboxResult:
    """Attempt up to three times. Return the first result that is no fault of the sandbox or is a lasting one; else the
    last."""
    for _ in range(_ATTEMPTS):
        result = attempt()
        if result.status != Status.SANDBOX_ERROR or result.lasting:
            break
    return result


def describe_exit(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def clean_text(text: str) -> str:
    """Text that any database and terminal accepts: no lone surrogates, no control characters but \\t and \\n."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(c if " " <= c <= "~" or c > "\x9f" or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)
