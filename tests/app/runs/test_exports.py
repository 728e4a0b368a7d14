"""Exports are read in batches while they are sent, so that their size does not decide how much memory they take."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest
from sqlalchemy import delete, event, select

from app.core.errors import ConflictError
from app.runs import documents, service
from app.runs.hidden_runs import hide_runs
from app.runs.models import RunTask
from app.runs.repository import BATCH_TASKS, get_run, iterate_tasks
from app.samples.models import Sample
from app.studies import archive
from app.studies.archive import StudyArchive
from app.studies.repository import get_study
from tests.thorough import thorough

N_TASKS = 164
LARGE = "x" * 20_000


@pytest.fixture
def large(world):
    """A study of two arms, each with several MB of samples."""
    arms = ({"name": f"n = {n}", "n": n, "limit": None, "raw": LARGE} for n in (2, 1))
    return world.add_study(*arms)


def peak_and_size(chunks) -> tuple[int, int]:
    """The peak of memory in bytes while the chunks are taken and dropped, and the bytes of all."""
    tracemalloc.start()
    try:
        size = sum(map(len, chunks))
        return tracemalloc.get_traced_memory()[1], size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("form", ["samples", thorough("human-eval")])
def test_samples_take_the_memory_of_a_batch(world, large, form):
    with world.context.database.read() as session:
        run = get_study(session, large).runs[0]
        chunks = documents.export_chunks(world.context.database, run, form)
    peak, size = peak_and_size(chunks)
    assert size > 6_000_000
    assert peak < size / 2


def test_an_archive_takes_the_memory_of_a_batch(world, large):
    with world.context.database.read() as session:
        chunks = archive.write_archive(world.context.database, get_study(session, large))
    peak, _ = peak_and_size(chunks)
    samples = 3 * N_TASKS * 2 * len(LARGE)  # raw texts and programs
    assert peak < samples / 5


@pytest.mark.thorough
def test_an_archive_in_parts_is_the_archive(world, large):
    with world.context.database.read() as session:
        study = get_study(session, large)
        written = gzip.decompress(b"".join(archive.write_archive(world.context.database, study)))
        again = StudyArchive.model_validate_json(written).model_dump_json(exclude_unset=True)
    is_same = written.decode() == again  # pytest would compare 20 MB letter by letter
    assert is_same
    read = json.loads(written)
    assert [[len(task["samples"]) for task in arm["tasks"]] for arm in read["arms"]] == [[2] * N_TASKS, [1] * N_TASKS]


@pytest.mark.parametrize("path", ["/api/v1/runs/{run}/export", "/api/v1/studies/{study}/export?format=archive"])
def test_rest_reads_the_next_batch_when_the_first_has_been_sent(world, large, path):
    with world.context.database.read() as session:
        run = get_study(session, large).runs[0].id
    batches = []

    def count(_connection, _cursor, statement, *_rest):
        if "FROM run_tasks" in statement and "LIMIT" in statement:
            batches.append(statement)

    event.listen(world.context.database.engine, "before_cursor_execute", count)
    answer = world.client.get(path.format(run=run, study=large), buffered=False)
    assert answer.is_streamed
    before = len(batches)
    assert len(answer.get_data()) > 10_000
    assert before < N_TASKS // BATCH_TASKS < len(batches)


def test_a_run_that_is_deleted_meanwhile_ends_the_export_with_an_error(world):
    run = world.add_run("gone", limit=2 * BATCH_TASKS, n=1)
    rows = iterate_tasks(world.context.database, run)
    assert [next(rows).position for _ in range(BATCH_TASKS)] == list(range(BATCH_TASKS))
    service.delete(world.context, run)
    with pytest.raises(ConflictError, match="the run was deleted while it was exported"):
        next(rows)


def test_a_run_whose_deletion_has_only_begun_ends_the_export_with_an_error(world):
    run = world.add_run("going", limit=BATCH_TASKS + 1, n=1)
    rows = iterate_tasks(world.context.database, run)
    for _ in range(BATCH_TASKS):
        next(rows)
    with world.context.database.session() as session:
        hide_runs(world.context, session, [get_run(session, run)])
        session.execute(delete(Sample).where(Sample.run_id == run))
    with pytest.raises(ConflictError, match="the run was deleted while it was exported"):
        next(rows)


def test_tasks_come_in_order_and_once(world):
    run = world.add_run("whole", limit=2 * BATCH_TASKS + 1, n=2)
    found = [(row.task.task_id, len(row.samples)) for row in iterate_tasks(world.context.database, run)]
    with world.context.database.read() as session:
        rows = session.scalars(select(RunTask).where(RunTask.run_id == run).order_by(RunTask.position))
        assert found == [(row.task.task_id, 2) for row in rows]
        assert get_run(session, run).n_tasks == len(found)
