"""Names of the queues of models: one for each model and class of device, and none that Celery or Redis misreads."""

from __future__ import annotations

import re

import pytest
from celery.exceptions import QueueNotFound
from hypothesis import given
from hypothesis import strategies as st

from app.core.broker import queues
from app.core.broker.celery_app import add_queue, celery_app
from app.core.broker.model_queues import DEVICE_CLASSES, ModelQueue, parse_all
from decoding.config import DEVICES

model_queues = st.builds(ModelQueue, st.sampled_from(DEVICE_CLASSES), st.text(min_size=1))


@given(model_queues)
def test_a_name_says_which_queue_it_is_so_no_two_queues_share_one(queue):
    assert ModelQueue.parse(queue.name) == queue


@given(model_queues)
def test_a_name_is_one_word_of_a_list_and_no_other_queue(queue):
    assert re.fullmatch(r"[A-Za-z0-9_.~%-]+", queue.name)
    assert queue.name not in queues.ALL


@given(st.text())
def test_a_text_is_the_name_of_a_queue_only_if_that_queue_has_this_name(text):
    queue = ModelQueue.parse(text)
    assert queue is None or queue.name == text


def test_names_of_usual_models_can_be_read():
    assert ModelQueue("cpu", "smollm2-135m").name == "gpu.interactive.cpu.smollm2-135m"
    assert ModelQueue("cuda", "hf:owner/name@v1").name == "gpu.interactive.cuda.hf%3Aowner%2Fname%40v1"


@pytest.mark.parametrize("name", [*queues.ALL, "gpu.interactive.", "gpu.interactive.tpu.x", "gpu.interactive.cpu.a/b"])
def test_other_names_are_no_queues_of_models(name):
    assert ModelQueue.parse(name) is None
    assert parse_all([name]) == []


def test_every_class_of_device_that_a_run_may_ask_for_has_queues():
    assert {*DEVICE_CLASSES, "auto"} == set(DEVICES)


def test_celery_sends_to_the_queue_of_a_model_and_refuses_a_mistyped_one():
    queue = ModelQueue("cpu", "hf:owner/name").name
    for name in (queue, "gpu.interactive.cup.smollm2-135m"):
        add_queue(name)
    assert celery_app.amqp.router.route({"queue": queue}, "runs.decode")["queue"].routing_key == queue
    with pytest.raises(QueueNotFound):
        celery_app.amqp.router.route({"queue": "gpu.interactive.cup.smollm2-135m"}, "runs.decode")
