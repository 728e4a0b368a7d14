"""The cost of the job core: embedded workers process a run whose engine and sandbox take no time."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

import app.domains  # noqa: F401 (registers the policies)
from app.core.context import Context
from app.core.db import migrate
from app.core.db.database import Database
from app.core.events.bus import MemoryBus
from app.core.ports import SandboxGrader
from app.core.remote.engine import RemoteEngine
from app.core.remote.target import RemoteTarget
from app.core.settings import Settings
from app.core.states import OPEN_RUN_STATES, RunState
from app.jobs.embedded import EmbeddedWorkers
from app.runs import service
from app.runs.models import Run
from app.runs.schemas import RunSpec
from decoding.request import Completion, Request, RequestError, Sample
from evaluation.verdicts import Status, Trust, Verdict

if TYPE_CHECKING:
    from app.core.ports import OnProgress
    from decoding.config import EngineConfig
    from evaluation.datasets import Task

N_TOKENS = 100
TARGET = "smollm2-135m"  # named, never loaded


class _Engine(RemoteEngine):
    """Returns n samples of N_TOKENS tokens at once."""

    def __init__(self) -> None:
        super().__init__(RemoteTarget("none", ""))

    def get_provenance(self) -> dict[str, str | int | float | None]:
        return {"device": "none"}

    def generate(self, request: Request, on_update: Any = None, should_cancel: Any = None) -> Completion:
        samples = [
            Sample(
                index=index,
                seed=request.seed,
                text=f"    return {index}  # " + "x" * 3 * N_TOKENS,
                token_ids=list(range(N_TOKENS)),
                logprobs=[-0.125] * N_TOKENS,
                origins=["draft"] * N_TOKENS,
                ends=list(range(0, 3 * N_TOKENS, 3)),
                finish_reason="stop",
                first_token_s=0.01,
                finished_s=0.1 * (index + 1),
                n_rounds=N_TOKENS // 4,
                n_drafted=N_TOKENS,
                n_accepted=N_TOKENS // 2,
            )
            for index in range(request.n)
        ]
        return Completion(samples, len(request.prompt) // 4, [], 0.01, 0.1 * request.n)

    def generate_many(
        self, requests: Iterable[Request], on_update: Any = None, should_cancel: Any = None
    ) -> Iterator[tuple[int, Completion | RequestError]]:
        for position, request in enumerate(requests):
            yield position, self.generate(request)


class _Grader(SandboxGrader):
    """Passes everything at once."""

    def __init__(self) -> None:
        pass  # it has no sandbox

    @property
    def sandbox(self) -> str:
        return "none"

    def judge_many(self, items: Sequence[tuple[str, Task]], workers: int) -> Iterator[tuple[int, Verdict]]:
        for position in range(len(items)):
            yield position, Verdict(Status.PASSED, "", "", None, None, None, 0.0, 0.0, 1, "none", Trust.PROXY)


def _load(_config: EngineConfig, _on_progress: OnProgress | None = None) -> _Engine:
    return _Engine()


def measure_ms_per_task(database_url: str, folder: Path, tasks: int, rounds: int) -> list[float]:
    """Milliseconds per task from submit to the finished run, for each of `rounds` runs, which are deleted afterwards.

    The time includes queues, leases, claims, stored samples and verdicts, figures and curve. A first, short run, which
    does not count, loads the engine and checks the dataset.
    """
    settings = Settings(_env_file=None, data_dir=folder, database_url=database_url)
    ctx = Context(
        settings, Database(settings.effective_database_url), MemoryBus(), load_engine=_load, make_grader=_Grader
    )
    migrate.upgrade(ctx.database)
    times = []
    try:
        with EmbeddedWorkers(ctx, "bench service"):
            for limit in (2, *[tasks] * rounds):
                began = time.perf_counter()
                run_id = service.submit(ctx, RunSpec(target=TARGET, limit=limit))
                _wait(ctx, run_id)
                times.append(1000 * (time.perf_counter() - began) / limit)
                service.delete(ctx, run_id)
    finally:
        ctx.database.dispose()
    return times[1:]


def _wait(ctx: Context, run_id: uuid.UUID) -> None:
    state = RunState.QUEUED
    while state in OPEN_RUN_STATES:
        time.sleep(0.05)
        with ctx.database.read() as session:
            state = session.scalars(select(Run.state).where(Run.id == run_id)).one()
    if state is not RunState.FINISHED:
        raise RuntimeError(f"the run of the job core ended as {state}")
