"""A service over a fresh SQLite file, and runs in every state with data made up for these tests."""

from __future__ import annotations

import datetime as dt
import random
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import insert

from app.completions.models import CompletionRun
from app.core.context import Context, make_context
from app.core.db.database import Database
from app.core.db.migrate import upgrade
from app.core.db.types import generate_id, get_utc_time
from app.core.provenance import describe_machine
from app.core.settings import Settings
from app.core.states import RunKind, RunState, TaskState
from app.datasets.models import Dataset, Task
from app.datasets.service import build_task_columns, require_dataset, to_evaluation_task
from app.runs import figures
from app.runs.models import Calibration, Run, RunTask
from app.samples.models import Sample
from app.site.factory import create_app
from app.studies.loading import load_reference_studies
from app.studies.models import ARM, Study, StudyArm
from app.workers.models import Worker

FAILS = (
    "wrong_answer",
    "wrong_answer",
    "wrong_answer",
    "exception",
    "exception",
    "syntax_error",
    "timeout",
    "empty",
    "memory",
    "crashed",
    "output_limit",
    "forged",
)
DETAILS = {
    "wrong_answer": "assertion failed",
    "exception": "IndexError: list index out of range",
    "syntax_error": "'(' was never closed (line 7)",
    "timeout": "ran past 3 s",
}
ENDED = (RunState.FINISHED, RunState.INTERRUPTED, RunState.CANCELLED, RunState.FAILED)


