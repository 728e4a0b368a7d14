"""Migrations: linear, up and down on both databases, models equal to the schema, every constraint named."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, delete, func, inspect, select, text, update
from sqlalchemy.exc import IntegrityError

from app import domains
from app.accounts.service import list_tokens
from app.completions import race
from app.completions import service as completions
from app.completions.schemas import CompletionSpec
from app.context import Context
from app.datasets import service as datasets
from app.datasets.models import Dataset as StoredDataset
from app.datasets.models import Task as StoredTask
from app.db import migrate
from app.db.database import Database
from app.db.types import utcnow
from app.errors import UnavailableError
from app.events.bus import MemoryBus
from app.jobs.work import grade, prepare
from app.jobs.work.decode import decode_task
from app.runs import deletion, figures, service, transitions
from app.runs.models import Run, RunTask
from app.runs.render import run_document
from app.runs.repository import get_run, tasks_with_samples
from app.runs.results import Figures
from app.runs.schemas import DecodingSpec, RunSpec
from app.samples.models import Sample
from app.settings import Settings
from app.states import DatasetKind, Failure, RunState, Scope, TaskState
from evaluation.datasets import Dataset, Task
from evaluation.metrics import Curve
from tests.fakes import RIGHT, FakeEngine, FakeGrader

pytestmark = pytest.mark.slow

COUNTED = (
    "in_guest_tasks", "in_guest_samples", "in_guest_passed", "pass_first_proxy", "pass_all_proxy", "tasks_decoded",
    "tasks_left",
)  # fmt: skip


def test_up_down_up_and_equal_to_the_models(database_url):
    database = Database(database_url)
    migrate.upgrade(database)
    assert migrate.current(database) == migrate.head()
    with database.engine.connect() as connection:
        opts = {"compare_type": True, "include_name": migrate.described_by_models}
        context = MigrationContext.configure(connection, opts=opts)
        assert compare_metadata(context, domains.metadata) == []
    migrate.downgrade(database, "base")
    assert set(inspect(database.engine).get_table_names()) <= {"alembic_version"}
    migrate.upgrade(database)
    database.dispose()


def test_whoever_could_do_everything_still_can_after_scopes_came(database_url):
    database = Database(database_url)
    migrate.upgrade(database, "0001")
    with database.engine.begin() as connection:
        connection.execute(
            text("INSERT INTO tokens (id, name, prefix, sha256, created_at) VALUES (:id, 'old', 'p', 'd', :now)"),
            {"id": "0190000000007000800000000000000a", "now": "2026-01-01 00:00:00+00:00"},
        )
    migrate.upgrade(database)
    with database.read() as session:
        assert [(t.name, t.scope) for t in list_tokens(session)] == [("old", Scope.ADMIN)]
    migrate.downgrade(database, "0001")
    with database.engine.connect() as connection:
        assert connection.execute(text("SELECT name FROM tokens")).scalars().all() == ["old"]
    database.dispose()


def test_two_processes_may_upgrade_at_once(database_url):
    faults: list[Exception] = []

    def upgrade():
        database = Database(database_url)
        try:
            migrate.upgrade(database)
        except Exception as error:
            faults.append(error)
        finally:
            database.dispose()

    threads = [threading.Thread(target=upgrade) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_stored_tasks_of_the_single_line_infilling_set_get_the_stop_that_they_had_at_each_request(database_url):
    database = Database(database_url)
    migrate.upgrade(database)
    ctx = Context(Settings(_env_file=None, database_url=database_url), database, MemoryBus())
    stops = {"SingleLineInfilling/HumanEval/0/L0": ("#",), "MultiLineInfilling/HumanEval/0/L0_L1": ("#",)}
    tasks = tuple(Task(task_id, "def f():\n", "f", "", "", "    return 1\n", stop) for task_id, stop in stops.items())
    dataset = datasets.store(ctx, Dataset("gaps", tasks, "e" * 64), DatasetKind.IMPORTED)

    def stored() -> list[list[str]]:
        with database.read() as session:
            # This column alone: an older schema lacks newer ones.
            query = select(StoredTask.stop).where(StoredTask.dataset_id == dataset.id).order_by(StoredTask.position)
            return list(session.scalars(query))

    migrate.downgrade(database, "0008")
    assert stored() == [["#"], ["#"]]
    migrate.upgrade(database)
    assert stored() == [["\n", "#"], ["#"]]
    migrate.downgrade(database, "0008")
    assert stored() == [["#"], ["#"]]
    database.dispose()


@pytest.mark.parametrize(
    ("field", "value", "lost"),
    [
        ("language", "javascript", "languages other than Python and cases"),
        ("project_tests", {"project": "a" * 64}, "the tests of a project"),
        ("module", {"file": "m.py"}, "the module around an answer"),
        ("program_prefix", "import math\n", "what stands before an infilled answer"),
    ],
)
def test_a_downgrade_that_would_change_how_tasks_are_judged_is_refused(database_url, field, value, lost):
    database = Database(database_url)
    migrate.upgrade(database)
    ctx = Context(Settings(_env_file=None, database_url=database_url), database, MemoryBus())
    task = Task("a/0", "def f():\n", "f", "", "", "    return 1\n")
    dataset = datasets.store(ctx, Dataset("special", (task,), "e" * 64), DatasetKind.IMPORTED)
    with database.session() as session:
        session.execute(update(StoredTask).values({field: value}))
    with pytest.raises(UnavailableError, match=f"no place for {lost}.*: special. Delete these datasets first"):
        migrate.downgrade(database, "0019")
    with database.read() as session:
        assert session.scalar(select(getattr(StoredTask, field))) == value
        session.get_one(StoredDataset, dataset.id)
    with database.session() as session:
        session.execute(delete(StoredDataset))
    migrate.downgrade(database, "0019")
    migrate.upgrade(database)
    database.dispose()


def test_the_database_of_a_newer_version_is_refused_with_a_sentence(migrated_url):
    database = Database(migrated_url)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    try:
        for bring_up in (migrate.ensure, migrate.upgrade):
            with pytest.raises(UnavailableError, match="a newer version of Bassline made this database"):
                bring_up(database)
    finally:
        with database.engine.begin() as connection:
            connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{migrate.head()}'")
        database.dispose()


def test_a_database_that_refuses_a_change_is_named_in_one_sentence(database_url):
    database = Database(database_url)
    migrate.upgrade(database, "0026")
    with database.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE tasks ADD COLUMN project_tests TEXT")
    with pytest.raises(UnavailableError, match=r"stays at schema 0026, because it refuses .*project_tests"):
        migrate.upgrade(database)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE tasks DROP COLUMN project_tests")
    migrate.upgrade(database)
    assert migrate.current(database) == migrate.head()
    database.dispose()


def test_revisions_are_numbered_and_linear():
    config = Config()
    config.set_main_option("script_location", str(migrate.MIGRATIONS))
    revisions = list(reversed(list(ScriptDirectory.from_config(config).walk_revisions())))
    assert [r.revision for r in revisions] == [f"{i:04d}" for i in range(1, len(revisions) + 1)]


def test_every_constraint_has_a_name():
    for table in domains.metadata.tables.values():
        for constraint in table.constraints:
            assert constraint.name, f"{table.name}: {constraint}"


@pytest.fixture
def migrated(database_url) -> Iterator[Context]:
    """A context over a database at the newest schema, with a dataset `additions` of three tasks."""
    database = Database(database_url)
    migrate.upgrade(database)
    engine = FakeEngine()
    ctx = Context(
        Settings(_env_file=None, database_url=database_url),
        database,
        MemoryBus(),
        load_engine=lambda config, on_progress: engine,
        make_grader=FakeGrader,
    )
    tasks = tuple(Task(f"add/{i}", "def add(a, b):\n", "add", "def check(candidate): ...", RIGHT) for i in range(3))
    datasets.store(ctx, Dataset("additions", tasks, "f" * 64), DatasetKind.IMPORTED)
    yield ctx
    database.dispose()


STOPPED = "worker_lost: the worker stopped answering"
FAILED_BEFORE = [
    (f"{STOPPED} three times", [], Failure.WORKER_LOST, None),
    ("no sandbox on this machine, so no sample can be graded: no bwrap", [], Failure.DATASET, None),
    ("smollm2-135m cannot be loaded: OSError: No such file", [], Failure.MODEL, None),
    ("decoding failed: RuntimeError: x", ["decoding failed: RuntimeError: x"], Failure.DECODING, Failure.DECODING),
    ("grading failed: OSError: x", ["grading failed: OSError: x"], Failure.GRADING, Failure.GRADING),
    ("prompt is 9 tokens long", ["prompt is 9 tokens long"] * 2, Failure.REQUEST, Failure.REQUEST),
    (None, [STOPPED], None, Failure.WORKER_LOST),
]
"""A run's error, its first tasks' errors, and the failures that the migration reads from the two."""


def test_failures_from_before_are_known_by_the_beginning_of_their_text(migrated):
    ctx, sent = migrated, utcnow()
    run_ids = [service.submit(ctx, RunSpec(target="smollm2-135m", dataset="additions", n=2)) for _ in FAILED_BEFORE]
    with ctx.database.session() as session:
        for run_id, (of_run, of_tasks, *_) in zip(run_ids, FAILED_BEFORE, strict=True):
            run = get_run(session, run_id)
            run.state, run.error = (RunState.FAILED if of_run else RunState.RUNNING), of_run
            run.enqueued_at = sent
            for task, error in zip(run.tasks, of_tasks, strict=False):
                task.state, task.error = TaskState.FAILED, error
    migrate.downgrade(ctx.database, "0007")
    migrate.upgrade(ctx.database)
    with ctx.database.read() as session:
        for run_id, (of_run, _, failure, of_first_task) in zip(run_ids, FAILED_BEFORE, strict=True):
            run = get_run(session, run_id)
            assert (run.failure, run.error, run.enqueued_at) == (failure, of_run, sent)
            first, *_, last = run.tasks
            assert (first.failure, last.failure) == (of_first_task, None)
    with ctx.database.session() as session, pytest.raises(IntegrityError):
        session.execute(text("UPDATE runs SET failure = 'bad luck'"))


def test_runs_from_before_get_their_in_guest_verdicts_and_tasks_left_counted(migrated):
    """What the migration counts in SQL is what figures.record counts."""
    ctx, database = migrated, migrated.database
    run_ids = []
    for _ in range(2):
        run_id = service.submit(ctx, RunSpec(target="smollm2-135m", dataset="additions", n=2))
        prepare.prepare_run(ctx, run_id)
        with database.read() as session:
            jobs = session.scalars(select(RunTask.id).where(RunTask.run_id == run_id).order_by(RunTask.position)).all()
        for job in jobs[:2]:
            decode_task(ctx, job)
            grade.grade_task(ctx, job)
        with database.session() as session:
            trusts = "proxy" if run_ids else "in-guest"
            session.execute(update(Sample).where(Sample.run_id == run_id).values(trust=trusts))
        transitions.interrupt(ctx, run_id)
        run_ids.append(run_id)
    counted = []
    for run_id in run_ids:
        with database.session() as session:
            run = get_run(session, run_id)
            counted.append(run.figures.model_dump(include=set(COUNTED)))
            run.figures = Figures(**run.figures.model_dump(exclude=set(COUNTED)))
    assert counted[0]["in_guest_samples"] == 4
    migrate.downgrade(database, "0004")
    migrate.upgrade(database)
    with database.read() as session:
        found = [get_run(session, run_id).figures for run_id in run_ids]
    unknown = {"pass_first_proxy": None, "pass_all_proxy": None}
    assert found[0].model_dump(include=set(COUNTED)) == counted[0] | unknown
    assert found[1].model_dump(include=set(COUNTED)) == counted[1]
    database.dispose()


def test_runs_from_before_get_the_name_of_the_tasks_that_they_have_graded(migrated):
    """What the migration names is what figures.record names."""
    ctx, database = migrated, migrated.database
    run_ids = []
    for graded in (2, 0):
        run_id = service.submit(ctx, RunSpec(target="smollm2-135m", dataset="additions", n=2))
        prepare.prepare_run(ctx, run_id)
        with database.read() as session:
            jobs = session.scalars(select(RunTask.id).where(RunTask.run_id == run_id).order_by(RunTask.position)).all()
        for job in jobs:
            decode_task(ctx, job)
        for job in jobs[:graded]:
            grade.grade_task(ctx, job)
        transitions.interrupt(ctx, run_id)
        run_ids.append(run_id)
    with database.read() as session:
        recorded = [get_run(session, run_id).curve.tasks for run_id in run_ids]
    assert recorded[0] == figures.name_of_tasks(["add/1", "add/0"]) != recorded[1]
    migrate.downgrade(database, "0010")
    migrate.upgrade(database)
    with database.read() as session:
        assert get_run(session, run_ids[0]).curve.tasks == recorded[0]


def test_curves_from_before_are_read_off_the_samples_again(migrated):
    """What the migration computes is what figures.record computes; a run whose samples are gone keeps its curve."""
    ctx, database = migrated, migrated.database
    run_ids = []
    for graded in (3, 2):
        run_id = service.submit(ctx, RunSpec(target="smollm2-135m", dataset="additions", n=4, budget_s=5.0))
        prepare.prepare_run(ctx, run_id)
        with database.read() as session:
            jobs = session.scalars(select(RunTask.id).where(RunTask.run_id == run_id).order_by(RunTask.position)).all()
        for place, job in enumerate(jobs[:graded]):
            decode_task(ctx, job)
            grade.grade_task(ctx, job)
            _spread(database, job, place)
        transitions.interrupt(ctx, run_id)
        run_ids.append(run_id)
    with database.session() as session:
        recorded = []
        for run_id in run_ids:
            run = get_run(session, run_id)
            figures.record(session, run)
            recorded.append(figures.stored_curve(run.curve))
            run.curve.budgets, run.curve.pass_first, run.curve.pass_all = [1.0, 5.0], [0.0, 0.5], [0.0, 0.5]
    assert len(recorded[0].budgets) > 4
    migrate.downgrade(database, "0022")
    with database.session() as session:
        session.execute(delete(Sample).where(Sample.run_id == run_ids[1]))
    migrate.upgrade(database)
    with database.read() as session:
        first, second = (figures.stored_curve(get_run(session, run_id).curve) for run_id in run_ids)
    assert first == recorded[0]
    assert second == Curve((1.0, 5.0), (0.0, 0.5), (0.0, 0.5))


def _spread(database: Database, job: uuid.UUID, place: int) -> None:
    """Gives the four samples of a task different ends, verdicts and log-probabilities, with ties."""
    passed_s, chosen_s = 1.5 + place / 4, 1.5 + place  # at the same time in the first task
    ends = [(passed_s, "stop", "passed", -0.5), (1.0 + place, "length", "failed", None)]
    ends += [(chosen_s, "stop", "failed", -0.1), (3.25, "deadline", "passed", 0.0)]
    with database.session() as session:
        for index, (finished_s, reason, verdict, logprob) in enumerate(ends):
            values = {"finished_s": finished_s, "finish_reason": reason, "verdict": verdict, "mean_logprob": logprob}
            session.execute(
                update(Sample).where(Sample.run_task_id == job, Sample.index == (index + place) % 4).values(values)
            )


def test_completions_from_before_keep_their_prompts_options_and_samples(migrated):
    """Down to where each prompt was a dataset and up again, twice; what runs meanwhile is finished at the end."""
    ctx, database = migrated, migrated.database
    evaluation = service.submit(ctx, RunSpec(target="smollm2-135m", dataset="additions", n=2))
    first, second = race.submit(ctx, prompt(drafter="sibling"))
    several, asked = [], []
    for run_id in (evaluation, first):
        work(ctx, run_id)
    for _ in range(2):  # the first of each is decoded, together with what waits then
        several.append(several_prompts(ctx))
        asked.append(completions.submit(ctx, prompt(test="", n_min=1)))
        if len(asked) == 1:
            work(ctx, asked[0])
    assert state_of(ctx, first) is RunState.FINISHED
    before = everything_of_runs(database)
    assert before[second][1]["after_id"] == first
    assert before[second][1]["prompts_sha256"] == before[first][1]["prompts_sha256"]

    migrate.downgrade(database, "0023")
    with database.engine.connect() as connection:
        count = partial(count_rows, connection)
        assert count("datasets WHERE kind = 'prompt'") == 3
        assert count("runs JOIN datasets ON datasets.id = dataset_id WHERE datasets.kind = 'prompt'") == 6
        of_another = "run_tasks JOIN tasks ON tasks.id = task_pk JOIN runs ON runs.id = run_id"
        assert count(f"{of_another} WHERE tasks.dataset_id <> runs.dataset_id") == 0
        assert count("datasets JOIN tasks ON dataset_id = datasets.id WHERE kind = 'prompt'") == 4
        assert count("runs WHERE n_min = 1") == 2
        assert count("runs WHERE top_logprobs = 2 AND prompt_logprobs = 0") == 2
        assert count(f"runs WHERE after_id = '{first.hex if database.is_sqlite else first}'") == 1
        assert_references(connection)
    migrate.upgrade(database)
    assert everything_of_runs(database) == before
    migrate.downgrade(database, "0023")
    migrate.upgrade(database)
    assert everything_of_runs(database) == before
    with database.engine.connect() as connection:
        assert_references(connection)

    for run_id in (second, several[1], asked[1]):
        work(ctx, run_id)
        assert state_of(ctx, run_id) is RunState.FINISHED
    deletion.delete(ctx, first)
    deletion.delete(ctx, several[0])
    left = everything_of_runs(database)
    assert left.keys() == before.keys() - {first, several[0]}
    assert [prompts for _, _, prompts, _ in left.values()] == [before[run_id][2] for run_id in left]
    with database.read() as session:
        assert session.scalar(select(func.count()).where(StoredTask.completion_id.is_not(None))) == 5
    for faulty in (
        "UPDATE datasets SET kind = 'prompt'",
        "UPDATE tasks SET dataset_id = NULL WHERE completion_id IS NULL",
        "UPDATE runs SET state = 'away'",
    ):
        with database.session() as session, pytest.raises(IntegrityError):
            session.execute(text(faulty))


def prompt(**changes: Any) -> CompletionSpec:
    test = "assert add(1, 2) == 3\n"
    return CompletionSpec(**{"target": "smollm2-135m", "prompt": "def add(a, b):\n", "test": test, "n": 2} | changes)


def several_prompts(ctx: Context) -> uuid.UUID:
    tasks = tuple(Task(f"prompt/{i}", f"def f{i}():\n", "", "", "", stop=("#",)) for i in range(2))
    spec = DecodingSpec(target="smollm2-135m", n=2)
    return completions.submit_prompts(ctx, spec, tasks, prompt_logprobs=0, top_logprobs=2)


def work(ctx: Context, run_id: uuid.UUID) -> None:
    prepare.prepare_run(ctx, run_id)
    with ctx.database.read() as session:
        jobs = session.scalars(select(RunTask.id).where(RunTask.run_id == run_id).order_by(RunTask.position)).all()
    for job in jobs:
        decode_task(ctx, job)
        grade.grade_task(ctx, job)


def state_of(ctx: Context, run_id: uuid.UUID) -> RunState:
    with ctx.database.read() as session:
        return get_run(session, run_id).state


def everything_of_runs(database: Database) -> dict[uuid.UUID, tuple[Any, ...]]:
    """(document, columns of its own, tasks, jobs with samples) of each run."""
    with database.read() as session:
        found = {}
        for run in session.scalars(select(Run)):
            jobs = tasks_with_samples(session, run.id)
            own = ("prompts_sha256", "n_min", "prompt_logprobs", "top_logprobs", "after_id")
            found[run.id] = (
                run_document(run),
                {name: getattr(run, name) for name in own if run.is_completion},
                [datasets.as_plain(job.task) for job in jobs],
                [(job.id, job.state, job.queued_at, [(s.id, s.raw, s.verdict) for s in job.samples]) for job in jobs],
            )
        return found


def count_rows(connection: Connection, rows: str) -> int:
    return connection.execute(text(f"SELECT count(*) FROM {rows}")).scalar_one()


def assert_references(connection: Connection) -> None:
    """SQLite checks foreign keys only as rows change, and not at all during a migration."""
    if connection.dialect.name == "sqlite":
        assert connection.execute(text("PRAGMA foreign_key_check")).all() == []
        assert connection.execute(text("PRAGMA foreign_keys")).scalar_one() == 1
