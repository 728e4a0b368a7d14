"""A worker, or a command, is killed with SIGKILL at each step of each kind of background job: at most that step is done
again."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from app.advice import handler as trying
from app.advice import service
from app.advice.schemas import AdviceSpec
from app.background import handlers
from app.background.jobs import get_job, open_job
from app.background.models import BackgroundJob
from app.background.work import run_job
from app.core.context import Context
from app.core.db import migrate
from app.core.db.archives import read_project_archive
from app.core.db.database import Database
from app.core.db.types import get_utc_time
from app.core.events.bus import MemoryBus
from app.core.ports import SandboxGrader
from app.core.settings import Settings
from app.core.states import OPEN_BACKGROUND_JOB_STATES, BackgroundJobState, DatasetKind
from app.datasets import checking, translation
from app.datasets import service as datasets
from app.datasets.models import Dataset as StoredDataset
from app.datasets.models import DatasetCheck
from app.jobs.embedded import EmbeddedWorkers
from app.runs import hidden_runs, import_samples
from app.runs.models import Run
from app.runs.repository import list_runs
from app.runs.schemas import ImportSpec
from app.samples.models import Sample
from app.studies import archive, loading
from app.studies.models import Study
from evaluation.datasets import Dataset, Task
from evaluation.from_code import run
from evaluation.languages import registry
from evaluation.languages.base import ToolchainError
from tests.fakes import RIGHT, FakeEngine, FakeGrader
from tests.integration.waiting import wait_for
from tests.thorough import thorough

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__])  # to import the service takes three seconds, and each kill a process
BATCH = 3
N_TASKS = 5


def make_context(folder: Path) -> Context:
    """The context of each process of the drill, with steps as short as they can be."""
    hidden_runs.BATCH, checking.STEP_S, translation.CHUNK, trying.STEP_S = BATCH, 0.0, 2, 0.0
    settings = Settings(_env_file=None, data_dir=folder, reap_interval_s=0.2, lease_s=4, heartbeat_s=1, exec_workers=1)
    engine = FakeEngine()
    return Context(
        settings,
        Database(settings.effective_database_url),
        MemoryBus(),
        load_engine=lambda *_: engine,
        make_grader=FakeGrader,
    )


def store_dataset(ctx: Context) -> Dataset:
    check = "def check(candidate):\n    assert candidate(1, 2) == 3\n"
    tasks = tuple(Task(f"add/{i}", "def add(a, b):\n", "add", check, RIGHT) for i in range(N_TASKS))
    return datasets.store_dataset(ctx, Dataset("additions", tasks, "f" * 64), DatasetKind.IMPORTED)


def open_check(ctx: Context) -> object:
    dataset = store_dataset(ctx)
    arguments = {"dataset_id": str(dataset.id)}
    return open_job(ctx, checking.KIND, "additions", key=f"{dataset.id} fake", arguments=arguments)


def open_import(ctx: Context) -> object:
    store_dataset(ctx)
    lines = [{"task_id": f"add/{i % N_TASKS}", "completion": RIGHT} for i in range(2 * N_TASKS)]
    data = "\n".join(map(json.dumps, lines)).encode()
    return capture_job(
        ctx, lambda: import_samples.submit_import(ctx, ImportSpec(target="x", dataset="additions"), data, "f")
    )


def open_archive(ctx: Context) -> object:
    """The reference study that comes along, with few tasks."""
    file = min(loading.list_reference_files(), key=lambda path: path.stat().st_size)
    found = archive.parse_archive(file.read_bytes(), file.name)
    arms = tuple(arm.model_copy(update={"tasks": arm.tasks[:3]}) for arm in found.arms[:2])
    data = found.model_copy(update={"arms": arms}).model_dump_json(exclude_unset=True).encode()
    return capture_job(ctx, lambda: loading.load_study(ctx, data, "archive"))


def open_deletion(ctx: Context) -> object:
    job_id = open_import(ctx)
    run_job(ctx, job_id)
    with ctx.database.session() as session:
        (run,) = session.scalars(select(Run))
        return hidden_runs.hide_runs(ctx, session, [run])


def capture_job(ctx: Context, action: Callable[[], object]) -> object:
    """The job that the action opens, which it does not work yet."""
    opened = []
    with pytest.MonkeyPatch.context() as patched:
        for module in (import_samples, loading):
            patched.setattr(module, "run_job_or_cancel", lambda _ctx, job_id: opened.append(job_id))
        action()
    return opened[0]


def count(ctx: Context, table: type) -> int:
    with ctx.database.read() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def open_translation(ctx: Context) -> object:
    try:
        registry.load_language("javascript").toolchain.find()
    except ToolchainError as error:
        pytest.skip(f"no toolchain of JavaScript: {error}")
    arguments = {"dataset_id": str(store_dataset(ctx).id), "names": {"javascript": "additions-js"}}
    return open_job(ctx, "translate_dataset", "additions", key="same", arguments=arguments)


def open_try(ctx: Context) -> object:
    """A project of some functions that its tests call, and a model without weights."""
    folder = write_project(ctx.settings.data_dir)
    (folder / "test_texts.py").write_text(
        "import texts\n\n\ndef test_cut():\n    for name in dir(texts):\n        if name.startswith('cut'):\n"
        "            for width in range(3, 12):\n                assert getattr(texts, name)('a long text', width)\n"
    )
    spec = AdviceSpec(path=str(folder), python=sys.executable, target="smollm2-135m", n=2, minutes=1)
    return service.submit(ctx, spec, None)


def is_advised(ctx: Context) -> bool:
    with ctx.database.read() as session:
        (job,) = session.scalars(select(BackgroundJob).where(BackgroundJob.kind == service.KIND))
    return (count(ctx, Study), count_tasks(ctx, "project")) == (1, N_TASKS) and "of your code" in job.result["advice"]


def begin_from_code(folder: Path) -> list[object]:
    """The command for a project of some functions that its doctests call."""
    write_project(folder)
    python = ("--doctests", "--python", sys.executable)
    return ["datasets", "from-code", folder / "project", *python, "--name", "mine"]


def write_project(folder: Path) -> Path:
    (folder / "project").mkdir()
    calls = {("abc", 10): "abc", ("a long text", 6): "a l...", ("abcdef", 5): "ab..."}
    examples = "".join(f"\n    >>> NAME{given!r}\n    {result!r}" for given, result in calls.items())
    source = (
        f'def NAME(text, width):\n    """Cut a text to a width.\n{examples}\n    """\n'
        "    if len(text) <= width:\n        return text\n    kept = width - 3\n    return text[:kept] + '...'\n"
    )
    functions = (source.replace("NAME", f"cut{i}").replace("...", f"..{i}") for i in range(N_TASKS))
    (folder / "project" / "texts.py").write_text("\n\n".join(functions))
    return folder / "project"


def begin_training(folder: Path) -> list[object]:
    """The command for a tiny model."""
    from tests.decoding.model_files import put_trainable_model  # loads torch, which no other kind needs

    (folder / "model").mkdir()
    model = put_trainable_model(folder / "model")
    return ["drafter", "train", "--target", model, "--tokens", 1_000, "--epochs", 1]


def count_tasks(ctx: Context, name: str) -> int:
    with ctx.database.read() as session:
        return session.scalar(
            select(StoredDataset.n_tasks + StoredDataset.n_left_out).where(StoredDataset.name == name)
        )


KINDS = {  # how a job is opened, after how many steps each worker is killed, and what shows that it is done
    "check_dataset": (open_check, 2, lambda ctx: count(ctx, DatasetCheck) == 1),
    "import_samples": (open_import, 3, lambda ctx: (count(ctx, Sample), count(ctx, Run)) == (2 * N_TASKS, 1)),
    "import_archive": (open_archive, 2, lambda ctx: (count(ctx, Study), count(ctx, Run)) == (1, 2)),
    "delete_object": (open_deletion, 2, lambda ctx: (count(ctx, Sample), count(ctx, Run)) == (0, 0)),
    "translate_dataset": (open_translation, 1, lambda ctx: count_tasks(ctx, "additions-js") == N_TASKS),
}
LONG = {"try_code": (open_try, 6, is_advised)}
COMMANDS = {  # the words of a command, and the same
    "build_from_code": (begin_from_code, 2, lambda ctx: count_tasks(ctx, "mine") == N_TASKS),
    "train_drafter": (begin_training, 6, lambda ctx: len(list(ctx.settings.data_dir.glob("cache/drafters/*/"))) == 1),
}


@pytest.mark.parametrize("kind", [*KINDS, *map(thorough, [*LONG, *COMMANDS])])
def test_a_worker_that_is_killed_loses_at_most_a_step(tmp_path, kind):
    ctx = make_context(tmp_path)
    migrate.upgrade(ctx.database)
    begin, kill_after, is_done = (KINDS | LONG | COMMANDS)[kind]
    words = begin(tmp_path) if kind in COMMANDS else [begin(ctx)]
    kills = 0
    while status := run_worker(tmp_path, kind, kill_after, words):  # each stores some steps and dies in the next
        assert status == -signal.SIGKILL
        kills += 1
        assert kills < 12, "it does not go on where it was"
        with ctx.database.session() as session:
            running = update(BackgroundJob).where(BackgroundJob.state == BackgroundJobState.RUNNING)
            session.execute(running.values(lease_until=get_utc_time()))
            assert kind in LONG or list_runs(session) == []
    with ctx.database.read() as session:
        (job,) = session.scalars(select(BackgroundJob).where(BackgroundJob.kind == kind))
        assert (job.state, job.error) == (BackgroundJobState.FINISHED, None)
    assert kills >= 1
    assert is_done(ctx)
    worked, stored = ((tmp_path / name).read_text().splitlines() for name in ("worked.log", "stored.log"))
    if kind != "delete_object":  # whose cursor is always the same
        assert len(stored) == len(set(stored)), "a step was stored twice"
        assert len(worked) - len(set(worked)) <= kills, "more than the step in progress was done again"
    assert len(stored) >= kill_after * kills
    ctx.database.dispose()


def run_worker(folder: Path, kind: str, kill_after: int, words: list[object]) -> int:
    """The exit status of a process that does the job, or the command, and kills itself in the middle of a step."""
    if kind in KINDS:
        worker = FORKS.Process(target=main, args=(str(folder), kind, str(kill_after), *map(str, words)))
        worker.start()
        worker.join(300)
        return worker.exitcode
    own = {"BASSLINE_DATA_DIR": str(folder), "BASSLINE_CACHE_DIR": str(folder / "cache"), "BASSLINE_EXEC_WORKERS": "1"}
    environment = {**os.environ, **own, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    module = [sys.executable, "-m", "tests.integration.chaos.test_killed_jobs"]
    arguments = map(str, (folder, kind, kill_after, *words))
    return subprocess.run([*module, *arguments], check=False, cwd=ROOT, env=environment, timeout=300).returncode


def main(folder: str, kind: str, kill_after: str, *words: str) -> None:
    left = iter(range(int(kill_after)))

    def note(name: str, unit: str) -> None:
        with (Path(folder) / name).open("a") as log:
            log.write(f"{unit}\n")

    def watch(owner: object, name: str, describe: Callable[..., str], *, stores: bool = True) -> None:
        """Notes a unit of work when it begins, or is stored; kills the process before it stores one too many."""
        original = getattr(owner, name)

        def watched(*given: object, **options: object) -> object:
            unit = describe(*given)
            if not stores:
                note("worked.log", unit)
            elif unit and next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            result = original(*given, **options)
            if stores and unit:
                note("stored.log", unit)
            return result

        setattr(owner, name, watched)

    if kind in ("build_from_code", "try_code"):
        watch(run.BuildState, "add_result", lambda _state, made: made.key)
        watch(run.BuildState, "save_recording", lambda *_: "recording")
        watch(run.TaskMaker, "make", lambda _maker, function: function.key, stores=False)
    elif kind == "train_drafter":
        from decoding.training import collection, documents, trainer
        from tests.decoding.training.program import SMALL

        trainer.CHECKPOINT_EVERY_S = 0.0
        for module, name, value in SMALL:
            setattr(module, name, value)
        watch(documents.Shards, "add", lambda kept, *_: f"shard {len(kept.infos)}")
        # The last step is saved once more at the end.
        watch(trainer.Trainer, "_save", lambda one: f"step {one.step}" if one.step < one.n_steps else "")
        watch(collection.Collection, "add_shard", lambda one: f"shard {len(one.shards.infos)}", stores=False)
        watch(trainer.Trainer, "_update", lambda one, _: f"step {one.step}", stores=False)
    if kind not in COMMANDS:
        watch(handlers.JobAttempt, "save", lambda step, *_: json.dumps(step.cursor, sort_keys=True))
        watch(handlers.JobAttempt, "save", lambda step, *_: json.dumps(step.cursor, sort_keys=True), stores=False)
    if kind in COMMANDS:
        from app.cli.main import cli

        cli(words)
    ctx, job_id = make_context(Path(folder)), uuid.UUID(words[0])
    if kind not in LONG:
        run_job(ctx, job_id)
        return
    ctx.make_grader = partial(SandboxGrader, (), partial(read_project_archive, ctx.database))
    with EmbeddedWorkers(ctx, "drill"):  # also works the study
        wait_for(lambda: get_state(ctx, job_id) not in OPEN_BACKGROUND_JOB_STATES, 240)


def get_state(ctx: Context, job_id: uuid.UUID) -> BackgroundJobState:
    with ctx.database.read() as session:
        return get_job(session, job_id).state


if __name__ == "__main__":
    main(*sys.argv[1:])
