"""Someone waits for a completion, nobody for a batch; and a worker loads its model once."""

from __future__ import annotations

from app.complete import service as complete
from app.complete.schemas import CompleteSpec
from tests.integration.chaos.stack import Stack
from tests.integration.waiting import wait_for


def test_a_completion_goes_before_the_batch_that_waits_and_no_worker_loads_twice(stack: Stack):
    batch = stack.submit(*["takes 0.3"] * 12)
    wait_for(lambda: stack.decoded(batch) >= 1)
    run_id = complete.submit(stack.ctx, CompleteSpec(target="smollm2-135m", prompt="# takes 0 now\n", n=2))
    stack.wait_for_end(run_id)
    assert stack.decoded(batch) < 10
    stack.wait_for_end(batch)
    stack.assert_whole(batch)
    pids = [event["pid"] for event in stack.events("load")]
    assert len(pids) == len(set(pids))
