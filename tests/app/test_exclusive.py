"""One job has the machine to itself: the worker of this process does it between two messages."""

from __future__ import annotations

import threading

import pytest

from app.broker.exclusive import ExclusiveJobs
from app.errors import ConflictError
from app.jobs.embedded import Embedded
from tests.integration.waiting import wait_for


def test_the_worker_does_it_and_then_takes_the_next(ctx):
    begun, go = threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        go.wait(30)

    with Embedded(ctx, "test"):
        ctx.exclusive.submit("a test", job)
        assert begun.wait(30)
        with pytest.raises(ConflictError, match="a test has this machine to itself"):
            ctx.exclusive.submit("another", job)
        assert not ctx.exclusive.withdraw()
        go.set()
        wait_for(lambda: not ctx.exclusive.what)
        ctx.exclusive.submit("another", job)
        wait_for(lambda: not ctx.exclusive.what)


def test_one_that_fails_leaves_the_worker_working(ctx):
    done = threading.Event()
    with Embedded(ctx, "test"):
        ctx.exclusive.submit("a test", lambda: 1 / 0)
        wait_for(lambda: not ctx.exclusive.what)
        ctx.exclusive.submit("another", done.set)
        assert done.wait(30)


def test_one_that_the_worker_has_not_begun_can_be_withdrawn():
    jobs, done = ExclusiveJobs(), threading.Event()
    jobs.submit("a test", done.set)
    assert jobs.withdraw()
    jobs.work()
    assert not done.is_set()
    jobs.submit("another", done.set)
    jobs.work()
    assert done.is_set()
