"""A study comes back from its archive as it was, marked as measured elsewhere; no other file leaves a trace."""

from __future__ import annotations

import copy
import datetime as dt
import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import event, func, select

from app.background.models import BackgroundJob
from app.background.work import handle_message
from app.core.context import Context
from app.core.db.database import Database
from app.core.errors import BadInputError, ConflictError, NotFoundError
from app.core.events.bus import MemoryBus
from app.core.settings import Settings
from app.core.states import BackgroundJobState
from app.datasets.service import import_bytes
from app.runs import hidden_runs
from app.runs.models import Run, RunTask
from app.runs.repository import list_runs
from app.samples.models import Sample
from app.site.factory import create_app
from app.studies import loading, service
from app.studies.models import Study
from evaluation import jsonlines
from tests.app.studies.conftest import GRID

pytestmark = pytest.mark.slow


@pytest.fixture
def archive(bassline, print_once, tmp_path) -> bytes:
    """The archive of a study of two arms over two tasks."""
    words = ("study", "run", *GRID[:4], "--n", "1,2", "--budget", "5", "--limit", "2", "--name", "theirs")
    print_once("theirs", lambda: bassline(*words))
    file = tmp_path / "theirs.json.gz"
    assert bassline("study", "export", "theirs", "--format", "archive", "-o", file).exit_code == 0
    return file.read_bytes()


@pytest.fixture
def here(ctx, tmp_path, additions, migrated) -> Iterator[Context]:
    """Another installation, with the same dataset."""
    settings = Settings(_env_file=None, data_dir=tmp_path / "here")
    settings.data_dir.mkdir()
    shutil.copy(migrated, settings.data_dir / "bassline.db")
    database = Database(settings.effective_database_url)
    made = Context(settings, database, MemoryBus(), make_grader=ctx.make_grader)
    import_bytes(made, (tmp_path / "additions.jsonl").read_bytes(), "additions", "additions.jsonl")
    yield made
    database.dispose()


def count(ctx: Context, table: type) -> int:
    with ctx.database.read() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def document(ctx: Context, study_id: object) -> dict[str, Any]:
    return create_app(ctx).test_client().get(f"/api/v1/studies/{study_id}").json


def test_a_loaded_study_says_what_it_said_where_it_was_measured(archive, here, ctx):
    study_id = loading.load_study(here, archive, "theirs.json.gz")
    there, loaded = document(ctx, study_id), document(here, study_id)
    assert loaded["study"].pop("measured_elsewhere").startswith("fake")
    assert there["study"].pop("measured_elsewhere") is None
    for said in (there, loaded):
        for arm in said["arms"]:
            arm.pop("run_id")
    assert loaded == there
    runs = (Run.n, Run.figures, Run.error, Run.excluded, Run.command, Run.prompt_mode_used)
    samples = (Run.n, Sample.index, Sample.raw, Sample.program, Sample.verdict, Sample.trust, Sample.mean_logprob)
    for query in (select(*runs), select(*samples).join(Run, Run.id == Sample.run_id)):
        found = []
        for one in (ctx, here):
            with one.database.read() as session:
                found.append(sorted(map(repr, session.execute(query))))
        assert found[0] == found[1]


def test_an_archive_is_stored_in_short_transactions_and_shown_at_the_end(archive, here, monkeypatch):
    monkeypatch.setattr(hidden_runs, "BATCH", 2)
    inserted, shown = [], []

    def look(connection, cursor, statement, parameters, context, executemany):
        if statement.startswith("INSERT INTO samples"):
            inserted.append(len(parameters) if executemany else 1)
            with here.database.read() as session:
                shown.append((count(here, Study), len(list_runs(session))))

    event.listen(here.database.engine, "after_cursor_execute", look)
    loading.load_study(here, archive, "archive")
    event.remove(here.database.engine, "after_cursor_execute", look)
    assert sum(inserted) == count(here, Sample)
    assert max(inserted) == 2
    assert set(shown) == {(0, 0)}
    with here.database.read() as session:
        assert all((run.kind, run.error) == ("eval", None) for run in list_runs(session))


