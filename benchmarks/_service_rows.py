"""Fills a database as after a year of work: ended runs over three datasets on two devices, with all their samples.

The seed is fixed, and app/runs/figures.py computes figures and curves from the samples.
"""

from __future__ import annotations

import datetime as dt
import operator
import random
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Connection, func, inspect, select
from sqlalchemy.orm import Session

from app.core.context import Context
from app.core.db.types import get_utc_time
from app.core.errors import BadInputError
from app.core.states import DatasetKind, RunKind, RunState, TaskState
from app.datasets import service as dataset_service
from app.datasets.models import Dataset
from app.domains import metadata
from app.runs import figures
from app.runs.models import Run, RunCurve
from evaluation import dataset_files
from evaluation import datasets as evaluation_datasets
from evaluation.verdicts import Status, Trust

MADE_BY = "bassline bench service"  # the runs are pinned to this worker, which marks them as generated
GENERATED_TABLES = {
    "datasets", "tasks", "runs", "run_tasks", "run_curves", "samples", "dataset_checks", "workers", "jobs",
}  # fmt: skip
N = 8
DEVICES = ("NVIDIA H100 80GB HBM3", "AMD EPYC 7763, 8 cores")
TARGETS = {  # pass rate, and seconds for a hundred tokens of all samples on the first device
    "smollm2-135m": (0.12, 0.5),
    "qwen2.5-coder-0.5b": (0.35, 0.7),
    "qwen2.5-coder-1.5b": (0.5, 1.1),
    "hf:deepseek-ai/deepseek-coder-1.3b-base": (0.38, 1.0),
    "hf:bigcode/starcoder2-3b": (0.42, 1.9),
}
DRAFTERS = {"none": 1.0, "ngram": 0.8, "sibling": 0.55, "smollm2-135m": 0.65}
FAULTS = {
    Status.WRONG_ANSWER: ("assertion failed",),
    Status.EXCEPTION: (
        "IndexError: list index out of range",
        "KeyError: '{}'",
        "NameError: name '{}' is not defined",
        "ValueError: {} is not in list",
    ),
    Status.SYNTAX_ERROR: ("'(' was never closed (line {line})", "invalid syntax (line {line})"),
    Status.TIMEOUT: ("ran past 3 s",),
}
FAILING = "assert candidate([1.0, 2.0]) == 3"
TRACEBACK = 'Traceback (most recent call last):\n  File "<candidate>", line {}, in solve\n    {}\n{}'
NAMES = ("result", "count", "index", "left", "items", "value", "word", "number", "seen", "stack", "row", "buffer")


_MEASURED = (
    "started_at", "finished_at", "prompt_sent", "prompt_version", "n_prompt_tokens", "queue_s", "prefill_s", "draft_s",
    "verify_s", "other_s", "wall_s", "sandbox_s", "n_rounds", "peak_memory_bytes",
)  # fmt: skip
_TASK_COLUMNS = ("id", "run_id", "task_pk", "position", "state", "attempt", "queued_at", *_MEASURED)
_UNRECORDED_COLUMNS = ("capacity_s", "others_cpu_s", "steal_s")  # what others used of the machine was not recorded


class _TableRow(SimpleNamespace):
    """A row of a table by the names of its columns; hashed by identity, as mapped rows are."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def fill(ctx: Context, runs: int, tell: Callable[[str], None]) -> None:
    """Fill the database with `runs` generated runs in one transaction; do nothing if it holds them already.

    Raises BadInputError for a database with other content.
    """
    with ctx.database.session() as session:
        found = _count_generated(session)
    if found == runs:
        return
    if found:
        raise BadInputError(f"the database holds {found} generated runs: give --runs {found}, or an empty database")
    stored = [
        dataset_service.require_dataset(ctx, "humaneval"),
        *(_import_tasks(ctx, name) for name in ("interviews", "regressions")),
    ]
    rng = random.Random(0)
    with ctx.database.session() as session:
        for number, run in enumerate(_generate_runs(stored, runs, rng), start=1):
            _write(session, run, rng)
            if number % 100 == 0:
                tell(f"{number} of {runs} runs")
    analyze_tables(ctx)


def analyze_tables(ctx: Context) -> None:
    """Do what autovacuum does within a minute."""
    with ctx.database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE")


def refuse_foreign_tables(connection: Connection) -> None:
    """Raise BadInputError for a database with tables that are not the service's."""
    foreign = set(inspect(connection).get_table_names()) - set(metadata.tables) - {"alembic_version"}
    if foreign:
        raise BadInputError(f"the database holds the table {min(foreign)}: give --database an empty one")


