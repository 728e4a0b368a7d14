"""What a unit of work does after COMMIT: all of it, and stored data is never reported as failed."""

from __future__ import annotations

import pytest

from app.core.db.database import call_after_commit


def fail() -> None:
    raise RuntimeError("the broker is away")


def test_an_action_that_raises_keeps_no_other_from_happening(ctx):
    done = []
    with ctx.database.session() as session:
        call_after_commit(session, done.append, 1)
        call_after_commit(session, fail)
        call_after_commit(session, done.append, 2)
    assert done == [1, 2]


def test_after_a_rollback_nothing_happens(ctx):
    done = []

    def work() -> None:
        with ctx.database.session() as session:
            call_after_commit(session, done.append, 1)
            fail()

    with pytest.raises(RuntimeError):
        work()
    assert done == []
