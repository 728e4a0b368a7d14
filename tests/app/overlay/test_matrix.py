"""The matrix of tasks and runs, and one task side by side."""

from __future__ import annotations

import re
import uuid

import pytest
from sqlalchemy import select

from app.overlay import pages, side_by_side
from app.overlay.line_diff import MOST_LINES, line_diff
from app.runs.models import Run, RunTask
from app.samples.models import Sample
from evaluation.verdicts import FAILURES
from tests.app.overlay.reading import PASSED, WRONG, address, judge, text_of

NAME = ("exception", "NameError: name 'x' is not defined", 1.0, -0.2)


@pytest.fixture
def pair(world) -> list[uuid.UUID]:
    """Two runs over five tasks: alike on 0, lost on 1, by another sample on 2, too late on 3, without a name on 4."""
    a, b = world.add_run("a", limit=5), world.add_run("b", limit=5)
    outcomes = {
        0: ((PASSED,), (PASSED,)),
        1: ((PASSED,), (WRONG,)),
        2: ((PASSED,), (("passed", None, 1.2, -0.9), WRONG)),
        3: ((("passed", None, 4.0, -0.1),), ()),
        4: ((NAME,), (NAME,)),
    }
    for task, both in outcomes.items():
        for run_id, samples in zip((a, b), both, strict=True):
            judge(world, run_id, task, *samples)
    return [a, b]


def api(world, *run_ids, **query) -> dict:
    query = {"runs": ",".join(map(str, run_ids)), "budget": 3, **query}
    answer = world.client.get("/api/v1/overlay/matrix", query_string=query)
    assert answer.status_code == 200, answer.get_json()
    return answer.get_json()


def cells(found: dict, task: int) -> list[tuple]:
    row = next(row for row in found["rows"] if row["task_id"] == f"HumanEval/{task}")
    return [(cell["outcome"], cell["failure"], cell["first_correct_s"]) for cell in row["cells"]]


def test_a_cell_says_who_solved_the_task_when_and_why_not(world, pair):
    found = api(world, *pair)
    assert cells(found, 0) == [("first", None, 1.5)] * 2
    assert cells(found, 1) == [("first", None, 1.5), ("none", "wrong_answer", None)]
    assert cells(found, 2) == [("first", None, 1.5), ("any", None, 1.2)]
    assert cells(found, 3) == [("none", "not_finished", None)] * 2
    assert cells(found, 4) == [("none", "name_or_import", None)] * 2
    assert cells(api(world, *pair, budget=6), 3)[0] == ("first", None, 4.0)


def test_tasks_that_divide_the_runs_come_first(world, pair):
    order = [row["task_id"] for row in api(world, *pair)["rows"]]
    assert order == [f"HumanEval/{task}" for task in (1, 2, 0, 3, 4)]


def test_filters_keep_differences_losses_of_the_baseline_and_classes_of_failure(world, pair):
    def left(**query) -> list[str]:
        found = api(world, *pair, **query)
        assert found["tasks_total"] == 5
        return [row["task_id"].removeprefix("HumanEval/") for row in found["rows"]]

    assert left(only="different") == ["1", "2"]
    assert left(only="lost") == ["1", "2"]
    assert left(only="lost", failure="wrong_answer") == ["1"]
    assert left(failure="name_or_import") == ["4"]
    assert left(failure="memory") == []
    a, b = pair
    assert [row["task_id"] for row in api(world, b, a, only="lost")["rows"]] == []


def test_the_page_has_a_letter_and_a_link_for_every_cell(world, pair):
    answer = world.client.get(address(*pair, view="/matrix", budget=3))
    body, page = answer.get_data(as_text=True), text_of(answer)
    assert "HumanEval/1 P 1.5 W" in page
    assert "HumanEval/2 P 1.5 (P) 1.2" in page
    assert "HumanEval/4 N N" in page
    assert "Unknown name or module (1)" in page
    assert "Only differences (2)" in page
    assert '<td class="mx-a"><a href="task?id=HumanEval/2&amp;budget=3#B">(P) 1.2</a></td>' in body
    cell = world.client.get(address(*pair, view="/task", id="HumanEval/2", budget=3))
    assert 'id="B"' in cell.get_data(as_text=True)
    empty = text_of(world.client.get(address(*pair, view="/matrix", budget=3, failure="memory")))
    assert "No task matches" in empty


def test_a_long_matrix_has_pages(world, pair, monkeypatch):
    monkeypatch.setattr(pages, "CHARACTERS_SHOWN", 350)
    answer = world.client.get(address(*pair, view="/matrix", budget=3))
    assert "Tasks 1 to 2 of 5" in text_of(answer)
    following = re.search(r'href="([^"]*from=2[^"]*)"', answer.get_data(as_text=True))
    assert following is not None
    assert "Tasks 3 to 4 of 5" in text_of(world.client.get(following[1].replace("&amp;", "&")))
    for start in ("99", "x", "9" * 5000):
        assert world.client.get(address(*pair, view="/matrix", **{"from": start})).status_code == 200


def test_wrong_filters_are_named(world, pair):
    page = text_of(world.client.get(address(*pair, view="/matrix", only="difrent", failure="tired")))
    assert "did you mean different" in page
    for query in ({"only": "x"}, {"failure": "tired"}, {"budget": "0"}):
        given = {"runs": ",".join(map(str, pair)), **query}
        problem = world.client.get("/api/v1/overlay/matrix", query_string=given)
        assert problem.status_code == 422
        assert problem.get_json()["errors"][0]["field"] == next(iter(query))


