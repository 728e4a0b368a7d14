"""The broker of the embedded form: the most urgent message first, and no waiting where there is one."""

from __future__ import annotations

import threading
import uuid

import pytest

from app.core.broker import queues
from app.core.broker.broker import MemoryBroker

IDS = [uuid.uuid4() for _ in range(3)]


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


def test_messages_come_in_the_order_of_the_queues_and_within_one_as_they_were_sent(broker):
    broker.send([(queues.DECODE_TASK, IDS[0]), (queues.DECODE_TASK, IDS[1])], queues.GPU_BATCH)
    broker.send([(queues.DECODE_TASK, IDS[2])], queues.GPU_INTERACTIVE)
    assert [broker.get(queues.GPU, 0)[1] for _ in IDS] == [IDS[2], IDS[0], IDS[1]]
    assert broker.get(queues.GPU, 0) is None


def test_a_queue_that_a_worker_does_not_consume_is_left_alone(broker):
    broker.send([(queues.GRADE_TASK, IDS[0])], queues.EXEC)
    assert broker.get(queues.GPU, 0) is None
    assert broker.count_messages(queues.EXEC) == 1


def test_a_mistyped_queue_is_an_error(broker):
    with pytest.raises(KeyError):
        broker.send([(queues.GRADE_TASK, IDS[0])], "exce")


def test_of_several_waiting_workers_each_message_wakes_one(broker):
    taken: list = []
    workers = [threading.Thread(target=lambda: taken.append(broker.get(queues.GPU, 20))) for _ in IDS]
    for worker in workers:
        worker.start()
    for row_id in IDS:
        broker.send([(queues.DECODE_TASK, row_id)], queues.GPU_BATCH)
    for worker in workers:
        worker.join()
    assert sorted(row_id for _, row_id in taken) == sorted(IDS)
