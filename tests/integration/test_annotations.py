"""Annotations on both databases: nobody's tag is lost when several change at once, and no tag outlives its row."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import func, select

from app.annotations.schemas import Changes
from app.annotations.selection import Selection, known_tags
from app.core.errors import BadInputError
from app.core.states import DatasetKind
from app.datasets import service as datasets
from app.leaderboard.repository import versions
from app.runs import service, transitions
from app.runs.models import RunCurve, RunTag
from app.runs.repository import RunFilter, get_run, list_runs
from app.runs.schemas import RunSpec
from app.studies import service as studies
from app.studies.models import StudyTag
from app.studies.repository import get_study
from app.studies.schemas import StudySpec
from evaluation.datasets import Dataset, Task
from tests.fakes import RIGHT

TARGET = "smollm2-135m"


@pytest.fixture(autouse=True)
def _dataset(ctx):
    task = Task("add/0", "def add(a, b):\n", "add", "def check(candidate): ...", RIGHT)
    datasets.store(ctx, Dataset("additions", (task,), "f" * 64), DatasetKind.IMPORTED)


@pytest.fixture
def run_id(ctx):
    return service.submit(ctx, RunSpec(target=TARGET, dataset="additions"))


@pytest.fixture
def study_id(ctx):
    arms = [{"target": TARGET, "n": n} for n in (1, 2)]
    return studies.submit(ctx, StudySpec.model_validate({"dataset": "additions", "arms": arms}))


def at_once(*works):
    """Calls all of these at the same time; returns their errors."""
    start, errors = threading.Barrier(len(works)), []

    def run(work):
        start.wait()
        try:
            work()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def tags_of(ctx, run_id):
    with ctx.database.read() as session:
        return get_run(session, run_id).tags


def test_tags_added_and_removed_at_once_are_all_added_and_removed(ctx, run_id):
    service.annotate(ctx, run_id, Changes(tags=("old-0", "old-1", "old-2")))
    changes = [Changes(add_tags=(f"new-{i}", "shared"), remove_tags=(f"old-{i % 3}",)) for i in range(8)]
    assert at_once(*(lambda one=one: service.annotate(ctx, run_id, one) for one in changes)) == []
    assert set(tags_of(ctx, run_id)) == {"shared", *(f"new-{i}" for i in range(8))}


def test_together_they_add_no_more_than_a_run_may_have(ctx, run_id):
    service.annotate(ctx, run_id, Changes(tags=tuple(f"t{i}" for i in range(18))))
    changes = [Changes(add_tags=(f"more-{i}",)) for i in range(6)]
    errors = at_once(*(lambda one=one: service.annotate(ctx, run_id, one) for one in changes))
    assert len(errors) == 4
    assert all(isinstance(error, BadInputError) for error in errors)
    assert len(tags_of(ctx, run_id)) == 20


def test_a_note_a_star_and_a_tag_at_once_do_not_undo_each_other(ctx, study_id):
    changes = (Changes(note="look"), Changes(starred=True), Changes(add_tags=("x",)), Changes(archived=True))
    assert at_once(*(lambda one=one: studies.annotate(ctx, study_id, one) for one in changes)) == []
    with ctx.database.read() as session:
        study = get_study(session, study_id)
    assert (study.note, study.starred, study.tags, study.archived) == ("look", True, ("x",), True)
    assert all(run.archived for run in study.runs)


def count(ctx, table) -> int:
    with ctx.database.read() as session:
        return session.scalar(select(func.count()).select_from(table))


def test_a_run_and_a_study_take_their_tags_with_them_when_they_are_deleted(ctx, run_id, study_id):
    service.annotate(ctx, run_id, Changes(tags=("a", "b")))
    studies.annotate(ctx, study_id, Changes(tags=("c",)))
    with ctx.database.read() as session:
        arm = get_study(session, study_id).runs[0].id
    service.annotate(ctx, arm, Changes(tags=("d",)))
    assert (count(ctx, RunTag), count(ctx, StudyTag)) == (3, 1)
    transitions.cancel(ctx, run_id)
    service.delete(ctx, run_id)
    studies.cancel(ctx, study_id)
    studies.delete(ctx, study_id)
    assert (count(ctx, RunTag), count(ctx, StudyTag)) == (0, 0)


def test_the_leaderboard_reads_the_annotations_of_all_runs_with_one_query(ctx):
    for name, changes in (
        ("plain", Changes()),
        ("noted", Changes(tags=("b", "a-1", "c"), starred=True, archived=True)),
    ):
        run_id = service.submit(ctx, RunSpec(target=TARGET, dataset="additions", name=name))
        with ctx.database.session() as session:
            session.add(RunCurve(run_id=run_id, n_tasks=1, budgets=[1.0], pass_first=[1.0], pass_all=[1.0]))
        service.annotate(ctx, run_id, changes)
    with ctx.database.read() as session:
        found = [(one.starred, one.archived, one.tags) for one in versions(session)]
    assert found == [(True, True, ("a-1", "b", "c")), (False, False, ())]


def test_lists_narrow(ctx):
    for i in range(4):
        run_id = service.submit(ctx, RunSpec(target=TARGET, dataset="additions", name=f"run {i}"))
        changes = Changes(tags=("even",) if i % 2 == 0 else ("odd", "o"), starred=i > 1, archived=i == 3)
        service.annotate(ctx, run_id, changes)
    with ctx.database.read() as session:

        def names(**asked):
            return [r.name for r in list_runs(session, RunFilter(selection=Selection(**asked)))]

        assert names() == ["run 2", "run 1", "run 0"]
        assert names(tag="even") == ["run 2", "run 0"]
        assert names(tag="odd", archived=True) == ["run 3", "run 1"]
        assert names(starred=True, archived=True) == ["run 3", "run 2"]
        assert known_tags(session, RunTag) == ["even", "o", "odd"]
