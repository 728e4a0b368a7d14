"""The matrix of tasks and runs, and one task side by side."""

from __future__ import annotations

import re
import uuid
from types import SimpleNamespace

import pytest
from sqlalchemy import select

from app.comparison import pages
from app.comparison.matrix import Matrix, _build_cell, build_matrix
from app.runs.models import Run
from app.samples.models import Sample
from evaluation.verdicts import FAILURES
from tests.app.comparison.reading import PASSED, WRONG, address, judge, lay_over, text_of

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


def rows_of(world, *run_ids, budget: float = 3, **filters) -> Matrix:
    return build_matrix(lay_over(world, *run_ids), budget, **filters)


def cells(found: Matrix, task: int) -> list[tuple]:
    row = next(row for row in found.rows if row.task_id == f"HumanEval/{task}")
    return [(cell.outcome, cell.failure, cell.first_correct_s) for cell in row.cells]


def test_a_cell_says_who_solved_the_task_when_and_why_not(world, pair):
    found = rows_of(world, *pair)
    assert cells(found, 0) == [("first", None, 1.5)] * 2
    assert cells(found, 1) == [("first", None, 1.5), ("none", "wrong_answer", None)]
    assert cells(found, 2) == [("first", None, 1.5), ("any", None, 1.2)]
    assert cells(found, 3) == [("none", "not_finished", None)] * 2
    assert cells(found, 4) == [("none", "name_or_import", None)] * 2
    assert cells(rows_of(world, *pair, budget=6), 3)[0] == ("first", None, 4.0)


def test_tasks_that_divide_the_runs_come_first(world, pair):
    order = [row.task_id for row in rows_of(world, *pair).rows]
    assert order == [f"HumanEval/{task}" for task in (1, 2, 0, 3, 4)]


def test_filters_keep_differences_and_losses_of_the_baseline(world, pair):
    def left(**query) -> list[str]:
        found = rows_of(world, *pair, **query)
        assert found.total == 5
        return [row.task_id.removeprefix("HumanEval/") for row in found.rows]

    assert left(only="different") == ["1", "2"]
    assert left(only="lost") == ["1", "2"]
    a, b = pair
    assert rows_of(world, b, a, only="lost").rows == []


def test_the_page_has_a_letter_and_a_link_for_every_cell(world, pair):
    answer = world.client.get(address(*pair, view="/matrix", budget=3))
    body, page = answer.get_data(as_text=True), text_of(answer)
    assert "HumanEval/1 P 1.5 W" in page
    assert "HumanEval/2 P 1.5 (P) 1.2" in page
    assert "HumanEval/4 N N" in page
    assert "Only differences (2)" in page
    assert '<td class="mx-a"><a href="task?id=HumanEval/2&amp;budget=3#B">(P) 1.2</a></td>' in body
    cell = world.client.get(address(*pair, view="/task", id="HumanEval/2", budget=3))
    assert 'id="B"' in cell.get_data(as_text=True)
    empty = text_of(world.client.get(address(*reversed(pair), view="/matrix", budget=3, only="lost")))
    assert "No task matches" in empty


def test_a_long_matrix_has_pages(world, pair, monkeypatch):
    monkeypatch.setattr(pages, "CELLS_SHOWN", 4)
    answer = world.client.get(address(*pair, view="/matrix", budget=3))
    assert "Tasks 1 to 2 of 5" in text_of(answer)
    following = re.search(r'href="([^"]*from=2[^"]*)"', answer.get_data(as_text=True))
    assert following is not None
    assert "Tasks 3 to 4 of 5" in text_of(world.client.get(following[1].replace("&amp;", "&")))
    for start in ("99", "x", "9" * 5000):
        assert world.client.get(address(*pair, view="/matrix", **{"from": start})).status_code == 200


def test_a_wrong_filter_counts_as_none(world, pair):
    assert "5 tasks at" in text_of(world.client.get(address(*pair, view="/matrix", only="difrent")))


@pytest.mark.thorough
def test_a_first_page_of_164_tasks_and_12_runs_is_light(world):
    runs = [world.add_run(f"run {i}", n=2, limit=None, skill=0.05 * i, seed=i) for i in range(12)]
    for page in (address(*runs, view="/matrix", budget=2.51), address(*runs, figure="both")):
        assert len(world.client.get(page).get_data()) <= 200_000
    every = text_of(world.client.get(address(*runs, view="/matrix")))
    assert "12 runs over 164 tasks" in every


def test_the_chosen_sample_of_each_run_stands_side_by_side(world, pair):
    with world.context.database.session() as session:
        for sample in session.scalars(select(Sample).where(Sample.run_id.in_(pair))):
            sample.program = f"x = {sample.index}\n" + "y\n" * 2500
    page = text_of(world.client.get(address(*pair, view="/task", id="HumanEval/2", budget=3)))
    assert "passed, chosen sample 0 of 4 · 1.5 s" in page
    assert "wrong answer, chosen sample 1 of 4 · 1 s" in page
    assert "characters; the page of the run has the whole text" in page, page[900:2600]


def test_a_task_that_no_run_has_and_a_run_without_it(world):
    a, b = world.add_run("a", limit=2), world.add_run("b", limit=4)
    problem = world.client.get(address(a, b, view="/task", id="nothing"))
    assert "none of these runs has a task 'nothing'" in text_of(problem, 404).lower()
    assert "This run has no samples of the task." in text_of(
        world.client.get(address(a, b, view="/task", id="HumanEval/3"))
    )
    wrong = text_of(world.client.get(address(a, b, view="/task", id="HumanEval/0", budget="x", text="y")))
    assert "Budget is 'x'" in wrong


def test_samples_without_a_program_show_their_text(world):
    a, b = world.add_run("a", limit=2), world.add_run("b", limit=2)
    with world.context.database.session() as session:
        for sample in session.scalars(select(Sample).where(Sample.run_id == a)):
            sample.program = None
    assert world.client.get(address(a, b, view="/task", id="HumanEval/0")).status_code == 200


def test_every_class_of_failure_has_a_sign():
    from app.web.ui.display import FAILURE_SIGNS

    assert tuple(FAILURE_SIGNS) == FAILURES
    letters = [sign.letter for sign in FAILURE_SIGNS.values()]
    assert len({*letters, "P", "(P)"}) == len(letters) + 2


def test_a_run_of_another_study_that_was_deleted_leaves_a_sentence(world):
    a, b = world.add_run("a", limit=2), world.add_run("b", limit=2)
    with world.context.database.session() as session:
        session.delete(session.get_one(Run, b))
    page = text_of(world.client.get(address(a, b, view="/task", id="HumanEval/0")))
    assert "1 of these runs does not exist: it may have been deleted." in page


def test_a_run_without_samples_has_finished_none():
    cell = _build_cell(SimpleNamespace(samples=[]), False, False, -1, 0.0)
    assert cell.failure == "not_finished"