def test_an_archive_whose_process_died_is_loaded_by_a_worker_from_the_arm_where_it_was(archive, here, monkeypatch):
    store, stored = loading._store_hidden, []

    def store_until_killed(step, found, run_id, arm, dataset):
        if len(stored) == 1:
            raise SystemExit
        stored.append(arm.name)
        store(step, found, run_id, arm, dataset)

    with monkeypatch.context() as dying:
        dying.setattr(loading, "_store_hidden", store_until_killed)
        dying.setattr("app.background.work.cancel", lambda *_: None)  # a killed process cancels nothing
        with pytest.raises(SystemExit):
            loading.load_study(here, archive, "archive")
    with here.database.session() as session:
        (job,) = session.scalars(select(BackgroundJob))
        job.lease_until -= dt.timedelta(hours=1)
        assert list_runs(session) == []
    handle_message(here, job.id)
    with here.database.read() as session:
        assert [run.state for run in list_runs(session)] == ["finished", "finished"]
        assert session.get_one(BackgroundJob, job.id).state is BackgroundJobState.FINISHED


def test_loading_that_fails_leaves_nothing(archive, here, monkeypatch):
    monkeypatch.setattr(loading, "_store_study", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        loading.load_study(here, archive, "archive")
    assert {count(here, table) for table in (Study, Run, RunTask, Sample)} == {0}


def test_loading_again_changes_nothing_here_nor_where_it_was_measured(archive, here, ctx):
    ids = {loading.load_study(here, archive, "theirs"), loading.load_study(here, gzip.decompress(archive), "unpacked")}
    assert (len(ids), count(here, Study), count(here, Run)) == (1, 1, 2)
    assert loading.load_study(ctx, archive, "theirs") in ids
    with ctx.database.read() as session:
        assert session.scalars(select(Study)).one().measured_elsewhere is None


def test_a_loaded_study_is_neither_ranked_nor_resumed_and_its_pages_work(
    archive, here, bassline, monkeypatch, tmp_path
):
    file = tmp_path / "again.json.gz"
    study_id = loading.load_study(here, archive, "theirs")
    client = create_app(here).test_client()
    rows = client.get("/api/v1/leaderboard").json["rows"]
    assert [(row["rank"], row["label"]) for row in rows] == [(None, "measured elsewhere")] * 2
    with pytest.raises(ConflictError, match="measured elsewhere: start one of your own"):
        service.resume(here, study_id)
    run, other = (row["run"] for row in rows)
    refused = client.post(f"/api/v1/runs/{run}/resume")
    assert (refused.status_code, "was measured elsewhere" in refused.json["detail"]) == (409, True)
    for page in ("", "?view=scatter", f"runs/{run}", f"runs/{run}/tasks/add/0", "runs", f"overlay/{run},{other}"):
        assert client.get(f"/{page}").status_code == 200, page
    monkeypatch.setattr("app.cli.common.make_context", lambda: here)
    shown = bassline("study", "show", "theirs").stdout
    assert "Measured on another machine" in shown
    assert "(another machine)" in bassline("study", "list").stdout
    assert bassline("study", "export", "theirs", "--format", "archive", "-o", file).exit_code == 0
    assert (
        json.loads(gzip.decompress(file.read_bytes()))["measured_on"]
        == document(here, study_id)["study"]["measured_elsewhere"]
    )
    assert bassline("study", "delete", "theirs").exit_code == 0
    assert (count(here, Study), count(here, Run), count(here, Sample)) == (0, 0, 0)


def test_a_study_that_is_here_already_is_called_so(archive, here, bassline, tmp_path, monkeypatch):
    file = tmp_path / "theirs.json.gz"
    monkeypatch.setattr("app.cli.common.make_context", lambda: here)
    first, again = (bassline("study", "load", file).stdout for _ in range(2))
    assert first.startswith("loaded ")
    assert "is here already, unchanged: `bassline study show" in again
    assert "loaded" not in again


def test_the_reference_is_what_is_packaged(archive, here, tmp_path, monkeypatch):
    folder = tmp_path / "results"
    monkeypatch.setattr(loading, "REFERENCE_FOLDERS", (folder, tmp_path / "none"))
    assert not loading.has_unloaded_reference(here)
    with pytest.raises(NotFoundError, match="there is no reference study in this installation"):
        loading.load_reference_studies(here)
    folder.mkdir()
    (folder / "bass.json.gz").write_bytes(archive)
    assert loading.has_unloaded_reference(here)
    first = loading.load_reference_studies(here)
    assert not loading.has_unloaded_reference(here)
    assert loading.load_reference_studies(here) == first
    assert count(here, Study) == 1


def test_the_command_loads_a_file_or_the_reference(archive, here, bassline, monkeypatch, tmp_path):
    monkeypatch.setattr("app.cli.common.make_context", lambda: here)
    monkeypatch.setattr(loading, "REFERENCE_FOLDERS", ())
    missing = bassline("study", "load")
    assert (missing.exit_code, "no reference study in this installation" in missing.stderr) == (2, True)
    assert "cannot be read" in bassline("study", "load", tmp_path / "none.json.gz").stderr
    result = bassline("study", "load", tmp_path / "theirs.json.gz")
    assert (result.exit_code, "loaded " in result.stdout) == (0, True)


def changed(archive: bytes, path: tuple, value: object) -> bytes:
    whole = json.loads(gzip.decompress(archive))
    place = whole
    for part in path[:-1]:
        place = place[part]
    if value is DELETE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(whole).encode()


DELETE = object()
TASK = ("arms", 0, "tasks", 0)
SAMPLE = (*TASK, "samples", 0)


CALIBRATION = {"at": "2026-01-01T00:00:00Z", "worker": "w", "verify_s": 0, "read_bytes_per_s": 1, "flops_per_s": None}
WRONG = (
    (("arms", 0, "calibrations"), [CALIBRATION], "arms.0.calibrations.0.verify_s is 0: "),
    (("bassline_study",), 2, "bassline_study is 2: "),
    (("bassline_study",), DELETE, "bassline_study is missing"),
    (("colour",), "red", "colour is not a known field"),
    (("dataset",), "nothing", "there is no dataset 'nothing'"),
    (("dataset_sha256",), "0" * 64, "the study used additions 00000000, but this database has "),
    (("dataset_sha256",), "x", "dataset_sha256 is 'x': "),
    (("budget_s",), 1e9, "budget_s is 1000000000.0: "),
    (("name",), "a\0", "name is 'a\\x00': a text must not hold the character NUL"),
    (("arms",), [], "arms has 0 entries: give at least 2"),
    (("arms", 0, "name"), "smollm2-135m, sibling, n = 2", "the name of arm 'smollm2-135m, sibling, n = 2' is"),
    (("arms", 0, "state"), "running", "arms.0.state is 'running': use one of finished"),
    (("arms", 0, "configuration", "n"), 0, "arms.0.configuration.n is 0: "),
    (("arms", 0, "provenance"), {"a": [{"b\0": 1}]}, "holds the character NUL: remove it"),
    (("arms", 0, "provenance"), {"a": float("nan")}, "holds nan: give a number or null"),
    (("arms", 0, "finished_at"), "0001-01-01T00:00:00+12:00", "arms.0.finished_at is '0001-01-01T00:00:00+12:00': "),
    (("arms", 0, "provenance"), [], "arms.0.provenance is []: "),
    (("arms", 0, "dropped_by"), 7, "dropped_by is 7, and there are 2 arms"),
    (("arms", 0, "n_tasks"), 1, "n_tasks is 1, and 2 are finished"),
    (("arms", 0, "finished_at"), "yesterday", "arms.0.finished_at is 'yesterday': "),
    ((*TASK, "task_id"), "add/9", "task 'add/9': the dataset additions has no such task"),
    ((*TASK, "task_id"), "add/1", "task 'add/1' is there twice"),
    ((*TASK, "wall_s"), -1, "arms.0.tasks.0.wall_s is -1: "),
    ((*TASK, "samples"), [], "samples has 0 entries: give at least 1"),
    ((*SAMPLE, "index"), 1, "the samples are not those from 0 to 0"),
    ((*SAMPLE, "n_tokens"), 2**40, "n_tokens is 1099511627776: "),
    ((*SAMPLE, "verdict"), "fine", "verdict is 'fine': use one of passed"),
    ((*SAMPLE, "finish_reason"), "stopp", "did you mean stop?"),
    ((*SAMPLE, "mean_logprob"), float("nan"), "mean_logprob is nan: "),
    ((*SAMPLE, "finished_s"), float("inf"), "finished_s is inf: "),
    ((*SAMPLE, "raw"), 5, "raw is 5: "),
    ((*SAMPLE, "extraction"), "x" * 21, "extraction is 'xxx"),
)  # fmt: skip


def test_what_no_study_can_have_is_one_sentence_and_nothing_is_stored(archive, here):
    for path, value, sentence in WRONG:
        with pytest.raises(BadInputError) as refused:
            loading.load_study(here, changed(archive, path, value), "theirs.json.gz")
        assert str(refused.value).startswith("theirs.json.gz: ")
        assert sentence in str(refused.value)
        assert "\n" not in str(refused.value)
        assert (count(here, Study), count(here, Run)) == (0, 0)


def test_what_is_no_archive_is_refused(here, monkeypatch):
    deep = b'{"machine": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    for data in (b"", b"[]", b"{", b"\xff", b"\x1f\x8b\x08", deep, b'{"name": "\\ud800"}', gzip.compress(b"{}")):
        with pytest.raises(BadInputError) as refused:
            loading.load_study(here, data, "x.json.gz")
        assert "x.json.gz" in str(refused.value)
        assert len(str(refused.value)) < 300
    monkeypatch.setattr(jsonlines, "MAX_BYTES", 2**20)
    with pytest.raises(BadInputError, match="holds more than"):
        loading.load_study(here, gzip.compress(b" " * 2**21), "bomb")


def leaves(value: Any, path: tuple = ()) -> Iterator[tuple]:
    if path:
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from leaves(child, (*path, key))


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["\0", "add/1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def test_any_value_anywhere_is_loaded_or_refused_and_never_half_stored(archive, here):
    whole = json.loads(gzip.decompress(archive))

    @settings(suppress_health_check=list(HealthCheck))
    @given(path=st.sampled_from(list(leaves(whole))), value=JUNK)
    @example(path=("arms", 0, "tasks"), value=[])  # an arm that finished no task
    def load(path, value):
        file = copy.deepcopy(whole)
        place = file
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = value
        try:
            study_id = loading.load_study(here, json.dumps(file).encode(), "x")
        except BadInputError:
            assert (count(here, Study), count(here, Run)) == (0, 0)
        else:
            assert count(here, Run) == len(file["arms"])
            document(here, study_id)
            service.delete(here, study_id)

    load()


def test_the_wheel_has_the_place_of_the_reference():
    import tomllib

    root = Path(__file__).parents[3]
    targets = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    ((source, target),) = targets["force-include"].items()
    assert (root / source).is_dir()  # the build fails without it
    assert {root / source, root / target} == set(loading.REFERENCE_FOLDERS)


def test_notes_of_a_study_and_its_runs_go_into_the_archive_and_come_back(archive, bassline, here, tmp_path):
    bassline("study", "note", "theirs", "look here")
    arm = json.loads(bassline("study", "show", "theirs", "--json", "-").stdout)["arms"][0]["run_id"]
    bassline("runs", "note", arm, "best")
    file = tmp_path / "noted.json.gz"
    assert bassline("study", "export", "theirs", "--format", "archive", "-o", file).exit_code == 0
    found = document(here, loading.load_study(here, file.read_bytes(), file.name))
    study, of_arm = found["study"], create_app(here).test_client().get(f"/api/v1/runs/{found['arms'][0]['run_id']}")
    assert study["note"] == "look here"
    assert of_arm.json["run"]["note"] == "best"


def test_an_archive_with_a_note_that_nothing_here_could_have_is_refused(archive, here):
    changed = json.loads(gzip.decompress(archive)) | {"note": "x" * 10_001}
    with pytest.raises(BadInputError, match="note"):
        loading.load_study(here, json.dumps(changed).encode(), "theirs.json")
    assert count(here, Study) == 0
