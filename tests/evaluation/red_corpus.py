"""The programs of tests/evaluation/red that concern verdicts, judged one by one.

`python -m tests.evaluation.red_corpus` prints the table of both tiers.
"""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from evaluation.datasets import Task
from evaluation.grading import Grader
from evaluation.sandbox import Limits, Sandbox, SandboxUnavailableError
from evaluation.verdicts import Verdict

FOLDER = Path(__file__).parent / "red"
LIMITS = Limits(wall_s=60.0)
"""The CPU limit is the default one; the wall clock is no matter here, and one program needs 2.4 s of CPU."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A program, the verdicts that are right for it, and the trust that they must be given with."""

    name: str
    expected: frozenset[str]
    trust: str
    program: str
    task: Task

    def is_right(self, verdict: Verdict) -> bool:
        return verdict.status in self.expected and verdict.trust == self.trust


def entries() -> list[Entry]:
    with (FOLDER / "verdicts.tsv").open(encoding="utf-8", newline="") as file:
        return [
            Entry(
                row["program"],
                frozenset(row["expected"].split("|")),
                row["trust"],
                (FOLDER / f"{row['program']}.py").read_text("utf-8"),
                _task(row["program"]),
            )
            for row in csv.DictReader(file, delimiter="\t")
        ]


def _task(name: str) -> Task:
    fields = json.loads((FOLDER / f"{name}.task.json").read_text("utf-8"))
    return Task(name, fields["prompt"], fields["entry_point"], fields["test"], "")


def main() -> None:
    graders = []
    for tier in ("bwrap", "landlock"):
        try:
            graders.append(Grader(Sandbox.detect(only=tier), LIMITS))
        except SandboxUnavailableError as error:
            sys.stdout.write(f"{error}\n")
    for entry in entries():
        verdicts = [grader.judge(entry.program, entry.task) for grader in graders]
        flag = "ok " if all(map(entry.is_right, verdicts)) else "BAD"
        cells = "".join(f"{v.status + ' ' + v.trust:26}" for v in verdicts)
        note = "" if flag == "ok " else verdicts[0].detail
        sys.stdout.write(f"{flag} {entry.name:28}{'|'.join(sorted(entry.expected)):28}{cells}{note}".rstrip() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
