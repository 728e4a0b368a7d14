"""A killed `bassline eval` loses no figure: the next start of any process records them."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from sqlalchemy import update

from app.core.db.types import get_utc_time
from app.core.states import RunState
from app.jobs.embedded import EmbeddedWorkers
from app.jobs.reaper import reap
from app.runs import service
from app.runs.models import Run
from app.runs.repository import get_run
from app.workers.models import Worker
from app.workers.service import compute_silence_limit
from tests.integration.waiting import wait_for
from tests.thorough import thorough

ROOT = Path(__file__).parents[2]
EVAL = """
import os, signal, sys, time
from app.core.context import Context
from app.core.db.database import Database
from app.core.events.bus import MemoryBus
from app.jobs.embedded import EmbeddedWorkers
from app.runs import repository, service
from app.runs.schemas import RunSpec
from app.core.settings import Settings
from app.core.states import OPEN_RUN_STATES
from tests.fakes import FakeEngine, FakeGrader

class Killed(FakeEngine):
    def generate(self, request, *args):
        while len(self.requests) == 2:  # kills its process once both tasks before this one are graded
            with ctx.database.read() as session:
                if repository.compute_progress(session, repository.get_run(session, run_id)).finished == 2:
                    os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.01)
        return super().generate(request, *args)

settings = Settings(_env_file=None, data_dir=sys.argv[1])
engine = Killed()
ctx = Context(settings, Database(settings.effective_database_url), MemoryBus(), lambda *_: engine, FakeGrader)
with EmbeddedWorkers(ctx, "eval", pinned_only=True):
    spec = RunSpec(target="smollm2-135m", dataset="additions", n=2, budget_s=5)
    run_id = service.submit(ctx, spec, pinned_worker=ctx.worker_name)
    print(run_id, flush=True)
    while True:  # else the run ends before it can kill the process, and so does this one
        with ctx.database.read() as session:
            if repository.get_run(session, run_id).state not in OPEN_RUN_STATES:
                break
        time.sleep(0.05)
"""


@pytest.fixture
def killed(ctx, additions) -> uuid.UUID:
    """The run of a process that was killed in the third and last task of it."""
    command = [sys.executable, "-c", EVAL, str(ctx.settings.data_dir)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    return uuid.UUID(ended.stdout.strip())


def look(ctx, run_id) -> tuple:
    """(state, graded tasks and tasks left of the figures, graded tasks of the curve)."""
    with ctx.database.read() as session:
        run = get_run(session, run_id)
        return run.state, run.measured.tasks, run.measured.tasks_left, run.curve and run.curve.n_tasks


@pytest.mark.parametrize("foreground", [thorough(False), True])
def test_a_killed_run_has_its_figures_and_its_curve_after_the_next_start(ctx, killed, foreground):
    assert look(ctx, killed) == (RunState.RUNNING, 0, 0, None)
    with EmbeddedWorkers(ctx, "any", pinned_only=foreground):
        assert look(ctx, killed) == (RunState.INTERRUPTED, 2, 1, 2)
    ctx.stopping.clear()
    with EmbeddedWorkers(ctx, "resume", pinned_only=True):
        service.resume(ctx, killed, ctx.worker_name)
        wait_for(lambda: look(ctx, killed) == (RunState.FINISHED, 3, 0, 3))


@pytest.mark.parametrize(("owner_is_silent", "state"), [(False, RunState.RUNNING), (True, RunState.INTERRUPTED)])
def test_a_run_is_interrupted_when_the_process_it_is_pinned_to_is_silent_whoever_else_is_alive(
    world, owner_is_silent, state
):
    ctx = world.context
    run_id = world.add_run("eval", limit=3, n=1, done=2, state=RunState.RUNNING)
    silent = {"owner:1": owner_is_silent, "other:1": not owner_is_silent}
    with ctx.database.session() as session:
        session.execute(update(Run).values(pinned_worker="owner:1"))
        for name, is_silent in silent.items():
            seen = get_utc_time() - 2 * compute_silence_limit(ctx) if is_silent else get_utc_time()
            session.add(Worker(name=name, host="here", pid=1, last_seen_at=seen))
    reap(ctx)
    assert look(ctx, run_id)[0] is state


def test_a_run_that_was_killed_after_its_last_task_is_finished_by_the_next_start(world):
    run_id = world.add_run("killed", limit=3, n=1, state=RunState.RUNNING)
    with world.context.database.session() as session:
        session.execute(update(Run).values(pinned_worker="gone:1"))
    with EmbeddedWorkers(world.context, "serve"):
        assert look(world.context, run_id) == (RunState.FINISHED, 3, 0, 3)
