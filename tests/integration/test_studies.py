"""The arms of a study take turns, one job at a time, and nothing that happens to a worker loses or doubles a sample."""

from __future__ import annotations

import threading
import uuid
from collections import Counter

import pytest
from sqlalchemy import func, select, update

from app.core.broker.queues import DECODE_TASK
from app.core.db.types import get_utc_time
from app.core.errors import BadInputError, ConflictError
from app.core.provenance import describe_machine
from app.core.states import DatasetKind, RunState, TaskState
from app.datasets import service as datasets
from app.jobs import reaper
from app.jobs.embedded import EmbeddedWorkers
from app.jobs.work import grade, prepare
from app.jobs.work.decode import decode_task
from app.runs import service as runs
from app.runs.models import Run, RunTask
from app.runs.schemas import RunSpec
from app.samples.models import Sample
from app.studies import policy, schedule, service
from app.studies.models import Study, StudyArm
from app.studies.repository import find_study, get_study
from app.studies.schemas import StudySpec
from decoding.models.errors import ModelError
from decoding.request import RequestError
from evaluation.datasets import Dataset, Task
from evaluation.studies.order import order_arms
from tests.fakes import RIGHT, WRONG, FakeEngine, RecordingBroker
from tests.integration.conftest import sqlite_when_thorough
from tests.integration.waiting import wait_for
from tests.thorough import thorough

pytestmark = sqlite_when_thorough

N_TASKS = 6
MANY = 16  # enough for an arm that is always wrong to be dropped
ARMS = ({"drafter": "none"}, {"drafter": "ngram"}, {"drafter": "sibling"})


@pytest.fixture(autouse=True)
def broker(ctx) -> RecordingBroker:
    ctx.broker = RecordingBroker()
    return ctx.broker


@pytest.fixture(autouse=True)
def dataset(ctx) -> str:
    tasks = tuple(
        Task(f"add/{i}", f"def add{i}(a, b):\n", f"add{i}", "def check(candidate): ...", RIGHT) for i in range(N_TASKS)
    )
    datasets.store_dataset(ctx, Dataset("additions", tasks, "f" * 64), DatasetKind.IMPORTED)
    return "additions"


class Engines:
    """One fake engine for each drafter, which notes whose turn it was."""

    def __init__(self, ctx, refuses: tuple[str, ...] = (), **broken: Exception) -> None:
        self.refuses = refuses
        self.served: list[tuple[str, str]] = []
        self.loaded: list[str] = []
        self.broken = broken
        ctx.load_engine = self.load

    def load(self, config, on_progress):
        if config.drafter in self.broken:
            raise self.broken[config.drafter]
        self.loaded.append(config.drafter)
        return NotingEngine(config.drafter, self.served, self.refuses if config.drafter == "none" else ())


