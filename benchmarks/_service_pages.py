"""Response times of the pages over a full database, and their numbers of queries."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from flask.testing import FlaskClient
from sqlalchemy import Engine, event, select

from app.core.context import Context
from app.datasets.models import Task
from app.runs.models import Run
from app.site.factory import create_server_app

WARM_UP = 5


@dataclass(frozen=True)
class Page:
    """A page or list: its address, chosen at random for each request, and the target of its 95th percentile in ms."""

    name: str
    address: Callable[[random.Random], str]
    target_ms: float | None = None


def measure(ctx: Context, requests: int) -> Iterator[tuple[Page, list[float], int, int]]:
    """Yield each page with the milliseconds of its requests, the bytes of the last response and its queries."""
    client = create_server_app(ctx).test_client()
    for page in _list_pages(ctx):
        rng = random.Random(page.name)
        with _record_queries(ctx.database.engine) as queries:
            for _ in range(WARM_UP):
                _get(client, page.address(rng))
        times, size = [], 0
        for _ in range(requests):
            address = page.address(rng)
            began = time.perf_counter()
            size = _get(client, address)
            times.append(1000 * (time.perf_counter() - began))
        yield page, times, size, len(queries)


def compute_percentiles(times: Sequence[float]) -> tuple[float, float]:
    """The median and the 95th percentile."""
    middle, high = np.percentile(times, (50, 95))
    return float(middle), float(high)


def _list_pages(ctx: Context) -> list[Page]:
    with ctx.database.read() as session:
        runs = session.execute(select(Run.id, Run.dataset_id).order_by(Run.id)).all()
        tasks = session.execute(select(Task.dataset_id, Task.task_id)).all()
    dataset_ids = dict(runs)
    task_ids_by_dataset: dict[uuid.UUID | None, list[str]] = {}
    for dataset_id, task_id in tasks:
        task_ids_by_dataset.setdefault(dataset_id, []).append(task_id)
    ids = list(dataset_ids)
    runs_by_dataset: dict[uuid.UUID | None, list[uuid.UUID]] = {}
    for run_id, dataset_id in dataset_ids.items():
        runs_by_dataset.setdefault(dataset_id, []).append(run_id)

    def choose_run(rng: random.Random) -> uuid.UUID:
        return rng.choice(ids)

    def choose_budget(rng: random.Random) -> str:
        return f"{10 ** rng.uniform(-0.5, 1.5):.3g}"

    def choose_task(rng: random.Random) -> str:
        chosen = choose_run(rng)
        return f"/runs/{chosen}/tasks/{rng.choice(task_ids_by_dataset[dataset_ids[chosen]])}"

    def choose_runs(rng: random.Random, most: int = 12) -> str:
        dataset = rng.choice([one for one in task_ids_by_dataset if len(runs_by_dataset.get(one, ())) > 1])
        return ",".join(map(str, rng.sample(runs_by_dataset[dataset], min(most, len(runs_by_dataset[dataset])))))

    def choose_overlay_task(rng: random.Random) -> str:
        chosen = choose_runs(rng)
        task_id = rng.choice(task_ids_by_dataset[dataset_ids[uuid.UUID(chosen[:36])]])
        return f"/overlay/{chosen}/task?id={task_id}"

    tabs = ("tasks", "failures", "timing", "config")
    return [
        Page("first_page", lambda _: "/", 50),
        Page("first_page_budget", lambda r: f"/?budget={choose_budget(r)}", 50),
        Page("leaderboard", lambda _: "/leaderboard", 50),
        Page("leaderboard_sorted", lambda r: f"/leaderboard?sort=speed&budget={choose_budget(r)}", 50),
        Page("leaderboard_dataset", lambda r: f"/leaderboard?dataset=humaneval&budget={choose_budget(r)}", 50),
        Page("run_list", lambda _: "/runs", 50),
        Page("run_list_deep", lambda r: f"/runs?before={choose_run(r)}", 50),
        Page("run_list_filtered", lambda r: f"/runs?state=finished&dataset=interviews&before={choose_run(r)}", 50),
        Page("run_curve", lambda r: f"/runs/{choose_run(r)}", 100),
        *(Page(f"run_{tab}", lambda r, tab=tab: f"/runs/{choose_run(r)}?tab={tab}", 100) for tab in tabs),  # type: ignore[misc]
        Page("task", choose_task),
        Page("overlay_pair", lambda r: f"/overlay/{choose_runs(r, 2)}"),
        Page("overlay", lambda r: f"/overlay/{choose_runs(r)}", 150),
        Page("overlay_both", lambda r: f"/overlay/{choose_runs(r)}?figure=both", 150),
        Page("overlay_matrix", lambda r: f"/overlay/{choose_runs(r)}/matrix", 200),
        Page("overlay_task", choose_overlay_task, 200),
        Page("api_leaderboard", lambda r: f"/api/v1/leaderboard?budget={choose_budget(r)}"),
        Page("api_runs", lambda r: f"/api/v1/runs?cursor={choose_run(r)}"),
        Page("api_run", lambda r: f"/api/v1/runs/{choose_run(r)}"),
        Page("api_samples", lambda r: f"/api/v1/runs/{choose_run(r)}/samples?cursor={r.randrange(160)}.7"),
    ]


def _get(client: FlaskClient, address: str) -> int:
    answer = client.get(address)
    if answer.status_code != 200:
        raise RuntimeError(f"{address} answered {answer.status}: {answer.get_data(as_text=True)[:500]}")
    return len(answer.get_data())


@contextmanager
def _record_queries(engine: Engine) -> Iterator[set[str]]:
    """The distinct SELECTs sent inside the block."""
    queries: set[str] = set()

    def note(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        if statement.startswith("SELECT"):
            queries.add(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield queries
    finally:
        event.remove(engine, "before_cursor_execute", note)
