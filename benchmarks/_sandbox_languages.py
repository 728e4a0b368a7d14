"""How many verdicts per second in another language? Right programs over translated tasks of HumanEval.

The programs answer from the tables of their cases, so they are right in every language and take as much compiling,
starting and asking as an answer of a model.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from benchmarks._report import Report, print_table
from evaluation import dataset_files
from evaluation.datasets import Task
from evaluation.grading import Grader
from evaluation.languages import registry
from evaluation.languages.translation.translate import read_source, translate_task
from evaluation.languages.translation.type_inference import UntranslatableError
from evaluation.sandbox import Sandbox, SandboxUnavailableError
from evaluation.sandbox.tiers import TIERS

_SAMPLES = 40
_FIGURES: dict[str, Callable[[Sequence[float]], float]] = {"median": statistics.median, "min": min, "max": max}


def measure(name: str, rounds: int, workers: int, limit: int, device: str) -> Report:
    """Return the report; figures are verdicts per second over all workers, in each tier that works here."""
    language = registry.load_language(name)
    toolchain = language.toolchain.find()
    items = list(islice(_list_programs(name), min(limit, _SAMPLES)))
    figures: dict[str, float] = {}
    rows = []
    for tier in TIERS:
        try:
            grader = Grader(Sandbox.detect(only=tier))
        except SandboxUnavailableError:
            continue
        speeds = []
        for turn in range(rounds + 1):
            started = time.perf_counter()
            passed = sum(verdict.passed for _, verdict in grader.judge_many(items, workers))
            seconds = time.perf_counter() - started
            if passed != len(items):
                sys.exit(f"{len(items) - passed} right programs failed: the figures would mean nothing")
            if turn:  # the first turn starts the warm processes
                speeds.append(len(items) / seconds)
        figures |= {f"{tier}.verdicts_per_s.{word}": of(speeds) for word, of in _FIGURES.items()}
        rows.append({"tier": tier, **{f"verdicts/s {word}": of(speeds) for word, of in _FIGURES.items()}})
    print_table(rows)
    settings = {"language": name, "toolchain": toolchain.label, "rounds": rounds, "workers": workers}
    return Report("sandbox", device, {**settings, "samples": len(items)}, figures, rows)


def _list_programs(name: str) -> Iterator[tuple[str, Task]]:
    """(program, task) of tasks that can be translated."""
    language, sandbox = registry.load_language(name), Sandbox.detect()
    for task in dataset_files.load_bundled_dataset("humaneval").tasks:
        try:
            made = translate_task(read_source(sandbox, task), language)
        except UntranslatableError:
            continue
        assert made.signature is not None
        yield language.write_oracle(made.signature, made.cases), made
