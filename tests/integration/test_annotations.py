"""Annotations on both databases: several changes at once do not undo each other, and lists narrow."""

from __future__ import annotations

import threading

import pytest

from app.annotations.schemas import AnnotationChanges
from app.core.states import DatasetKind
from app.datasets import service as datasets
from app.runs import service
from app.runs.repository import RunFilter, list_runs
from app.runs.schemas import RunSpec
from app.studies import service as studies
from app.studies.repository import get_study
from app.studies.schemas import StudySpec
from evaluation.datasets import Dataset, Task
from tests.fakes import RIGHT

TARGET = "smollm2-135m"


@pytest.fixture(autouse=True)
def _dataset(ctx):
    task = Task("add/0", "def add(a, b):\n", "add", "def check(candidate): ...", RIGHT)
    datasets.store_dataset(ctx, Dataset("additions", (task,), "f" * 64), DatasetKind.IMPORTED)


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


def test_a_note_and_the_archive_at_once_do_not_undo_each_other(ctx, study_id):
    changes = (AnnotationChanges(note="look"), AnnotationChanges(archived=True))
    assert at_once(*(lambda one=one: studies.annotate(ctx, study_id, one) for one in changes)) == []
    with ctx.database.read() as session:
        study = get_study(session, study_id)
    assert (study.note, study.archived) == ("look", True)
    assert all(run.archived for run in study.runs)


def test_lists_narrow(ctx):
    for i in range(4):
        run_id = service.submit(ctx, RunSpec(target=TARGET, dataset="additions", name=f"run {i}"))
        service.annotate(ctx, run_id, AnnotationChanges(archived=i == 3))
    with ctx.database.read() as session:

        def names(**asked):
            return [r.name for r in list_runs(session, RunFilter(**asked))]

        assert names() == ["run 2", "run 1", "run 0"]
        assert names(archived=True) == ["run 3", "run 2", "run 1", "run 0"]