def _count_generated(session: Session) -> int:
    """The number of generated runs. Raises BadInputError if there is any other row."""
    others = [
        t.name for t in metadata.sorted_tables if t.name not in GENERATED_TABLES and session.execute(select(t)).first()
    ]
    if session.scalar(select(Run.id).where(Run.pinned_worker.is_distinct_from(MADE_BY)).limit(1)):
        others.append("runs")
    if others:
        raise BadInputError(f"the database holds {others[0]} that are not generated: give --database an empty one")
    return session.scalar(select(func.count()).select_from(Run)) or 0


def _import_tasks(ctx: Context, name: str) -> Dataset:
    """HumanEval's tasks under other ids, as an imported dataset."""
    tasks = tuple(
        replace(t, task_id=f"{name}/{i}") for i, t in enumerate(dataset_files.load_bundled_dataset("humaneval").tasks)
    )
    return dataset_service.store_dataset(
        ctx, evaluation_datasets.Dataset(name, tasks, sha256(name.encode()).hexdigest()), DatasetKind.IMPORTED
    )


def _generate_runs(stored: Sequence[Dataset], n: int, rng: random.Random) -> Iterator[Run]:
    """Runs of the last year, oldest first; one in twelve did not finish."""
    now = get_utc_time()
    for number in range(n):
        created_at = now - dt.timedelta(hours=8 * (n - number))
        (dataset,) = rng.choices(stored, (6, 2, 2))
        target, drafter = rng.choice(list(TARGETS)), rng.choice(list(DRAFTERS))
        temperature, budget_s = rng.choice((0.2, 0.2, 0.8)), rng.choice((5.0, 10.0, 10.0, 30.0))
        states = (RunState.FINISHED, RunState.INTERRUPTED, RunState.CANCELLED)
        (device,) = rng.choices(DEVICES, (7, 3))
        yield Run(
            id=uuid.UUID(_make_id(created_at, rng)),
            name=f"{target.rsplit('/', maxsplit=1)[-1]} {drafter} {number}",
            kind=RunKind.EVAL,
            state=rng.choices(states, (22, 1, 1))[0],
            stored_dataset=dataset,
            target=target,
            drafter=drafter,
            draft_length="goodput",
            acceptance="coupled",
            dtype="auto",
            device="auto",
            n=N,
            budget_s=budget_s,
            temperature=temperature,
            top_p=0.95,
            seed=number,
            max_tokens=512,
            prompt_mode="auto",
            prompt_mode_used="completion",
            throughput=False,
            n_tasks=dataset.n_tasks,
            excluded=[],
            graded=True,
            pinned_worker=MADE_BY,
            command=f"bassline eval --target {target} --drafter {drafter} --seed {number} --budget {budget_s:g}",
            provenance={
                "device": "cuda" if device == DEVICES[0] else "cpu",
                "device_name": device,
                "dtype": "bfloat16",
                "torch_version": "2.13.0",
                "bassline_version": "0.1.0",
                "python": "3.11.2",
                "git_commit": f"{number:040x}",
                "target_sha256": sha256(target.encode()).hexdigest(),
                "draft_sha256": None,
            },
            created_at=created_at,
            started_at=created_at + dt.timedelta(seconds=20),
            finished_at=created_at + dt.timedelta(minutes=30),
        )


def _write(session: Session, run: Run, rng: random.Random) -> None:
    done = run.n_tasks if run.state is RunState.FINISHED else rng.randrange(20, run.n_tasks)
    run_tasks: list[Any] = []  # rows of run_tasks with their samples, as app/runs/figures.py reads them
    assert run.stored_dataset is not None
    all_tasks = run.stored_dataset.tasks
    for position, task in enumerate(all_tasks):
        run_task = _TableRow(
            id=_make_id(run.created_at, rng), run_id=run.id, task_pk=task.id, position=position,
            state=TaskState.SKIPPED, attempt=0, queued_at=run.created_at, task=task,
            **dict.fromkeys((*_MEASURED, *_UNRECORDED_COLUMNS)),
        )  # fmt: skip
        run_task.samples = _generate_samples(run, run_task, task, rng) if position < done else []
        run_tasks.append(run_task)
    run.figures = figures.compute_figures(run, run_tasks)
    curve = figures.compute_curve(run, run_tasks)
    tasks = figures.hash_task_ids(task.task_id for task in all_tasks[:done])
    run.curve = RunCurve(n_tasks=done, tasks=tasks, **{name: list(values) for name, values in asdict(curve).items()})
    session.add(run)
    session.flush()
    connection = session.connection()
    samples = [sample for run_task in run_tasks for sample in run_task.samples]
    _copy(connection, "run_tasks", _TASK_COLUMNS, run_tasks)
    _copy(connection, "samples", tuple(vars(samples[0])), samples)


