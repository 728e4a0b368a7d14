"""Two worker processes that declare one model each: a completion goes to the one that has its model in memory, and to
the other one when that is gone. Every message is sent twice throughout (program.py)."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.completions import service as completions
from app.completions.schemas import CompletionSpec
from app.core.broker.model_queues import DEVICE_CLASSES, ModelQueue
from app.core.states import RunState
from tests.integration.chaos.stack import GPU, Stack
from tests.integration.waiting import wait_for

pytestmark = pytest.mark.slow

A, B = "smollm2-135m", "qwen2.5-coder-0.5b"
DECLARED = {"gpu0": A, "gpu1": B}
CLIENTS = 8
GONE_S = 30.0  # leases of 3 seconds, of which two of silence, and a sweep: see TIMES in stack.py
numbers = itertools.count()


@pytest.fixture(scope="module")
def two_models(tmp_path_factory) -> Iterator[Stack]:
    found = Stack(tmp_path_factory.mktemp("models"))
    for name, model in DECLARED.items():
        found.words[name] = ("worker", "--queues", GPU, "--models", model, "--name", name)
    yield found
    found.remove()


@pytest.fixture
def stack(two_models: Stack) -> Stack:
    two_models.ensure()
    return two_models


def worker(stack: Stack, name: str) -> dict:
    """What a part reports of itself."""
    pid = stack.child(name)
    return next(each for each in stack.http("/api/v1/workers")["workers"] if each["pid"] == pid)


def prompt(script: str) -> str:
    return f"# {script} {next(numbers)}\n"


def submit(stack: Stack, model: str, text: str, device: str = "auto") -> uuid.UUID:
    spec = CompletionSpec(target=model, prompt=text, n=2, budget_s=20, device=device)
    return completions.submit(stack.ctx, spec)


def pids(stack: Stack, text: str) -> set[int]:
    """The processes that decoded a prompt."""
    return {event["pid"] for event in stack.events("generate") if event["prompt"] == text}


@pytest.mark.thorough
def test_completions_of_two_models_go_to_their_workers_and_each_loads_one_engine(stack: Stack):
    def state(model: str, text: str) -> str:
        return stack.http("/api/v1/complete", {"target": model, "prompt": text, "n": 2, "budget_s": 20})["run"]["state"]

    asked = [(model, prompt("takes 0.1")) for _ in range(8) for model in (A, B)]
    with ThreadPoolExecutor(CLIENTS) as clients:
        assert set(clients.map(state, *zip(*asked, strict=True))) == {RunState.FINISHED}
    children = {model: stack.child(name) for name, model in DECLARED.items()}
    assert {(model, pid) for model, text in asked for pid in pids(stack, text)} == set(children.items())
    loads = [(event["target"], event["pid"]) for event in stack.events("load")]
    assert sorted(loads) == sorted(children.items())


@pytest.mark.thorough
def test_a_completion_for_a_device_that_no_worker_declares_is_served_by_one_of_them(stack: Stack):
    (here,) = {each["device"] for name in DECLARED for each in worker(stack, name)["declared"]}
    (other,) = set(DEVICE_CLASSES) - {here}
    text = prompt("takes 0")
    stack.wait_for_end(submit(stack, A, text, other))
    assert pids(stack, text) <= {stack.child(name) for name in DECLARED}


@pytest.mark.thorough
def test_completions_of_a_killed_worker_are_answered_by_the_other_within_the_reapers_silence(stack: Stack):
    first_text = prompt("takes 4")
    first = submit(stack, A, first_text)
    wait_for(lambda: pids(stack, first_text))
    (of_a,) = worker(stack, "gpu0")["declared"]
    others = [prompt("takes 3") for _ in range(4)]
    beside = [submit(stack, A, text) for text in others]
    wait_for(lambda: all(pids(stack, text) for text in others))
    stack.kill("gpu0")
    after = prompt("takes 0")
    stack.wait_for_end(first, *beside, submit(stack, A, after), timeout_s=GONE_S)
    other = stack.child("gpu1")
    assert all(other in pids(stack, text) for text in (first_text, *others))
    assert pids(stack, after) == {other}
    for run_id in (first, *beside):
        assert stack.state(run_id) is RunState.FINISHED
    assert stack.ctx.broker.queue_length(ModelQueue(**of_a).name) == 0


@pytest.mark.thorough
def test_a_worker_that_was_asked_to_stop_finishes_its_task_while_the_other_serves_its_model(stack: Stack):
    first_text = prompt("takes 4")
    first = submit(stack, A, first_text)
    wait_for(lambda: pids(stack, first_text))
    stack.parts["gpu0"].terminate()
    wait_for(lambda: worker(stack, "gpu0")["stopped_at"])
    after = prompt("takes 0")
    stack.wait_for_end(submit(stack, A, after), timeout_s=GONE_S)
    assert stack.state(first) is RunState.RUNNING
    assert pids(stack, after) == {stack.child("gpu1")}
    stack.wait_for_end(first)
    assert len(pids(stack, first_text)) == 1
    assert stack.parts["gpu0"].wait(30) == 0


@pytest.mark.thorough
def test_a_redis_that_forgets_every_message_delays_completions_and_moves_none(stack: Stack):
    first_text, waiting = prompt("takes 1"), [prompt("takes 0") for _ in range(3)]
    first = submit(stack, A, first_text)
    wait_for(lambda: pids(stack, first_text))
    behind = [submit(stack, A, text) for text in waiting]
    stack.redis.kill()
    stack.redis.start()
    stack.wait_for_end(first, *behind, timeout_s=60)
    assert {pid for text in waiting for pid in pids(stack, text)} == {stack.child("gpu0")}
