"""`bassline advise`: one sentence that claims no more than its tasks allow, and a command that resumes."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from app.advice import study
from app.advice.report import format_advice
from app.cli import advise, from_code
from app.core.errors import UnavailableError
from app.datasets import service
from app.runs.failures import FailureCounts
from app.studies.repository import list_studies
from evaluation.studies.answer import answer_at
from tests.evaluation.studies.making import passing, score

STOPPED, CUT = FailureCounts(80, cut=3, at_limit=0, stopped=57), FailureCounts(80, cut=70, at_limit=0, stopped=0)


def said(n=40, solved=20, rival=5, cheap=True, disturbance="", failed=STOPPED):
    """The sentence about a model that solves so many tasks and another, over the same tasks."""
    answer = []
    if n:
        measured = [passing("big", solved, n, cost_s=2.0), passing("small", rival, n, cost_s=1.0 if cheap else 3.0)]
        answer = [answer_at(score(measured, 3.0), 3.0)]
    study = SimpleNamespace(tasks_common=n, dataset="mine", dataset_tasks=max(n, 1))
    return format_advice(SimpleNamespace(study=study, answer=answer, disturbance=disturbance), failed)


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ({}, "On 40 tasks of your code within 3 s use big: 50 % right (35 to 65). It is better than small."),
        (
            {"rival": 18},
            "the best so far is big: 50 % right (35 to 65). Undecided against small. small is cheaper and up to",
        ),
        ({"rival": 18, "cheap": False}, "Undecided against small. About"),
        ({"n": 164, "solved": 80, "rival": 79}, "use small: 48.2 % right (40.7 to 55.8). It is cheaper than big"),
        ({"solved": 5, "rival": 1}, "Too few to advise: the best of them, big, solves 5 of the 40 tasks"),
        ({"n": 12, "solved": 10}, "Too few to advise"),
        (
            {"solved": 0, "rival": 0},
            "None of these models solves any of the 40 tasks of your code within 3 s. 60 of 80",
        ),
        (
            {"solved": 0, "rival": 0},
            "57 stopped by themselves and are wrong, 3 were cut off by the deadline: use a stronger model",
        ),
        ({"solved": 0, "rival": 0, "failed": CUT}, "70 were cut off by the deadline: give a larger budget"),
        ({"solved": 5, "rival": 1}, "of which one model solves 6. 60 of 80 samples failed"),
        ({"n": 0}, "nothing to advise"),
        ({"disturbance": "Measured on a busy machine: "}, "Measured on a busy machine: On 40 tasks of your code"),
    ],
)
def test_the_sentence_is_as_strong_as_its_tasks(case, sentence):
    assert sentence in said(**case)


def test_weak_tasks_are_left_out_and_the_minutes_limit_the_number():
    tasks = [SimpleNamespace(task_id=f"t{i}", source={"weak": i % 2 == 0}) for i in range(200)]
    dataset = SimpleNamespace(tasks=tasks)
    few, many = (study.choose_tasks(dataset, 2, 3.0, seconds) for seconds in (100.0, 500.0))
    assert (len(few), len(many)) == (study.MIN_TASKS, 50)
    assert all(int(task_id[1:]) % 2 for task_id in many)
    assert set(few) < set(many)
    assert few == sorted(few, key=lambda task_id: int(task_id[1:]))


def test_one_model_is_compared_with_itself():
    assert [(arm["target"], arm["n"]) for arm in study.make_arms(["a"], 4)] == [("a", 1), ("a", 4)]
    assert [(arm["target"], arm["n"]) for arm in study.make_arms(["a", "b"], 4)] == [("a", 4), ("b", 4)]


@pytest.mark.slow
def test_an_interrupted_command_resumes_with_its_dataset_and_its_study(bassline, ctx, additions, monkeypatch, tmp_path):
    made = []

    def make(ctx, *_words):
        made.append(service.require_dataset(ctx, additions))
        return [made[-1]]

    monkeypatch.setattr(from_code, "make_datasets", make)
    words = ["advise", tmp_path, "--target", "smollm2-135m", "--n", "2", "--report", tmp_path / "advice.md"]
    work = advise.foreground.ExecutionSite.wait_for_study
    monkeypatch.setattr(advise.foreground.ExecutionSite, "wait_for_study", _interrupted)
    first = bassline(*words)
    assert first.exit_code == 1, first.output
    monkeypatch.setattr(advise.foreground.ExecutionSite, "wait_for_study", work)

    second = bassline(*words, "--json", tmp_path / "advice.json")

    assert second.exit_code == 0, second.output
    assert "resumed: the dataset additions is made" in second.stderr
    assert len(made) == 1
    with ctx.database.read() as session:
        (stored,) = list_studies(session, limit=9)
    content = json.loads((tmp_path / "advice.json").read_text())
    assert content["study"]["study"]["id"] == str(stored.id)
    report = (tmp_path / "advice.md").read_text()
    assert f"```console\n{stored.command}\n```" in report, "a command is code, with nothing escaped"
    title, sentence, *_ = report.split("\n\n")
    assert (title, "Too few to advise" in sentence) == ("# Which model for additions?", True)
    assert content["advice"] in " ".join(second.stdout.split())


def _interrupted(_place, _study_id):
    raise UnavailableError("the power failed")