def _generate_samples(run: Run, run_task: Any, task: Any, rng: random.Random) -> list[_TableRow]:
    skill, pace = TARGETS[run.target]
    pace *= DRAFTERS[run.drafter] * (1 if run.provenance["device"] == "cuda" else 6)
    ability, length = min(max(rng.gauss(skill, 0.32), 0.0), 1.0), rng.randint(30, 180)
    samples = [_generate_sample(run, run_task, task, index, ability, length, pace, rng) for index in range(run.n)]
    run_task.state, run_task.attempt = TaskState.FINISHED, 0
    run_task.queue_s, run_task.prefill_s, run_task.sandbox_s = rng.uniform(1, 900), 0.02 * pace, rng.uniform(0.05, 0.4)
    run_task.wall_s = max(s.finished_s for s in samples)
    run_task.draft_s, run_task.other_s = 0.14 * run_task.wall_s, 0.06 * run_task.wall_s
    run_task.verify_s = run_task.wall_s - run_task.draft_s - run_task.other_s - run_task.prefill_s
    run_task.started_at = run_task.queued_at + dt.timedelta(seconds=run_task.queue_s)
    run_task.finished_at = run_task.started_at + dt.timedelta(seconds=run_task.wall_s + run_task.sandbox_s)
    run_task.prompt_sent, run_task.prompt_version, run_task.n_prompt_tokens = (
        task.prompt,
        "completion-1",
        len(task.prompt) // 4,
    )
    run_task.n_rounds, run_task.peak_memory_bytes = length // 3, 3 * 2**30
    return samples


def _generate_sample(
    run: Run, run_task: Any, task: Any, index: int, ability: float, length: int, pace: float, rng: random.Random
) -> _TableRow:
    n_tokens = max(length + rng.randint(-20, 40), 8)
    passes, finished_s = rng.random() < ability, pace * n_tokens / 100 * rng.uniform(0.8, 1.35)
    late = finished_s > run.budget_s
    verdict = Status.PASSED if passes else rng.choice(list(FAULTS))
    wrong = verdict == Status.WRONG_ANSWER
    raw = _rewrite_solution(
        task.canonical_solution if passes else task.canonical_solution.replace("0", "1"), index, rng
    )
    fault = _choose_fault(verdict, rng) if not passes else None
    return _TableRow(
        id=_make_id(run.created_at, rng),
        run_id=run.id,
        run_task_id=run_task.id,
        index=index,
        seed=run.seed,
        raw=raw,
        n_tokens=n_tokens,
        mean_logprob=rng.gauss(-0.16 if passes else -0.24, 0.07),
        finish_reason="deadline" if late else "stop",
        first_token_s=0.022 * pace,
        finished_s=run.budget_s + 0.01 if late else finished_s,
        n_rounds=n_tokens // 3,
        n_drafted=n_tokens,
        n_accepted=int(0.62 * n_tokens),
        token_ids="[]",
        logprobs="[]",
        origins="tdd" * (n_tokens // 3),
        program=task.prompt + raw,
        extraction="completion",
        extraction_version="3",
        verdict=verdict,
        verdict_detail=fault,
        traceback=TRACEBACK.format(rng.randint(4, 30), raw.splitlines()[-1].strip(), fault) if fault else None,
        failing_assert=FAILING if wrong else None,
        got="[1.0]" if wrong else None,
        expected="3" if wrong else None,
        calls=7,
        cpu_s=0.03,
        sandbox_wall_s=0.05,
        isolation="bwrap",
        trust=Trust.PROXY,
        graded_at=run.created_at,
    )


def _rewrite_solution(solution: str, index: int, rng: random.Random) -> str:
    """A solution with names of its own."""
    a, b = rng.choices(NAMES, k=2)
    return f"    # attempt {index}\n    {a} = []\n    {b} = len({a})\n{solution}"


def _choose_fault(verdict: Status, rng: random.Random) -> str:
    return rng.choice(FAULTS[verdict]).format(rng.choice(NAMES), line=rng.randint(4, 30))


def _copy(connection: Connection, table: str, names: Sequence[str], rows: Iterable[Any]) -> None:
    values = operator.attrgetter(*names)
    columns = ", ".join(f'"{name}"' for name in names)
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(values(row))


def _make_id(at: dt.datetime, rng: random.Random) -> str:
    """A UUIDv7 for that time."""
    chance = rng.getrandbits(72)
    return f"{int(at.timestamp() * 1000):012x}7{chance >> 60:03x}8{chance & (2**60 - 1):015x}"