@dataclass
class World:
    """The service under test and what builds its rows."""

    context: Context

    @cached_property
    def app(self) -> Flask:
        """The pages and the API, made when a test asks for them: its 110 routes take longer than most tests."""
        return create_app(self.context)

    @property
    def client(self) -> FlaskClient:
        return self.app.test_client()

    @cached_property
    def humaneval(self) -> Dataset:
        """The dataset of all runs, with its tasks."""
        return require_dataset(self.context, "humaneval")

    def add_run(
        self,
        name: str,
        *,
        state: RunState = RunState.FINISHED,
        target: str = "smollm2-135m",
        drafter: str = "sibling",
        weights: str = "dense",
        n: int = 4,
        budget_s: float = 10.0,
        skill: float = 0.4,
        pace: float = 2.5,
        limit: int | None = 12,
        done: int | None = None,
        device: str = "NVIDIA H100 80GB HBM3",
        seed: int = 1,
        raw: str | None = None,
        prompt: str | None = None,
        graded: bool = True,
        kind: RunKind = RunKind.EVAL,
        lost: float | None = 0.01,
        verifies: Sequence[float] = (0.0200, 0.0202),
        dataset: Dataset | None = None,
        toolchain: str = "",
    ) -> uuid.UUID:
        """A run of which `done` tasks (None: all) have been decoded and judged. `skill` and `pace` shape the dice.

        Others took the share `lost` of the machine from each task (None: not known), and the fixed verifies of the
        calibrations took `verifies` seconds. It is over HumanEval unless another `dataset` is given.
        """
        dice = random.Random(f"{name}{seed}")
        dataset = dataset or self.humaneval
        tasks, made, over = dataset.tasks[:limit], Run, {"dataset_id": dataset.id}
        if kind is RunKind.COMPLETION:
            tasks = [Task(**build_task_columns(i, to_evaluation_task(task))) for i, task in enumerate(tasks)]
            made, over = CompletionRun, {"prompts": tasks, "prompts_sha256": "0" * 64}
        done = len(tasks) if done is None else done
        now = get_utc_time()
        with self.context.database.session() as session:
            run = made(
                name=name,
                kind=kind,
                state=state,
                **over,
                target=target,
                drafter=drafter,
                weights=weights,
                draft_length="bass",
                acceptance="coupled",
                dtype="auto",
                device="auto",
                n=n,
                budget_s=budget_s,
                temperature=0.2,
                top_p=0.95,
                seed=seed,
                max_tokens=512,
                prompt_mode="auto",
                prompt_mode_used="completion",
                n_tasks=len(tasks),
                graded=graded,
                command=f"bassline eval --target {target} --drafter {drafter} --n {n} --budget {budget_s:g}",
                error="no sandbox on this machine: install bubblewrap" if state == RunState.FAILED else None,
                provenance={"device_name": device, "torch_version": "2.11.0", "target_sha256": "9f2c" * 16}
                | ({"toolchain": toolchain} if toolchain else {})
                if done
                else {},
                started_at=now - dt.timedelta(minutes=7) if state != RunState.QUEUED else None,
                finished_at=now if state in ENDED else None,
            )
            session.add(run)
            session.flush()
            rows, samples = list[dict[str, Any]](), list[dict[str, Any]]()
            for position, task in enumerate(tasks):
                row = {"id": generate_id(), "run_id": run.id, "task_pk": task.id, "position": position}
                rows.append(row)
                if position < done:
                    made_row, made_samples = self._decode(run, task.prompt, dice, skill, pace, raw, prompt)
                    row |= made_row | {"state": TaskState.FINISHED}
                    row["started_at"] = now - dt.timedelta(minutes=7) + position * dt.timedelta(seconds=budget_s)
                    if lost is not None:
                        row["capacity_s"] = 2 * row["wall_s"]
                        row |= {"others_cpu_s": lost * row["capacity_s"], "steal_s": 0.0, "load_average": 1.0}
                    samples += ({"run_id": run.id, "run_task_id": row["id"], **sample} for sample in made_samples)
                elif state == RunState.RUNNING and position == done:
                    row["state"] = TaskState.DECODING
            for table, made_rows in ((RunTask, rows), (Sample, samples)):  # in bulk: a run has hundreds
                if made_rows:
                    session.execute(insert(table).execution_options(render_nulls=True), made_rows)
            for i, seconds in enumerate(verifies if done else ()):
                at = now - dt.timedelta(minutes=7 - i)
                session.add(
                    Calibration(run_id=run.id, worker="gpu-1", at=at, verify_s=seconds, read_bytes_per_s=2e8 / seconds)
                )
            session.flush()
            if state in ENDED:
                figures.store_measurement(session, run, figures.compute_measurement(session, run))
            return run.id

    def _decode(
        self,
        run: Run,
        task_prompt: str,
        dice: random.Random,
        skill: float,
        pace: float,
        raw: str | None,
        prompt: str | None,
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The columns of a decoded task, and those of its samples."""
        ability = min(max(dice.gauss(skill, 0.32), 0.0), 1.0)
        tokens = dice.randint(40, 220)
        queue_s, prefill_s, sandbox_s = dice.uniform(0.05, 0.4), 0.02 * pace, dice.uniform(0.2, 0.7)
        ends, samples = list[float](), list[dict[str, Any]]()
        for index in range(run.n):
            n_tokens = max(tokens + dice.randint(-25, 60), 8)
            end = pace * n_tokens / 100 * dice.uniform(0.8, 1.35)
            late = end > run.budget_s
            passes = dice.random() < ability
            verdict = "passed" if passes else dice.choice(FAILS)
            body = (
                raw
                if raw is not None
                else (
                    f"    # attempt {index}\n    result = []\n    for item in range({n_tokens}):\n"
                    f"        if item % {index + 2} == 0:\n            result.append(item)\n    return sorted(result)\n"
                )
            )
            ends.append(min(end, run.budget_s + 0.02))
            samples.append(
                {
                    "index": index,
                    "seed": run.seed,
                    "raw": body,
                    "n_tokens": n_tokens,
                    "mean_logprob": dice.gauss(-0.16 if passes else -0.24, 0.07),
                    "finish_reason": "deadline" if late else "stop",
                    "first_token_s": prefill_s * 1.1,
                    "finished_s": ends[-1],
                    "n_rounds": max(n_tokens // 3, 1),
                    "n_drafted": n_tokens,
                    "n_accepted": int(n_tokens * 0.62),
                    "token_ids": [],
                    "logprobs": [],
                    "origins": "tdd" * (len(body) // 12 + 1),
                    "ends": list(range(4, len(body) + 4, 4)),
                    "program": task_prompt + body if run.graded else None,
                    "extraction": "completion" if run.graded else None,
                    "verdict": verdict if run.graded else None,
                    "verdict_detail": DETAILS.get(verdict) if run.graded else None,
                    "traceback": None
                    if passes or not run.graded
                    else 'Traceback (most recent call last):\n  File "candidate.py", line 12, in check\nAssertionError',
                    "failing_assert": "assert candidate([1.0, 2.0, 3.9], 0.3) == True"
                    if verdict == "wrong_answer"
                    else None,
                    "got": "False" if verdict == "wrong_answer" else None,
                    "expected": "True" if verdict == "wrong_answer" else None,
                    "cpu_s": 0.03,
                    "sandbox_wall_s": 0.05,
                    "isolation": "bwrap",
                }
            )
        wall_s = max(ends)
        draft_s, other_s = wall_s * 0.14, wall_s * 0.06
        row = {
            "prompt_sent": prompt or task_prompt,
            "prompt_version": "completion-1",
            "n_prompt_tokens": 154,
            "queue_s": queue_s,
            "prefill_s": prefill_s,
            "draft_s": draft_s,
            "verify_s": wall_s - draft_s - other_s - prefill_s,
            "other_s": other_s,
            "wall_s": wall_s,
            "sandbox_s": sandbox_s,
            "n_rounds": tokens // 3,
            "peak_memory_bytes": 3 * 2**30,
        }
        return row, samples

    def add_study(self, *arms: dict[str, Any], name: str = "Which n?", budget_s: float = 10.0) -> uuid.UUID:
        """A study of which each arm is `add_run(**arm)`; the arm is named like its run."""
        run_ids = [self.add_run(budget_s=budget_s, **arm) for arm in arms]
        with self.context.database.session() as session:
            study = Study(
                name=name,
                dataset_id=self.humaneval.id,
                budget_s=budget_s,
                seed=0,
                command="bassline study run --preset samples",
                checked_at=get_utc_time(),
                machine=describe_machine(),
                arms=[
                    StudyArm(position=position, name=arm["name"], run_id=run_id)
                    for position, (arm, run_id) in enumerate(zip(arms, run_ids, strict=True))
                ],
            )
            session.add(study)
            session.flush()
            for run in study.runs:
                run.policy = ARM
            return study.id

    def add_worker(self, name: str = "gpu-1:4242", *, seen_s_ago: float = 3.0) -> None:
        """A worker last heard of so many seconds ago."""
        with self.context.database.session() as session:
            session.add(
                Worker(
                    name=name,
                    host=name.split(":", maxsplit=1)[0],
                    pid=4242,
                    device="NVIDIA H100 80GB HBM3",
                    model="qwen2.5-coder-0.5b",
                    last_seen_at=get_utc_time() - dt.timedelta(seconds=seen_s_ago),
                )
            )


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file at the newest migration, made once and copied."""
    file = tmp_path_factory.mktemp("migrated") / "bassline.db"
    database = Database(f"sqlite:///{file}")
    upgrade(database)
    database.dispose()  # the last connection to close folds the write-ahead log into the file
    return file


@pytest.fixture(scope="session")
def with_humaneval(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Path:
    """A database file that also has HumanEval, made once and copied: each of its tasks is parsed when it is stored."""
    folder = tmp_path_factory.mktemp("humaneval")
    ctx = open_world(folder, migrated).context
    require_dataset(ctx, "humaneval")
    ctx.database.dispose()
    return folder / "bassline.db"


@pytest.fixture(scope="session")
def with_reference_studies(tmp_path_factory: pytest.TempPathFactory, with_humaneval: Path) -> Path:
    """A database file that also has the reference studies, made once and copied."""
    folder = tmp_path_factory.mktemp("reference")
    ctx = open_world(folder, with_humaneval).context
    load_reference_studies(ctx)
    ctx.database.dispose()
    return folder / "bassline.db"


def open_world(folder: Path, template: Path) -> World:
    """A service in this folder over a copy of a database."""
    shutil.copy(template, folder / "bassline.db")
    ctx = make_context(Settings(data_dir=folder, database_url=f"sqlite:///{folder}/bassline.db", _env_file=None))
    return World(ctx)


@pytest.fixture
def make_world(tmp_path: Path, with_humaneval: Path) -> Iterator[Callable[[], World]]:
    made: list[World] = []

    def make() -> World:
        made.append(open_world(tmp_path, with_humaneval))
        return made[-1]

    yield make
    for world in made:
        world.context.database.dispose()


@pytest.fixture
def world(make_world: Callable[[], World]) -> World:
    """A service with HumanEval and no run."""
    return make_world()
