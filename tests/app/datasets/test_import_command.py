"""`bassline datasets import` runs the canonical solutions, and says which fail before a model is judged by them."""

from __future__ import annotations

import json

import pytest

from app.core.errors import UnavailableError
from app.datasets import repository
from app.datasets.service import require_dataset
from app.site.factory import create_app
from tests.fakes import RIGHT

ROW = {
    "prompt": "def add(a, b):\n",
    "entry_point": "add",
    "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
}


@pytest.fixture
def imported(bassline, tmp_path):
    """Imports a file with these canonical solutions; returns click's result."""

    def run(*solutions: str, options: tuple[str, ...] = ()):
        file = tmp_path / "mine.jsonl"
        rows = [{**ROW, "task_id": f"add/{i}", "canonical_solution": s} for i, s in enumerate(solutions)]
        file.write_text("\n".join(map(json.dumps, rows)))
        result = bassline("datasets", "import", file, *options)
        assert result.exit_code == 0, result.output
        return result

    return run


def checks(ctx):
    dataset = require_dataset(ctx, "mine")
    with ctx.database.read() as session:
        return [check.failed for check in repository.load_checks(session, dataset.id)]


def test_tasks_whose_own_solution_fails_are_named_and_stored(imported, ctx):
    result = imported(RIGHT, "    return 'broken'\n", RIGHT)
    assert result.stdout.startswith("mine: 3 tasks")
    assert "1 of 3 tasks fail with their own canonical solution, and runs leave them out: add/1;" in result.stderr
    assert checks(ctx) == [["add/1"]]  # the first run need not do it again


def test_many_that_fail_are_named_in_part(imported):
    assert "add/19 and 5 more; correct the file" in imported(*["    return 'broken'\n"] * 25).stderr


def test_that_all_are_right_is_said(imported, ctx):
    result = imported(RIGHT)
    assert ("no canonical solution fails" in result.stdout, result.stderr) == (True, "")
    assert checks(ctx) == [[]]


def test_without_a_sandbox_the_file_is_imported_unchecked(imported, ctx):
    def none():
        raise UnavailableError("no sandbox on this machine: install bubblewrap")

    ctx.make_grader = none
    result = imported(RIGHT)
    assert "the canonical solutions were not run, the first run will: no sandbox on this machine" in result.stderr
    assert checks(ctx) == []


def test_no_check_runs_nothing(imported, ctx):
    assert imported("    return 'broken'\n", options=("--no-check",)).stderr == ""
    assert checks(ctx) == []


PLUS = {
    "prompt": "def add(a, b):\n",
    "entry_point": "add",
    "base_input": [[1, 2]],
    "plus_input": [[-1, -2]],
    "atol": 0,
    "contract": "",
}


def import_rows(bassline, tmp_path, *rows):
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = bassline("datasets", "import", file)
    assert result.exit_code == 0, result.output
    return result


def test_the_fields_that_decide_and_those_that_play_no_part_are_named_and_stored(ctx, bassline, tmp_path):
    client = create_app(ctx).test_client()
    rows = [{**PLUS, "task_id": "add/0", "canonical_solution": RIGHT}, {**ROW, "task_id": "add/1", "note": 1}]
    expected = (
        "judged by base_input, plus_input, atol, canonical_solution (1 task), test (1 task); "
        "fields not used: contract (1 task), note (1 task)"
    )
    assert expected in import_rows(bassline, tmp_path, *rows).stdout
    assert expected in import_rows(bassline, tmp_path, *rows).stdout  # known content, whose file is not read again
    assert expected in bassline("datasets", "show", "mine").stdout
    document = client.get(f"/api/v1/datasets/{require_dataset(ctx, 'mine').id}").get_json()
    assert document["judged_by"] == {"base_input, plus_input, atol, canonical_solution": 1, "test": 1}
    assert document["not_used"] == {"contract": 1, "note": 1}
    assert "Judged by base_input" in client.get(f"/datasets/{require_dataset(ctx, 'mine').id}").text


def test_a_task_that_cannot_be_judged_is_left_out_with_its_reason(ctx, bassline, tmp_path):
    left_out = {**PLUS, "task_id": "Mbpp/164", "entry_point": "are_equivalent", "canonical_solution": RIGHT}
    result = import_rows(bassline, tmp_path, {**PLUS, "task_id": "add/0", "canonical_solution": RIGHT}, left_out)
    assert result.stdout.startswith("mine: 1 task,")
    assert "1 task left out, Mbpp/164: EvalPlus accepts every answer" in result.stderr


def test_why_a_solution_fails_is_said(imported):
    assert "  add/0: wrong_answer: " in imported("    return 'broken'\n").stderr
