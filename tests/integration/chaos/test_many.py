"""Many clients at once."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.runs.repository import get_run
from tests.integration.chaos.stack import N, Stack

CLIENTS, RUNS = 20, 10


@pytest.mark.slow
def test_200_runs_submitted_at_once_by_20_clients_all_end_and_none_is_mixed_up(stack: Stack):
    def client(number: int) -> list[tuple[str, str, int]]:
        name = stack.additions("takes 0")
        found = []
        for k in range(RUNS):
            body = {"target": "smollm2-135m", "dataset": name, "n": N, "seed": 100 * number + k}
            found.append((stack.http("/api/v1/runs", body)["run"]["id"], name, body["seed"]))
        return found

    with ThreadPoolExecutor(CLIENTS) as clients:
        submitted = [run for runs in clients.map(client, range(CLIENTS)) for run in runs]
    assert len({run_id for run_id, _, _ in submitted}) == CLIENTS * RUNS
    stack.wait_for_end(*(uuid.UUID(run_id) for run_id, _, _ in submitted), timeout_s=120)
    for run_id, name, seed in submitted:
        stack.assert_whole(uuid.UUID(run_id))
        with stack.ctx.database.read() as session:
            run = get_run(session, uuid.UUID(run_id))
            assert (run.dataset.name, run.seed) == (name, seed)
