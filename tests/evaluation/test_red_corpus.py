"""The second round of attacks: forged verdicts (a) and right programs of every kind (b) get what they deserve."""

import csv
import json
from pathlib import Path

import pytest

from evaluation.datasets import Task
from evaluation.grading import Grader
from evaluation.sandbox import Limits

FOLDER = Path(__file__).parent / "red"
# The CPU limit is the default one; the wall clock is no matter here, and one program needs 2.4 s of CPU.
LIMITS = Limits(wall_s=60.0)
with (FOLDER / "verdicts.tsv").open(encoding="utf-8", newline="") as file:
    ROWS = list(csv.DictReader(file, delimiter="\t"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["program"])
def test_every_program_gets_its_verdict_and_says_how_far_to_trust_it(sandbox, row):
    name = row["program"]
    fields = json.loads((FOLDER / f"{name}.task.json").read_text("utf-8"))
    task = Task(name, fields["prompt"], fields["entry_point"], fields["test"], "")
    verdict = Grader(sandbox, LIMITS).judge((FOLDER / f"{name}.py").read_text("utf-8"), task)
    assert verdict.status in row["expected"].split("|"), verdict
    assert verdict.trust == row["trust"], verdict


def test_no_forgery_passes_under_a_proxy():
    passing = [row for row in ROWS if row["program"][0] == "a" and "passed" in row["expected"].split("|")]
    assert [row["program"] for row in passing if row["trust"] == "proxy"] == ["a19_bool_as_int"]