def test_a_first_page_of_164_tasks_and_12_runs_is_light(world):
    runs = [world.add_run(f"run {i}", n=2, limit=None, skill=0.05 * i, seed=i) for i in range(12)]
    for page in (address(*runs, view="/matrix", budget=2.51), address(*runs, figure="both")):
        assert len(world.client.get(page).get_data()) <= 200_000
    every = text_of(world.client.get(address(*runs, view="/matrix")))
    assert "12 runs over 164 tasks" in every


def write(world, run_id: uuid.UUID, texts: list[str]) -> None:
    """Gives the samples of the first task these programs, finished and wrong, in the order of their indices."""
    with world.context.database.session() as session:
        row = session.scalars(select(RunTask).where(RunTask.run_id == run_id, RunTask.position == 0)).one()
        for sample, text in zip(row.samples, texts, strict=True):
            sample.program, sample.raw = text, f"Here it is: {text}"
            sample.verdict, sample.verdict_detail, sample.finish_reason = "wrong_answer", "assertion failed", "stop"
            sample.finished_s, sample.mean_logprob = 1.0 + sample.index, -0.1 * (1 + sample.index)


def test_equal_samples_are_shown_once_and_named_where_another_run_has_them(world):
    a, b = world.add_run("a", limit=2), world.add_run("b", limit=2)
    write(world, a, ["x = 1", "x = 1", "x = 2", "x = 1"])
    write(world, b, ["x = 2", "x = 3", "x = 4", "x = 5"])
    place = address(a, b, view="/task", id="HumanEval/0", budget=9)
    answer = world.client.get(place)
    page = text_of(answer)
    assert "3 of 4 alike" in page
    assert "The same text in B." in page
    assert "1 more different text of B" in page
    assert "Here it is" not in page
    assert "more different" not in text_of(world.client.get(f"{place}&all=1"))
    assert "Here it is" in text_of(world.client.get(f"{place}&text=raw"))


def test_two_chosen_samples_are_compared_line_by_line_with_signs(world):
    a, b = world.add_run("a", limit=2), world.add_run("b", limit=2)
    write(world, a, ["x = 1\ny = 2\nz = 3"] * 4)
    write(world, b, ["x = 1\ny = 5\nz = 3"] * 3 + ["w\n\u202e</code><b>"])
    place = address(a, b, view="/task", id="HumanEval/0", budget=9)
    assert "1 1 x = 1 2 − y = 2 2 + y = 5 3 3 z = 3" in text_of(world.client.get(place))
    assert "Both samples have the same text" in text_of(world.client.get(f"{place}&a=A.0&b=A.2"))
    hostile = world.client.get(f"{place}&a=A.0&b=B.3").get_data(as_text=True)
    assert "\u202e" not in hostile
    assert "</code><b>" not in hostile
    assert "A is 'Z.9': choose a sample from the list" in text_of(world.client.get(f"{place}&a=Z.9"))


def test_a_task_that_no_run_has_and_a_run_without_it(world):
    a, b = world.add_run("a", limit=2), world.add_run("b", limit=4)
    problem = world.client.get(address(a, b, view="/task", id="nothing"))
    assert "none of these runs has a task 'nothing'" in text_of(problem, 404).lower()
    assert "This run does not have the task." in text_of(
        world.client.get(address(a, b, view="/task", id="HumanEval/3"))
    )
    wrong = text_of(world.client.get(address(a, b, view="/task", id="HumanEval/0", budget="x", text="y")))
    assert "Budget is 'x'" in wrong


def test_a_long_text_is_cut_and_its_whole_is_one_link_away(world, monkeypatch):
    monkeypatch.setattr(side_by_side, "CHARACTERS_SHOWN", 10)
    a, b = world.add_run("a", limit=2), world.add_run("b", limit=2)
    page = text_of(world.client.get(address(a, b, view="/task", id="HumanEval/0")))
    assert "The first 10 of" in page
    assert "Whole text of sample" in page


def test_more_texts_than_a_page_can_read_are_refused(world, monkeypatch):
    monkeypatch.setattr(side_by_side, "MOST_SAMPLES", 7)
    a, b = world.add_run("a", limit=2), world.add_run("b", limit=2)
    answer = world.client.get(address(a, b, view="/task", id="HumanEval/0"))
    assert "These runs have 8 samples of each task: choose runs with at most 7" in text_of(answer, 422)


def test_samples_without_a_program_show_their_text(world):
    a, b = world.add_run("a", limit=2), world.add_run("b", limit=2)
    with world.context.database.session() as session:
        for sample in session.scalars(select(Sample).where(Sample.run_id == a)):
            sample.program = None
    assert world.client.get(address(a, b, view="/task", id="HumanEval/0")).status_code == 200


def test_every_class_of_failure_has_a_sign():
    from app.ui.display import FAILURE_SIGNS

    assert tuple(FAILURE_SIGNS) == FAILURES
    letters = [sign.letter for sign in FAILURE_SIGNS.values()]
    assert len({*letters, "P", "(P)"}) == len(letters) + 2


def test_a_line_diff_of_hostile_lengths_ends_soon():
    found = line_diff("a\n" * 50_000, "b\n" * 50_000)
    assert found.cut
    assert sum(len(part) for part in found.parts) == 2 * MOST_LINES
    assert line_diff("x", "x").parts == ()


def test_a_run_of_another_study_that_was_deleted_leaves_a_sentence(world):
    a, b = world.add_run("a", limit=2), world.add_run("b", limit=2)
    with world.context.database.session() as session:
        session.delete(session.get_one(Run, b))
    page = text_of(world.client.get(address(a, b, view="/task", id="HumanEval/0")))
    assert "1 of these runs does not exist: it may have been deleted." in page