class NotingEngine(FakeEngine):
    def __init__(self, drafter: str, served: list[tuple[str, str]], refuses: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.drafter, self.served, self.refuses = drafter, served, refuses

    def generate(self, request, on_update=None, should_cancel=None):
        self.served.append((self.drafter, request.prompt))
        if any(f"def {name}(" in request.prompt for name in self.refuses):
            raise RequestError("this prompt cannot be honoured")
        return super().generate(request, on_update, should_cancel)


class WrongEngine(NotingEngine):
    def generate(self, request, on_update=None, should_cancel=None):
        done = super().generate(request, on_update, should_cancel)
        for sample in done.samples:
            sample.text = WRONG
        return done


def spec(*arms: dict, **changes) -> StudySpec:
    chosen = [{"target": "smollm2-135m", "n": 2, **arm} for arm in arms or ARMS]
    return StudySpec(**{"dataset": "additions", "arms": tuple(chosen), **changes})


def submitted(ctx, *arms: dict, **changes) -> uuid.UUID:
    study_id = service.submit(ctx, spec(*arms, **changes))
    for run in study(ctx, study_id).runs:
        prepare.prepare_run(ctx, run.id)
    return study_id


def study(ctx, study_id: uuid.UUID) -> Study:
    with ctx.database.read() as session:
        return get_study(session, study_id)


def states(ctx, study_id: uuid.UUID) -> list[RunState]:
    return [run.state for run in study(ctx, study_id).runs]


def work(ctx, broker, steps: int = 10_000) -> int:
    """Works messages as they come until there are none, or so many. Returns how many it worked."""
    for done in range(steps):
        message = broker.get(("gpu.interactive", "gpu.batch", "exec.interactive", "exec"), 0.0)
        if message is None:
            return done
        task, row_id = message
        {"decode": decode_task, "grade": grade.grade_task}.get(task.rsplit(".", 1)[-1], prepare.prepare_run)(
            ctx, row_id
        )
    return steps


def each_sample_is_there_once(ctx, n_arms: int = len(ARMS)) -> bool:
    with ctx.database.read() as session:
        counts = session.execute(select(Sample.run_task_id, func.count()).group_by(Sample.run_task_id)).all()
    return len(counts) == n_arms * N_TASKS and {count for _, count in counts} == {2}


def test_arms_take_turns_task_by_task_in_the_balanced_order(ctx, broker):
    engines = Engines(ctx)
    study_id = submitted(ctx, seed=7)
    work(ctx, broker)
    drafters = [arm["drafter"] for arm in ARMS]
    expected = [drafters[arm] for task in range(N_TASKS) for arm in order_arms(len(ARMS), task, 7)]
    assert [drafter for drafter, _ in engines.served] == expected
    prompts = [prompt for _, prompt in engines.served]
    assert [len(set(prompts[i : i + 3])) for i in range(0, len(prompts), 3)] == [1] * N_TASKS
    assert states(ctx, study_id) == [RunState.FINISHED] * len(ARMS)
    assert each_sample_is_there_once(ctx)


def test_no_task_is_decoded_while_one_of_the_study_waits_to_be_graded(ctx, broker):
    engines = Engines(ctx)
    study_id = submitted(ctx)
    with ctx.database.read() as session:
        jobs = session.scalars(select(RunTask.id)).all()
    for job in jobs:
        decode_task(ctx, job)
    assert len(engines.served) == 1
    with ctx.database.read() as session:
        assert schedule.find_next_job(session, study_id) is None


def test_where_engines_do_not_fit_together_an_arm_keeps_its_own_for_a_block_of_tasks(ctx, broker, monkeypatch):
    monkeypatch.setattr(ctx.engines, "fits", lambda configs: False)
    monkeypatch.setattr(policy, "BLOCK_TASKS", 2)
    engines = Engines(ctx)
    study_id = submitted(ctx, seed=3)
    work(ctx, broker)
    served = [drafter for drafter, _ in engines.served]
    assert served[::2] == served[1::2]
    assert study(ctx, study_id).state is RunState.FINISHED


def test_a_study_and_a_run_take_turns(ctx, broker):
    engines = Engines(ctx)
    submitted(ctx, {"drafter": "none"}, {"drafter": "none", "n": 1})
    run_id = runs.submit(ctx, RunSpec(target="smollm2-135m", dataset="additions", drafter="none", n=3))
    prepare.prepare_run(ctx, run_id)
    work(ctx, broker)
    with ctx.database.read() as session:
        assert session.get_one(Run, run_id).state is RunState.FINISHED
    sizes = [prompt for _, prompt in engines.served]
    assert len(sizes) == 3 * N_TASKS


def test_an_engine_that_cannot_be_loaded_stops_the_study_before_anything_is_decoded(ctx, broker):
    engines = Engines(ctx, sibling=ModelError("the file is cut off"))
    study_id = submitted(ctx)
    work(ctx, broker)
    assert engines.served == []
    assert states(ctx, study_id) == [RunState.FAILED] * len(ARMS)
    assert study(ctx, study_id).runs[0].error == (
        "arm 3 (smollm2-135m, sibling, n = 2): the file is cut off; no arm was started"
    )


def test_an_arm_that_fails_in_the_middle_ends_alone(ctx, broker):
    engines = Engines(ctx)
    study_id = submitted(ctx)
    work(ctx, broker, steps=9)
    engines.broken["ngram"] = ModelError("the file has gone")
    ctx.engines.drop()
    work(ctx, broker)
    assert states(ctx, study_id) == [RunState.FINISHED, RunState.FAILED, RunState.FINISHED]
    done = Counter(drafter for drafter, _ in engines.served)
    assert done["none"] == done["sibling"] == N_TASKS > done["ngram"] > 0
    assert study(ctx, study_id).runs[1].error == "the file has gone"


@pytest.mark.parametrize("killed_after", [thorough(0), thorough(1), thorough(2), 5, thorough(8)])
def test_a_worker_killed_at_any_message_costs_and_doubles_nothing(ctx, broker, killed_after, monkeypatch):
    Engines(ctx)
    study_id = submitted(ctx)
    work(ctx, broker, steps=killed_after)
    broker.drain()  # its messages die with it
    with ctx.database.session() as session:  # and what it had claimed
        first = select(RunTask.id).where(RunTask.state == TaskState.QUEUED).order_by(RunTask.position).limit(1)
        job_id = session.scalar(first)
        gone = {"state": TaskState.DECODING, "attempt": 1, "fence": uuid.uuid4(), "lease_until": None}
        session.execute(update(RunTask).where(RunTask.id == job_id).values(gone))
        session.execute(update(RunTask).where(RunTask.id == job_id).values(lease_until=RunTask.queued_at))
        session.execute(update(RunTask).values(enqueued_at=None))
    reaper.reap(ctx)
    work(ctx, broker)
    assert states(ctx, study_id) == [RunState.FINISHED] * len(ARMS)
    assert each_sample_is_there_once(ctx)


def test_the_reaper_sends_one_message_for_a_silent_study_and_none_for_its_other_jobs(ctx, broker):
    Engines(ctx)
    submitted(ctx)
    broker.drain()
    broker.sent.clear()
    with ctx.database.session() as session:
        session.execute(update(RunTask).values(enqueued_at=None))
    reaper.reap(ctx)
    reaper.reap(ctx)
    assert [task for task, _ in broker.sent] == [DECODE_TASK]


def test_cancelled_studies_resume_with_what_is_left(ctx, broker):
    engines = Engines(ctx)
    study_id = submitted(ctx)
    work(ctx, broker, steps=8)
    service.cancel(ctx, study_id)
    work(ctx, broker)  # what was decoded is graded
    assert study(ctx, study_id).state is RunState.CANCELLED
    with pytest.raises(ConflictError, match="only a queued or running one"):
        service.cancel(ctx, study_id)
    service.resume(ctx, study_id)
    with pytest.raises(ConflictError, match="only one that has ended"):
        service.resume(ctx, study_id)
    work(ctx, broker)
    assert states(ctx, study_id) == [RunState.FINISHED] * len(ARMS)
    assert each_sample_is_there_once(ctx)
    assert len(engines.served) == len(ARMS) * N_TASKS
    with pytest.raises(ConflictError, match="nothing is left to resume"):
        service.resume(ctx, study_id)


def test_another_machine_does_not_go_on_with_a_study(ctx, broker):
    engines = Engines(ctx)
    study_id = submitted(ctx)
    work(ctx, broker, steps=4)
    assert study(ctx, study_id).machine == describe_machine()
    service.cancel(ctx, study_id)
    work(ctx, broker)
    with ctx.database.session() as session:
        session.execute(update(Study).values(machine={"cpu": "Pentium", "cpu_count": 1}))
    with pytest.raises(ConflictError, match=r"started on another machine \(Pentium, 1 CPUs\)"):
        service.resume(ctx, study_id, ctx.worker_name)
    served = len(engines.served)
    if not ctx.database.is_sqlite:  # elsewhere a worker of that machine may still come
        service.resume(ctx, study_id)
        work(ctx, broker)
        assert states(ctx, study_id) == [RunState.RUNNING] * len(ARMS)
    assert len(engines.served) == served


@pytest.mark.parametrize("failing", [thorough(()), ("add3",)])
def test_a_race_drops_an_arm_that_is_worse_although_another_lost_a_task(ctx, broker, failing):
    many = tuple(
        Task(f"add/{i}", f"def add{i}(a, b):\n", f"add{i}", "def check(candidate): ...", RIGHT) for i in range(MANY)
    )
    datasets.store_dataset(ctx, Dataset("many", many, "e" * 64), DatasetKind.IMPORTED)
    engines = Engines(ctx, refuses=failing)
    bad = WrongEngine("ngram", engines.served)
    ctx.load_engine = lambda config, on_progress: bad if config.drafter == "ngram" else engines.load(config, None)
    arms = tuple({"target": "smollm2-135m", "n": 2, **arm} for arm in ARMS)
    study_id = service.submit(ctx, StudySpec(dataset="many", race=True, budget_s=5, arms=arms))
    for run in study(ctx, study_id).runs:
        prepare.prepare_run(ctx, run.id)
    work(ctx, broker)
    found = study(ctx, study_id)
    assert found.state is RunState.FINISHED
    assert [arm.dropped_at is not None for arm in found.arms] == [False, True, False]
    assert found.arms[1].dropped_by in (0, 2)
    done = Counter(drafter for drafter, _ in engines.served)
    assert done["none"] == done["sibling"] == MANY
    assert done["ngram"] == found.arms[1].dropped_after + len(failing) < MANY
    if not failing:
        with pytest.raises(ConflictError, match="nothing is left to resume"):
            service.resume(ctx, study_id)


def test_a_drop_that_a_killed_process_left_half_done_is_done_by_the_next_job(ctx, broker):
    engines = Engines(ctx)
    study_id = submitted(ctx, race=True)
    with ctx.database.session() as session:
        dropped = session.scalars(select(StudyArm).where(StudyArm.study_id == study_id, StudyArm.position == 1)).one()
        dropped.dropped_at, dropped.dropped_by, dropped.dropped_after = get_utc_time(), 0, 0
    work(ctx, broker)
    assert Counter(drafter for drafter, _ in engines.served)["ngram"] <= 1
    assert states(ctx, study_id) == [RunState.FINISHED] * len(ARMS)


def test_the_embedded_form_works_a_pinned_study_to_its_end(ctx):
    if not ctx.database.is_sqlite:
        pytest.skip("the embedded form is SQLite's")
    Engines(ctx)
    with EmbeddedWorkers(ctx, "study", pinned_only=True):
        study_id = service.submit(ctx, spec(), pinned_worker=ctx.worker_name)
        wait_for(lambda: study(ctx, study_id).state is RunState.FINISHED)
    assert each_sample_is_there_once(ctx)


@pytest.mark.parametrize(
    ("arms", "changes", "sentence", "field"),
    [
        (({}, {"target": "no-such-model"}), {}, "arm 2 .*: model 'no-such-model' is not known", "arms.1.target"),
        (({}, {}), {}, "arm 2 .*: its configuration is the same as in arm 1", "arms.1"),
        (({"name": "x"}, {"name": "x", "n": 3}), {}, r"arm 2 \(x\): its name is the same as in arm 1", "arms.1"),
        (({}, {"n": 3}), {"dataset": "nothing"}, "there is no dataset", None),
        (({}, {"n": 3}), {"task_ids": ("add/99",)}, "add/99", "task_ids"),
    ],
)
def test_arms_that_cannot_be_compared_are_refused_before_anything_is_stored(ctx, arms, changes, sentence, field):
    with pytest.raises(BadInputError, match=sentence) as refused:
        service.submit(ctx, spec(*arms, **changes))
    if field is not None:
        assert refused.value.field == field
    with ctx.database.read() as session:
        assert session.scalar(select(func.count()).select_from(Run)) == 0


def test_a_study_goes_with_its_runs_and_an_arm_does_not_go_alone(ctx, broker):
    Engines(ctx)
    study_id = submitted(ctx)
    with pytest.raises(ConflictError, match="cancel it before"):
        service.delete(ctx, study_id)
    work(ctx, broker)
    arm = study(ctx, study_id).runs[0]
    with pytest.raises(ConflictError, match="an arm of a study"):
        runs.delete(ctx, arm.id)
    with ctx.database.read() as session:
        assert find_study(session, str(study_id)[:13]).id == study_id
    service.delete(ctx, study_id)
    with ctx.database.read() as session:
        assert [session.scalar(select(func.count()).select_from(t)) for t in (Study, StudyArm, Run, Sample)] == [0] * 4


def test_of_many_resumes_of_a_study_exactly_one_is_accepted(ctx):
    study_id = service.submit(ctx, spec())
    for _ in range(5):
        service.cancel(ctx, study_id)
        barrier, outcomes = threading.Barrier(6), []

        def resume(barrier=barrier, outcomes=outcomes) -> None:
            barrier.wait(30)
            try:
                service.resume(ctx, study_id)
                outcomes.append("accepted")
            except ConflictError:
                outcomes.append("refused")

        threads = [threading.Thread(target=resume) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(outcomes) == ["accepted"] + ["refused"] * 5
