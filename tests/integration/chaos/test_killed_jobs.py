"""A worker is killed with SIGKILL at each step of each kind of background job: at most that step is done again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from app.background import handlers
from app.background.jobs import open_job
from app.background.models import BackgroundJob
from app.background.work import work
from app.core.context import Context
from app.core.db import migrate
from app.core.db.database import Database
from app.core.db.types import utcnow
from app.core.events.bus import MemoryBus
from app.core.settings import Settings
from app.core.states import DatasetKind, JobState
from app.datasets import checking
from app.datasets import service as datasets
from app.datasets.models import DatasetCheck
from app.runs import deletion, hidden_runs, import_samples
from app.runs.models import Run
from app.runs.repository import list_runs
from app.runs.schemas import ImportSpec
from app.samples.models import Sample
from app.studies import archive, loading
from app.studies.models import Study
from evaluation.datasets import Dataset, Task
from tests.fakes import RIGHT, FakeGrader

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]
BATCH = 3
N_TASKS = 5


def make_context(folder: Path) -> Context:
    """The context of each process of the drill, with steps as short as they can be."""
    hidden_runs.BATCH, checking.STEP_S = BATCH, 0.0
    settings = Settings(_env_file=None, data_dir=folder)
    return Context(settings, Database(settings.database), MemoryBus(), make_grader=FakeGrader)


def store_dataset(ctx: Context) -> Dataset:
    check = "def check(candidate): ...\n"
    tasks = tuple(Task(f"add/{i}", "def add(a, b):\n", "add", check, RIGHT) for i in range(N_TASKS))
    return datasets.store(ctx, Dataset("additions", tasks, "f" * 64), DatasetKind.IMPORTED)


def open_check(ctx: Context) -> object:
    dataset = store_dataset(ctx)
    arguments = {"dataset_id": str(dataset.id)}
    return open_job(ctx, checking.KIND, "additions", key=f"{dataset.id} fake", arguments=arguments)


def open_import(ctx: Context) -> object:
    store_dataset(ctx)
    lines = [{"task_id": f"add/{i % N_TASKS}", "completion": RIGHT} for i in range(2 * N_TASKS)]
    data = "\n".join(map(json.dumps, lines)).encode()
    return capture_job(ctx, lambda: import_samples.submit(ctx, ImportSpec(target="x", dataset="additions"), data, "f"))


def open_archive(ctx: Context) -> object:
    """The reference study that comes along, with few tasks."""
    file = min(loading.reference_files(), key=lambda path: path.stat().st_size)
    found = archive.read(file.read_bytes(), file.name)
    arms = tuple(arm.model_copy(update={"tasks": arm.tasks[:3]}) for arm in found.arms[:2])
    data = found.model_copy(update={"arms": arms}).model_dump_json(exclude_unset=True).encode()
    return capture_job(ctx, lambda: loading.load(ctx, data, "archive"))


def open_deletion(ctx: Context) -> object:
    job_id = open_import(ctx)
    work(ctx, job_id)
    with ctx.database.session() as session:
        (run,) = session.scalars(select(Run))
        return deletion.hide(ctx, session, [run])


def capture_job(ctx: Context, action: Callable[[], object]) -> object:
    """The job that the action opens, which it does not work yet."""
    opened = []
    with pytest.MonkeyPatch.context() as patched:
        for module in (import_samples, loading):
            patched.setattr(module, "work_to_end", lambda _ctx, job_id: opened.append(job_id))
        action()
    return opened[0]


def count(ctx: Context, table: type) -> int:
    with ctx.database.read() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


KINDS = {  # how a job is opened, after how many steps each worker is killed, and what shows that it is done
    "check_dataset": (open_check, 2, lambda ctx: count(ctx, DatasetCheck) == 1),
    "import_samples": (open_import, 3, lambda ctx: (count(ctx, Sample), count(ctx, Run)) == (2 * N_TASKS, 1)),
    "import_archive": (open_archive, 9, lambda ctx: (count(ctx, Study), count(ctx, Run)) == (1, 2)),
    "delete_object": (open_deletion, 2, lambda ctx: (count(ctx, Sample), count(ctx, Run)) == (0, 0)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_that_is_killed_loses_at_most_a_step(tmp_path, kind):
    ctx = make_context(tmp_path)
    migrate.upgrade(ctx.database)
    opened, kill_after, is_done = KINDS[kind]
    job_id = opened(ctx)
    log = tmp_path / "steps.log"
    kills = 0
    while run_worker(tmp_path, job_id, kill_after) == -9:  # each worker stores some steps and dies in the next
        kills += 1
        with ctx.database.session() as session:
            running = update(BackgroundJob).where(BackgroundJob.state == JobState.RUNNING)
            session.execute(running.values(lease_until=utcnow()))
            assert list_runs(session) == []
    with ctx.database.read() as session:
        job = session.get_one(BackgroundJob, job_id)
        assert (job.state, job.error) == (JobState.FINISHED, None)
    assert kills >= 1
    assert is_done(ctx)
    cursors = log.read_text().splitlines()
    assert len(cursors) == len(set(cursors)) or kind == "delete_object"  # no step was stored twice
    assert len(cursors) >= kill_after * kills
    ctx.database.dispose()


def run_worker(folder: Path, job_id: object, kill_after: int) -> int:
    """The exit status of a process that works the job and kills itself in the middle of a step."""
    words = [
        sys.executable,
        "-m",
        "tests.integration.chaos.test_killed_jobs",
        str(folder),
        str(job_id),
        str(kill_after),
    ]
    return subprocess.run(
        words, check=False, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=120
    ).returncode


def main(folder: str, job_id: str, kill_after: str) -> None:
    import signal
    import uuid

    left = iter(range(int(kill_after)))
    save = handlers.Step.save

    def save_or_die(step, *arguments) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        save(step, *arguments)
        with (Path(folder) / "steps.log").open("a") as log:
            log.write(json.dumps(step.cursor, sort_keys=True) + "\n")

    handlers.Step.save = save_or_die
    work(make_context(Path(folder)), uuid.UUID(job_id))


if __name__ == "__main__":
    main(*sys.argv[1:])
