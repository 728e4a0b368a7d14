"""Scores over tasks from code are shown with and without those whose tests notice few faults."""

from __future__ import annotations

import dataclasses
import json

import pytest
from click.testing import CliRunner

from app.cli.main import cli
from app.datasets.service import import_bytes
from app.runs.repository import list_runs
from app.site.factory import create_app
from tests.fakes import RIGHT, FakeGrader

TASK = {
    "entry_point": "add", "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
    "canonical_solution": RIGHT + "    # canonical\n",
}  # fmt: skip


class FailsTheWeak(FakeGrader):
    """No sample passes the test of add/0; its canonical solution does."""

    def judge_many(self, items, workers):
        for position, verdict in super().judge_many(items, workers):
            program, task = items[position]
            fails = "Sum 0." in task.prompt and "canonical" not in program
            yield position, dataclasses.replace(verdict, status="wrong_answer") if fails else verdict


@pytest.fixture
def evaluated(ctx, monkeypatch):
    """Evaluates a dataset of these tasks, each weak or not; returns the JSON and the text of the run."""
    monkeypatch.setattr("app.cli.common.make_context", lambda: ctx)
    ctx.make_grader = FailsTheWeak

    def run(*weak, judges=(), unstated=(), options=("--weak",)):
        rows = [
            {**TASK, "task_id": f"add/{i}", "prompt": f'def add(a, b):\n    """Sum {i}."""\n', "source": {"weak": each}}
            for i, each in enumerate(weak)
        ]
        for number in unstated:
            rows[number]["source"]["unstated"] = ["line 3: 'secret'"]
        for row, judge in zip(rows, judges, strict=False):
            row["source"]["judge"] = judge
        import_bytes(ctx, "\n".join(map(json.dumps, rows)).encode(), "mine", "mine.jsonl")
        words = ["eval", "--target", "smollm2-135m", "--dataset", "mine", "--n", "2", "--budget", "5", "--name", "w"]
        result = CliRunner().invoke(cli, [*words, *options, "--json", "-"])
        if result.exit_code:
            return None, result.output
        shown = CliRunner().invoke(cli, ["runs", "show", "w"]).stdout
        return json.loads(result.stdout)["figures"], " ".join(shown.split())

    return run


def test_the_shares_are_given_without_weak_tests_too(evaluated, ctx):
    figures, shown = evaluated(True, False, False)
    assert (figures["tasks"], figures["weak_tasks"]) == (3, 1)
    assert (figures["pass_first"], figures["pass_all"]) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert (figures["pass_first_strong"], figures["pass_all_strong"]) == (1.0, 1.0)
    sentence = "1 task has a weak test; without them Pass@First is 100 % and Pass@All 100 %"
    assert sentence in shown
    with ctx.database.read() as session:
        (run,) = list_runs(session)
    page = create_app(ctx).test_client().get(f"/runs/{run.id}").get_data(as_text=True)
    assert sentence in page


@pytest.mark.parametrize(("options", "tasks"), [((), 2), (("--task", "add/0"), 1), (("--weak",), 3)])
def test_a_run_leaves_tasks_with_weak_tests_out_unless_they_are_asked_for(evaluated, options, tasks):
    assert evaluated(True, False, False, options=options)[0]["tasks"] == tasks


def test_where_every_test_is_weak_the_option_that_runs_them_is_named(evaluated):
    assert (
        "every task of mine has a weak test or asks for what its prompt does not tell: run them with --weak"
        in (evaluated(True, options=())[1])
    )


@pytest.mark.parametrize(("options", "tasks"), [((), 1), (("--weak",), 3)])
def test_tasks_that_ask_for_what_their_prompt_does_not_tell_are_left_out_as_well(evaluated, options, tasks):
    figures, shown = evaluated(True, False, False, unstated=(1,), options=options)
    assert figures["tasks"] == tasks
    if options:
        assert (figures["weak_tasks"], figures["unstated_tasks"], figures["pass_first_strong"]) == (1, 1, 1.0)
        sentence = "1 task has a weak test and 1 task asks for what the prompt does not tell; without them Pass@First"
        assert sentence in shown


def test_nothing_is_said_where_no_test_is_weak(evaluated):
    figures, shown = evaluated(False, False)
    assert figures["weak_tasks"] == 0
    assert "weak" not in shown


def test_all_weak_leaves_nothing_to_compare_with(evaluated):
    figures, shown = evaluated(True)
    assert figures["pass_first_strong"] is None
    assert "1 task has a weak test, and no other task was graded" in shown


def test_each_judge_has_its_figures_where_there_are_both(evaluated, ctx):
    figures, shown = evaluated(False, False, judges=("tests", "cases"))
    assert (figures["tasks"], figures["tests_tasks"]) == (2, 1)
    assert (figures["pass_first_tests"], figures["pass_first_cases"]) == (0.0, 1.0)
    assert "1 task judged by the project's own tests: Pass@First 0 %, Pass@All 0 %" in shown
    with ctx.database.read() as session:
        (run,) = list_runs(session)
    assert "1 task judged by recorded calls: Pass@First 100 %" in (
        create_app(ctx).test_client().get(f"/runs/{run.id}").get_data(as_text=True)
    )
