"""On each database: a study is archived, deleted and loaded again, with whatever the model wrote."""

from __future__ import annotations

import json

import pytest

from app.core.errors import UnavailableError
from app.core.states import RunState
from app.datasets.service import import_bytes
from app.jobs.embedded import EmbeddedWorkers
from app.studies import archive, documents, loading, progress, service
from app.studies.analysis import analyse_study
from app.studies.repository import get_study
from app.studies.schemas import StudySpec
from tests.fakes import RIGHT
from tests.integration.waiting import wait_for

ROWS = [
    {"task_id": f"add/{i}", "prompt": f"def add(a, b):\n    # {i}\n", "entry_point": "add",
     "test": "def check(candidate): ...\n", "canonical_solution": RIGHT}
    for i in range(2)
]  # fmt: skip


def test_an_archive_loads_where_it_was_written(ctx):
    generate = ctx.load_engine(None, None).generate

    def hostile(*args):
        done = generate(*args)
        for sample in done.samples:
            sample.text += "# \0 \ud800 \\u0000\n"
        return done

    ctx.load_engine(None, None).generate = hostile
    import_bytes(ctx, "\n".join(map(json.dumps, ROWS)).encode(), "additions", "additions.jsonl")
    arms = [{"target": "smollm2-135m", "n": n} for n in (1, 2)]

    def found():
        with ctx.database.read() as session:
            study = get_study(session, study_id)
            said = documents.build_document(
                study, analyse_study(session, study), progress.compute_study_progress(session, study)
            )
            return study.state, said.model_dump(
                exclude={"arms": {"__all__": {"run_id"}}, "study": {"measured_elsewhere"}}
            )

    with EmbeddedWorkers(ctx, "test"):
        study_id = service.submit(ctx, StudySpec.model_validate({"dataset": "additions", "arms": arms}))
        wait_for(lambda: found()[0] is RunState.FINISHED)
    before = found()
    with ctx.database.read() as session:
        written = b"".join(archive.write_archive(ctx.database, get_study(session, study_id)))
    ctx.stopping.clear()  # as a process that goes on
    service.delete(ctx, study_id)
    ctx.stopping.set()
    with pytest.raises(UnavailableError, match="this process is stopping"):
        loading.load_study(ctx, written, "study.json.gz")
    ctx.stopping.clear()
    assert loading.load_study(ctx, written, "study.json.gz") == study_id
    assert found() == before
