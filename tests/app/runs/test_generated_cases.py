"""Pass@First by recorded calls alone: a sample that only a generated call calls wrong counts as right."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from app.cli import cli
from app.datasets.service import import_bytes
from app.factory import create_app
from app.ports import SandboxGrader
from app.runs.caveats import without_generated_cases
from app.runs.figures import record
from app.runs.repository import list_runs
from app.samples.models import Sample

# The engine's samples are `a + b` and `a - b`, the first one the likelier.
BOTH = {"recorded": ["candidate(1, 2) == 3"], "generated": ["candidate(4, 1) == 5"]}
ONLY_RECORDED_HOLDS = {"recorded": ["candidate(1, 2) == 3"], "generated": ["candidate(4, 1) == 3"]}
ONLY_GENERATED_HOLDS = {"recorded": ["candidate(4, 1) == 3"], "generated": ["candidate(1, 2) == 3"]}
RAISES = {"recorded": ["candidate(1, 2) == 3"], "generated": ["candidate('a', 1) == 'a1'"]}
RECORDED_ALONE = {"recorded": ["candidate(1, 2) == 3", "candidate(4, 1) == 3"], "generated": []}
TOO_LARGE = {"recorded": ["candidate(1, 2) == 3"], "generated": ["candidate([0] * 9 ** 9, [1] * 9 ** 9) == 0"]}


@pytest.fixture
def evaluate(ctx, monkeypatch):
    """Decodes tasks with these cases, judges them in the real sandbox, returns figures and text of the run."""
    monkeypatch.setattr("app.commands.common.make_context", lambda: ctx)
    ctx.make_grader = SandboxGrader

    def run(*tasks):
        rows = []
        for i, cases in enumerate(tasks):
            body = "\n".join(f"    assert {case}" for case in (*cases["recorded"], *cases["generated"]))
            n = len(cases["recorded"])
            rows.append(
                {
                    "task_id": f"add/{i}", "prompt": f'def add(a, b):\n    """Sum {i}."""\n', "entry_point": "add",
                    "test": f"def check(candidate):\n{body}\n", "canonical_solution": "",
                    "source": {"judge": "cases", "cases": n + len(cases["generated"]), "recorded_cases": n},
                }
            )  # fmt: skip
        import_bytes(ctx, "\n".join(map(json.dumps, rows)).encode(), "mine", "mine.jsonl")
        words = ["eval", "--target", "smollm2-135m", "--dataset", "mine", "--n", "2", "--budget", "5", "--name", "g"]
        result = CliRunner().invoke(cli, [*words, "--json", "-"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)["figures"], " ".join(
            CliRunner().invoke(cli, ["runs", "show", "g"]).stdout.split()
        )

    return run


@pytest.mark.parametrize(
    ("cases", "first", "recorded"),
    [(BOTH, 1.0, 1.0), (ONLY_RECORDED_HOLDS, 0.0, 1.0), (ONLY_GENERATED_HOLDS, 0.0, 0.0), (RAISES, 0.0, 1.0)],
    ids=["both", "fails in a generated call", "fails in a recorded call", "raises in a generated call"],
)
def test_a_failure_in_a_generated_call_does_not_count_against_the_recorded_ones(evaluate, cases, first, recorded):
    figures, _ = evaluate(cases)
    assert (figures["pass_first"], figures["pass_first_recorded"]) == (first, recorded)


def test_a_program_that_runs_out_of_memory_in_a_generated_call_is_wrong(evaluate):
    figures, _ = evaluate(TOO_LARGE)
    assert (figures["pass_first"], figures["pass_first_recorded"]) == (0.0, 0.0)


def test_the_shares_are_over_all_tasks_and_stand_on_the_page(evaluate, ctx):
    figures, shown = evaluate(ONLY_RECORDED_HOLDS, RECORDED_ALONE, BOTH)
    assert (figures["tasks"], figures["generated_tasks"]) == (3, 2)
    assert (figures["pass_first"], figures["pass_first_recorded"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert (figures["pass_all"], figures["pass_all_recorded"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    sentence = "by recorded calls alone Pass@First is 67 % and Pass@All 67 %"
    assert sentence in shown
    with ctx.database.read() as session:
        (run,) = list_runs(session)
    assert sentence in create_app(ctx).test_client().get(f"/runs/{run.id}").get_data(as_text=True)


def test_nothing_is_said_where_every_call_was_recorded(evaluate):
    figures, shown = evaluate(RECORDED_ALONE)
    assert (figures["generated_tasks"], figures["pass_first_recorded"]) == (0, None)
    assert "generated" not in shown


def test_nothing_is_said_where_it_is_not_known_in_which_call_a_sample_failed(evaluate, ctx):
    evaluate(ONLY_RECORDED_HOLDS)
    with ctx.database.session() as session:
        session.query(Sample).update({Sample.calls: None})
        (run,) = list_runs(session)
        record(session, run)
        assert (run.figures.pass_first, run.figures.pass_first_recorded) == (0.0, None)
        assert without_generated_cases(run.figures) is None
