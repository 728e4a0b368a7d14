"""The whole stack, and whatever is killed, stopped, full or away for a while: no sample is lost, none comes twice, and
every run ends in a true state. Every message is sent twice throughout (program.py).

One file, because the tests share one stack and the suite is spread over processes by file.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select, text

from app.completions import service as completions
from app.completions.schemas import CompletionSpec
from app.core.broker import queues
from app.core.states import OPEN_RUN_STATES, RunState, TaskState
from app.datasets import service as datasets
from app.jobs import reaper
from app.jobs.reaper import DECODING_LOST, LOADING_LOST
from app.runs import service
from app.runs.models import Run
from app.runs.repository import get_run, load_tasks_with_samples
from app.runs.schemas import RunSpec
from app.studies import service as studies
from app.studies.repository import get_study
from app.studies.schemas import StudySpec
from app.workers.service import list_workers
from tests.integration.chaos.script import DEADLY_MODEL
from tests.integration.chaos.stack import N, Stack
from tests.integration.waiting import wait_for

OUTAGE_S = 5.0
LONG = "takes 1.5"
SHORT = "takes 0.2"
pytestmark = pytest.mark.slow

MODEL = "smollm2-135m"
FULL = """
CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER no_room BEFORE INSERT ON samples FOR EACH ROW EXECUTE FUNCTION no_room();
"""


@pytest.mark.thorough
def test_a_killed_child_costs_an_attempt_and_nothing_else(stack: Stack):
    run_id = stack.submit(LONG, *[SHORT] * 6)
    wait_for(lambda: stack.working(run_id))
    os.kill(stack.child(stack.working(run_id)), signal.SIGKILL)
    stack.wait_for_end(run_id)
    stack.assert_whole(run_id)


def test_a_killed_worker_is_replaced_by_the_others_and_its_child_does_not_stay_behind(stack: Stack):
    run_id = stack.submit(LONG, *[SHORT] * 6)
    wait_for(lambda: stack.working(run_id))
    name = stack.working(run_id)
    child = stack.child(name)
    os.kill(stack.parts[name].pid, signal.SIGKILL)
    stack.wait_for_end(run_id)
    stack.assert_whole(run_id)
    stack.parts[name].wait(20)
    wait_for(lambda: not is_alive(child))


@pytest.mark.thorough
def test_a_stalled_worker_that_wakes_up_finds_its_job_gone_and_writes_nothing(stack: Stack):
    run_id = stack.submit("takes 4")
    wait_for(lambda: stack.generated(run_id))  # a worker stopped before it generates has nothing to put down
    name = stack.working(run_id)
    stack.signal(name, signal.SIGSTOP)
    stack.wait_for_end(run_id)
    stack.assert_whole(run_id)
    before = stored(stack, run_id)
    n_put_down = len(stack.events("put down"))
    stack.signal(name, signal.SIGCONT)
    wait_for(lambda: len(stack.events("put down")) > n_put_down)
    follow_up = stack.submit(*[SHORT] * 4)
    stack.wait_for_end(follow_up)
    stack.assert_whole(follow_up)
    assert stored(stack, run_id) == before


@pytest.mark.thorough
def test_a_redis_that_dies_and_forgets_everything_costs_no_decoding(stack: Stack):
    run_id = stack.submit(*["takes 0.5"] * 12)
    wait_for(lambda: stack.decoded(run_id) >= 2)
    stack.redis.kill()
    during = stack.submit(*[SHORT] * 3)  # accepted: the row is the job
    time.sleep(OUTAGE_S)
    stack.redis.start()
    stack.wait_for_end(run_id, during)
    stack.assert_whole(run_id)
    stack.assert_whole(during)
    assert set(stack.generated(run_id).values()) == {1}


@pytest.mark.thorough
def test_a_database_that_dies_for_longer_than_a_lease_loses_no_sample(stack: Stack):
    run_id = stack.submit(*["takes 0.5"] * 12)
    wait_for(lambda: stack.decoded(run_id) >= 2)
    stack.postgres.kill()
    time.sleep(OUTAGE_S)
    stack.postgres.start()
    stack.wait_for_end(run_id)
    stack.assert_whole(run_id)


@pytest.mark.thorough
def test_runs_that_a_killed_web_process_accepted_are_worked(stack: Stack):
    accepted: list[str] = []

    def submit(client: int) -> None:
        body = {"target": "smollm2-135m", "dataset": name, "n": N, "seed": client}
        while len(accepted) < 1000:
            try:
                accepted.append(stack.http("/api/v1/runs", body)["run"]["id"])
            except OSError:
                return

    name = stack.additions("takes 0.01")
    clients = [threading.Thread(target=submit, args=(i,)) for i in range(4)]
    for client in clients:
        client.start()
    wait_for(lambda: len(accepted) >= 10)
    stack.kill("web")
    for client in clients:
        client.join()
    with stack.ctx.database.read() as session:  # one more may be stored than the client heard of
        run_ids = session.scalars(
            select(Run.id).where(Run.name.contains("smollm2"), Run.stored_dataset.has(name=name))
        ).all()
    assert set(accepted) <= {str(run_id) for run_id in run_ids}
    stack.wait_for_end(*run_ids)
    for run_id in run_ids:
        stack.assert_whole(run_id)


@pytest.mark.thorough
def test_a_study_survives_all_of_these_and_its_arms_never_decode_at_the_same_time(stack: Stack):
    dataset = stack.additions(*["takes 0.4"] * 6)
    arms = tuple({"target": MODEL, "drafter": drafter, "n": N} for drafter in ("none", "ngram", "sibling"))
    study_id = studies.submit(stack.ctx, StudySpec(dataset=dataset, arms=arms))
    with stack.ctx.database.read() as session:
        run_ids = [run.id for run in get_study(session, study_id).runs]

    def in_progress() -> str | None:
        return next((name for run_id in run_ids if (name := stack.working(run_id))), None)

    def tasks_done() -> int:
        return sum(stack.decoded(run_id) for run_id in run_ids)

    wait_for(in_progress)
    os.kill(stack.child(in_progress()), signal.SIGKILL)
    wait_for(lambda: tasks_done() >= 4 and in_progress(), 60)
    stack.kill(in_progress())
    stack.kill("web")
    wait_for(lambda: tasks_done() >= 8, 60)
    stack.redis.kill()
    stack.redis.start()
    wait_for(lambda: tasks_done() >= 12, 60)
    stack.postgres.kill()
    stack.postgres.start()
    stack.wait_for_end(*run_ids, timeout_s=120)
    for run_id in run_ids:
        stack.assert_whole(run_id)
    with stack.ctx.database.read() as session:
        prompts = {task.task.prompt for task in load_tasks_with_samples(session, run_ids[0])}
    began = [e for e in stack.events("generate") if e["prompt"] in prompts]
    # A worker that lost its lease puts its work down, and notes so a moment after the next one may have begun.
    whole = [e for e in stack.events("generated") if e["prompt"] in prompts and not e["put_down"]]
    for ended in whole:
        mine = max((e for e in began if e["pid"] == ended["pid"] and e["at"] < ended["at"]), key=lambda e: e["at"])
        assert not [e for e in began if mine["at"] < e["at"] < ended["at"]]


@pytest.mark.thorough
def test_a_task_or_a_model_that_kills_every_worker_is_given_up_and_the_run_says_so(stack: Stack):
    with_deadly_task = stack.submit(SHORT, "kills", SHORT)
    with_deadly_model = stack.submit(*[SHORT] * 5, target=DEADLY_MODEL)
    stack.wait_for_end(with_deadly_task, with_deadly_model, timeout_s=120)
    stack.assert_whole(with_deadly_task, failed=1)
    with stack.ctx.database.read() as session:
        assert DECODING_LOST in get_run(session, with_deadly_task).error
        run = get_run(session, with_deadly_model)
        assert (run.state, run.error) == (RunState.FAILED, LOADING_LOST)
        assert not any(t.samples for t in load_tasks_with_samples(session, with_deadly_model))
    assert sorted(stack.generated(with_deadly_task).values()) == [1, 1, 3]


@pytest.mark.thorough
def test_reapers_that_sweep_at_the_same_time_change_nothing(stack: Stack):
    run_id = stack.submit(LONG, *[SHORT] * 6)
    sweepers = [threading.Thread(target=sweep, args=(stack, run_id)) for _ in range(2)]
    wait_for(lambda: stack.working(run_id))
    stack.kill(stack.working(run_id))  # something to fight over
    for sweeper in sweepers:
        sweeper.start()
    stack.wait_for_end(run_id)
    for sweeper in sweepers:
        sweeper.join()
    stack.assert_whole(run_id)
    assert sum(stack.generated(run_id).values()) <= 8  # the one that was killed is decoded once more


@pytest.mark.parametrize(
    ("n_clients", "n_runs"), [(6, 2), pytest.param(20, 10, marks=pytest.mark.thorough)], ids=["12 runs", "200 runs"]
)
def test_runs_submitted_at_once_by_many_clients_all_end_and_none_is_mixed_up(stack: Stack, n_clients, n_runs):
    def client(number: int) -> list[tuple[str, str, int]]:
        name = stack.additions("takes 0")
        found = []
        for k in range(n_runs):
            body = {"target": "smollm2-135m", "dataset": name, "n": N, "seed": 100 * number + k}
            found.append((stack.http("/api/v1/runs", body)["run"]["id"], name, body["seed"]))
        return found

    with ThreadPoolExecutor(n_clients) as clients:
        submitted = [run for runs in clients.map(client, range(n_clients)) for run in runs]
    assert len({run_id for run_id, _, _ in submitted}) == n_clients * n_runs
    stack.wait_for_end(*(uuid.UUID(run_id) for run_id, _, _ in submitted), timeout_s=120)
    for run_id, name, seed in submitted:
        stack.assert_whole(uuid.UUID(run_id))
        with stack.ctx.database.read() as session:
            run = get_run(session, uuid.UUID(run_id))
            assert (run.dataset.name, run.seed) == (name, seed)


def test_a_completion_goes_before_the_batch_that_waits_and_no_worker_loads_twice(stack: Stack):
    batch = stack.submit(*["takes 0.3"] * 24)
    wait_for(lambda: stack.decoded(batch) >= 1)
    run_id = completions.submit(stack.ctx, CompletionSpec(target="smollm2-135m", prompt="# takes 0 now\n", n=2))
    stack.wait_for_end(run_id)
    assert stack.decoded(batch) < 22
    stack.wait_for_end(batch)
    stack.assert_whole(batch)
    loads = [(event["pid"], event["drafter"]) for event in stack.events("load") if event["target"] == MODEL]
    assert len(loads) == len(set(loads))


def test_samples_are_kept_until_postgresql_has_room_again(stack: Stack):
    fill(stack, FULL)
    try:
        run_id = stack.submit("takes 0", "takes 0")
        wait_for(lambda: len(stack.generated(run_id)) == 2)
    finally:
        fill(stack, "DROP TRIGGER no_room ON samples; DROP FUNCTION no_room()")
    stack.wait_for_end(run_id)
    stack.assert_whole(run_id)


@pytest.mark.thorough
def test_a_disk_that_stays_full_fails_the_run_with_the_databases_own_words(stack: Stack):
    fill(stack, FULL)
    try:
        run_id = stack.submit("takes 0", "takes 0")
        stack.wait_for_end(run_id)
    finally:
        fill(stack, "DROP TRIGGER no_room ON samples; DROP FUNCTION no_room()")
    with stack.ctx.database.read() as session:
        run = get_run(session, run_id)
        assert run.state is RunState.FAILED
        assert run.error.startswith("decoding failed: could not extend file: No space left on device")


@pytest.mark.thorough
@pytest.mark.model
def test_a_killed_child_with_a_real_model_leaves_the_samples_of_an_undisturbed_run(stack: Stack):
    for name in ("gpu0", "gpu1", "exec"):
        stack.kill(name)
    stack.start("real", module="app.cli", words=("worker", "--queues", ",".join(queues.ALL), "--name", "real"))
    try:
        disturbed = submit_real(stack)
        wait_for(lambda: stack.decoded(disturbed) >= 1, 120)
        child = stack.child("real")
        os.kill(child, signal.SIGKILL)
        undisturbed = submit_real(stack)
        stack.wait_for_end(disturbed, undisturbed, timeout_s=180)
        assert samples_of(stack, disturbed) == samples_of(stack, undisturbed)
        with stack.ctx.database.read() as session:
            (worker,) = [w for w in list_workers(session) if w.pid == stack.child("real")]
            assert worker.model == MODEL
    finally:
        stack.kill("real")
        del stack.parts["real"]


def sweep(stack: Stack, run_id) -> None:
    while stack.state(run_id) in OPEN_RUN_STATES:
        reaper.reap(stack.ctx)


def stored(stack: Stack, run_id) -> list:
    with stack.ctx.database.read() as session:
        return [
            (t.state, t.claimed_by, t.finished_at, [(s.id, s.raw) for s in t.samples])
            for t in load_tasks_with_samples(session, run_id)
            if t.state is TaskState.FINISHED
        ]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def fill(stack: Stack, statement: str) -> None:
    with stack.ctx.database.engine.begin() as connection:
        connection.execute(text(statement))


def submit_real(stack: Stack):
    datasets.require_dataset(stack.ctx, "humaneval")
    spec = RunSpec(
        target=MODEL, dataset="humaneval", limit=2, n=2, budget_s=60, max_tokens=24, temperature=0.8, drafter="none"
    )
    return service.submit(stack.ctx, spec)


def samples_of(stack: Stack, run_id) -> list:
    with stack.ctx.database.read() as session:
        run = get_run(session, run_id)
        assert run.state is RunState.FINISHED, run.error
        found = [
            (t.task.task_id, s.index, s.raw, s.finish_reason, s.verdict)
            for t in load_tasks_with_samples(session, run_id)
            for s in t.samples
        ]
    assert len(found) == run.n_tasks * run.n
    assert all(verdict for *_, verdict in found)
    return found
