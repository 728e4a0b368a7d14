"""The order in which a completion shows its samples."""

from __future__ import annotations

from app.completions import lanes
from app.core.states import RunKind


def test_the_lanes_of_a_completion_stand_in_the_order_of_their_ranks(world):
    run_id = world.add_run("completion", kind=RunKind.COMPLETION, limit=1, n=12, pace=5.0)
    with world.context.database.read() as session:
        found = lanes.load_completion_view(session, run_id).lanes
        ranks = [lane.rank for lane in found]
    finished = [rank for rank in ranks if rank is not None]
    assert finished == list(range(1, len(finished) + 1))
    assert 1 < len(finished) < len(ranks), "some finish and some do not"
    assert ranks[: len(finished)] == finished
