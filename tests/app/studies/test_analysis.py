"""A run as the statistics of a study see it: what is computed from its rows, and what is left open."""

from __future__ import annotations

import pytest

from app.runs.models import Calibration, Run
from app.studies.analysis import build_arm


@pytest.fixture
def run_id(world):
    """A run of 4 tasks: each took 10 s, and 90 tokens went through the target beside the 10 of its prompt."""
    run_id = world.add_run("one", limit=4, lost=None, verifies=())
    with world.context.database.session() as session:
        run = session.get_one(Run, run_id)
        run.provenance = {**run.provenance, "target_parameters": 500_000_000}
        for task in run.tasks:
            task.wall_s, task.n_verified, task.n_prompt_tokens = 10.0, 90, 10
        run.calibrations = [
            Calibration(worker="w", verify_s=0.1, read_bytes_per_s=1e10, flops_per_s=rate)
            for rate in (1e11, 5e10, 2e11)
        ]
    return run_id


def arm(world, run_id):
    with world.context.database.read() as session:
        return build_arm(session, "one", session.get_one(Run, run_id))


def test_utilization_is_the_targets_arithmetic_over_what_the_device_can_do(world, run_id):
    assert arm(world, run_id).cost_s == 10.0
    assert arm(world, run_id).utilization == pytest.approx(2 * 5e8 * 400 / (40.0 * 1e11))


@pytest.mark.parametrize("missing", ["parameters", "tokens", "rate"])
def test_utilization_is_left_open_where_a_part_of_it_was_not_recorded(world, run_id, missing):
    with world.context.database.session() as session:
        run = session.get_one(Run, run_id)
        if missing == "parameters":
            run.provenance = {}
        elif missing == "tokens":
            run.tasks[0].n_verified = None
        else:
            run.calibrations = []
    assert arm(world, run_id).utilization is None
