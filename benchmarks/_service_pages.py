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
    datasets = dict(runs)
    task_ids: dict[uuid.UUID | None, list[str]] = {}
    for dataset_id, task_id in tasks:
        task_ids.setdefault(dataset_id, []).append(task_id)
    ids = list(datasets)
    over: dict[uuid.UUID | None, list[uuid.UUID]] = {}
    for run_id, dataset_id in datasets.items():
        over.setdefault(dataset_id, []).append(run_id)

    def run(rng: random.Random) -> uuid.UUID:
        return rng.choice(ids)

    def budget(rng: random.Random) -> str:
        return f"{10 ** rng.uniform(-0.5, 1.5):.3g}"

    def task(rng: random.Random) -> str:
        chosen = run(rng)
        return f"/runs/{chosen}/tasks/{rng.choice(task_ids[datasets[chosen]])}"

    def many(rng: random.Random, most: int = 12) -> str:
        dataset = rng.choice([one for one in task_ids if len(over.get(one, ())) > 1])
        return ",".join(map(str, rng.sample(over[dataset], min(most, len(over[dataset])))))

    def task_of_many(rng: random.Random) -> str:
        chosen = many(rng)
        task_id = rng.choice(task_ids[datasets[uuid.UUID(chosen[:36])]])
        return f"/overlay/{chosen}/task?id={task_id}"

    tabs = ("tasks", "failures", "timing", "config")
    return [
        Page("first_page", lambda _: "/", 50),
        Page("first_page_budget", lambda r: f"/?budget={budget(r)}", 50),
        Page("leaderboard", lambda _: "/leaderboard", 50),
        Page("leaderboard_sorted", lambda r: f"/leaderboard?sort=speed&budget={budget(r)}", 50),
        Page("leaderboard_dataset", lambda r: f"/leaderboard?dataset=humaneval&budget={budget(r)}", 50),
        Page("leaderboard_csv", lambda r: f"/leaderboard.csv?budget={budget(r)}"),
        Page("run_list", lambda _: "/runs", 50),
        Page("run_list_deep", lambda r: f"/runs?before={run(r)}", 50),
        Page("run_list_filtered", lambda r: f"/runs?state=finished&dataset=interviews&before={run(r)}", 50),
        Page("run_curve", lambda r: f"/runs/{run(r)}", 100),
        *(Page(f"run_{tab}", lambda r, tab=tab: f"/runs/{run(r)}?tab={tab}", 100) for tab in tabs),  # type: ignore[misc]
        Page("task", task),
        Page("overlay_pair", lambda r: f"/overlay/{many(r, 2)}"),
        Page("overlay", lambda r: f"/overlay/{many(r)}", 150),
        Page("overlay_both", lambda r: f"/overlay/{many(r)}?figure=both", 150),
        Page("overlay_groups", lambda r: f"/overlay/{many(r)}?group=drafter", 150),
        Page("overlay_matrix", lambda r: f"/overlay/{many(r)}/matrix", 200),
        Page("overlay_task", task_of_many, 200),
        Page("api_leaderboard", lambda r: f"/api/v1/leaderboard?budget={budget(r)}"),
        Page("api_runs", lambda r: f"/api/v1/runs?cursor={run(r)}"),
        Page("api_run", lambda r: f"/api/v1/runs/{run(r)}"),
        Page("api_samples", lambda r: f"/api/v1/runs/{run(r)}/samples?cursor={r.randrange(160)}.7"),
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
