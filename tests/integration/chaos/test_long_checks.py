"""A check of a dataset's solutions that is longer than Celery lets a worker work."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.core.broker import queues
from app.core.states import RunState
from app.runs import service
from app.runs.schemas import RunSpec
from tests.integration.chaos.stack import Stack
from tests.integration.waiting import wait_for

pytestmark = pytest.mark.slow
N_SLOW = 24


@pytest.mark.thorough
def test_two_celery_workers_share_a_check_that_outlasts_the_hard_limit(tmp_path: Path):
    """Each solution takes half a second, and Celery kills a worker after 2 s or, on a busy machine, a little later."""
    stack = Stack(tmp_path)
    try:
        stack.environment |= {"BASSLINE_TEST_HARD_LIMIT_S": "2", "BASSLINE_TEST_SOLUTION_S": "0.5"}
        words = ("worker", "--queues", ",".join(queues.SANDBOX), "--name")
        for name in ("exec0", "exec1"):
            stack.start(name, module="tests.integration.chaos.slow_checks", words=(*words, name))
        stack.start("beat")
        wait_for(lambda: stack.child("exec0") and stack.child("exec1"), 90)
        name = stack.additions(*("" for _ in range(N_SLOW)))
        run_ids = [service.submit(stack.ctx, RunSpec(target="smollm2-135m", dataset=name, n=2)) for _ in range(2)]
        wait_for(lambda: all(stack.state(run_id) is RunState.RUNNING for run_id in run_ids), 120)
        judged = [event["task"] for event in stack.events("check")]
        assert set(judged) == {f"{name}/{i}" for i in range(N_SLOW)}
        starts = len(stack.events("start"))
        assert starts > 1  # the limit was shorter than the check
        assert len(judged) <= N_SLOW + 4 * starts  # a killed worker loses a step of 0.5 s and what it judged just then
    finally:
        stack.remove()
