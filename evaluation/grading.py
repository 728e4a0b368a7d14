"""Grading: a program and its task in, a verdict out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import islice
from typing import Any

from evaluation import datasets
from evaluation.languages import judging, registry
from evaluation.project_tests.judge import ArchiveLoader, get_shared_judge
from evaluation.project_tests.spec import ProjectTests
from evaluation.sandbox import Limits, Sandbox, SandboxResult, SandboxTask, clean_text, retry_faults
from evaluation.sandbox.zygotes import ZygoteError
from evaluation.verdicts import Status, Trust, Verdict

MAX_PROGRAM_BYTES = 4 * 2**20
_TEXTS = ("detail", "traceback", "failing_assert", "got", "expected")
"""What the program chooses of a result."""


class Grader:
    """Judges programs in a sandbox. Safe to use from many threads."""

    def __init__(self, sandbox: Sandbox, limits: Limits | None = None, archives: ArchiveLoader | None = None) -> None:
        self._sandbox = sandbox
        self._limits = limits or Limits()
        self._archives = archives

    def judge(self, program: str, task: SandboxTask) -> Verdict:
        """Return the verdict on a complete program.

        A timeout stands: CPU time does not depend on other work, and the wall-clock limit leaves out waits for a CPU. A
        fault of the sandbox is repeated up to twice; then it is the verdict (`sandbox_error`).
        """
        refused, reference = _refuse_program(program), ""
        if isinstance(task, datasets.Task):
            if task.language != datasets.PYTHON or task.project_tests is not None:
                trust = Trust.PROXY if task.signature is not None else Trust.IN_GUEST
                result = refused or retry_faults(self._build_attempt(program, task))
                return self._build_verdict(replace(result, trust=trust))
            solution = task.canonical_solution
            reference = task.build_judged_program(task.build_program(solution)) if solution else ""
            program, task = program if refused else task.build_judged_program(program), task.build_judged_task()
        if refused:
            return self._build_verdict(replace(refused, trust=self._sandbox.build_job(program, task).trust))
        return self._build_verdict(retry_faults(lambda: self._sandbox.judge(program, task, self._limits, reference)))

    def judge_many(self, items: Iterable[tuple[str, SandboxTask]], workers: int = 2) -> Iterator[tuple[int, Verdict]]:
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

    def _build_attempt(self, program: str, task: datasets.Task) -> Callable[[], SandboxResult]:
        """What judges a program by cases, by its exit code or by its project's tests; it raises ToolchainError where
        the toolchain of another language is missing."""
        if task.project_tests is not None:
            spec, judge = ProjectTests.from_json(task.project_tests), get_shared_judge(self._sandbox, self._archives)
            return lambda: judge.judge(program, spec)
        language = registry.load_language(task.language)
        given = self._sandbox, language, program

        def attempt() -> SandboxResult:
            try:
                if task.signature is None:
                    return judging.judge_by_exit_code(*given, task.test, self._limits)
                return judging.judge_by_cases(*given, task.signature, task.cases, self._limits)
            except (ZygoteError, OSError) as error:
                return SandboxResult(Status.SANDBOX_ERROR, str(error))

        return attempt

    def _build_verdict(self, result: SandboxResult) -> Verdict:
        texts = {name: getattr(result, name) for name in _TEXTS}
        cleaned: dict[str, Any] = {name: text if text is None else clean_text(text) for name, text in texts.items()}
        return Verdict(
            status=Status(result.status), cpu_s=result.cpu_s, wall_s=result.wall_s, calls=result.calls,
            isolation=self._sandbox.tier_name, trust=result.trust, **cleaned,
        )  # fmt: skip


def _refuse_program(program: str) -> SandboxResult | None:
    if not program.strip():
        return SandboxResult(Status.EMPTY, "the program is empty")
    if len(program.encode("utf-8", "surrogatepass")) > MAX_PROGRAM_BYTES:
        return SandboxResult(Status.SYNTAX_ERROR, f"the program is longer than {MAX_PROGRAM_BYTES} bytes")
    return None
