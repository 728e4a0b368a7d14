"""Event streams: resumed where the client was, alive while nothing happens, few enough, and holding no database."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading

import pytest
from flask import Response

from app.accounts.service import create_token
from app.completions import waiting
from app.core.context import CallerPool
from app.core.errors import BusyError
from app.core.events.bus import BEFORE_FIRST, MemoryBus
from app.core.states import RunState, Scope
from app.runs import event_stream, service
from app.site.factory import create_app


@pytest.fixture
def client(ctx):
    return create_app(ctx).test_client()


@pytest.fixture
def run_id(ctx, spec):
    return service.submit(ctx, spec())


def frames(text: str) -> list[dict]:
    """The events in a stream's text."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith((":", "retry")))
        if fields:
            found.append({**fields, "data": json.loads(fields["data"])})
    return found


def test_a_client_that_comes_back_gets_what_it_missed_and_nothing_twice(client, ctx, run_id):
    for i in range(4):
        ctx.bus.publish(run_id, "sample", {"index": i})
    service.cancel(ctx, run_id)
    url = f"/api/v1/runs/{run_id}/events"
    whole = frames(client.get(url).text)
    assert [e["data"]["index"] for e in whole[:4]] == [0, 1, 2, 3]
    assert whole[-1]["data"] == {"state": RunState.CANCELLED, "error": None}
    rest = frames(client.get(url, headers={"Last-Event-ID": whole[1]["id"]}).text)
    assert rest == whole[2:]


def test_an_id_from_before_a_restart_does_not_hide_what_comes_after_it(run_id):
    before, after = MemoryBus(), MemoryBus()
    before.publish(run_id, "sample", {})
    (seen,) = before.read(run_id, BEFORE_FIRST, 0)
    after.publish(run_id, "state", {"state": RunState.RUNNING})
    assert [e.type for e in after.read(run_id, seen.id, 0)] == ["state"]


def test_a_last_event_id_that_is_none_is_refused(client, run_id):
    for other in ("9" * 5000 + "-0", "0-" + "9" * 30):
        assert client.get(f"/api/v1/runs/{run_id}/events", headers={"Last-Event-ID": other}).status_code == 422
    refused = client.get(f"/api/v1/runs/{run_id}/events", headers={"Last-Event-ID": "yesterday"})
    assert refused.status_code == 422
    assert "Last-Event-ID" in refused.json["detail"]


def test_while_nothing_happens_the_stream_says_so(ctx, run_id, monkeypatch):
    monkeypatch.setattr(event_stream, "BEAT_S", 0.01)
    stream = iter(event_stream.stream_events(ctx, run_id, None, "me").response)
    assert next(stream).startswith("retry:")
    assert next(stream) == next(stream) == ": nothing new\n\n"


def test_a_stream_ends_by_itself_so_that_the_client_comes_back(ctx, run_id, monkeypatch):
    monkeypatch.setattr(event_stream, "BEAT_S", 0.01)
    monkeypatch.setattr(event_stream, "LONGEST_S", 0.05)
    assert list(event_stream.stream_events(ctx, run_id, None, "me").response)[-1] == ": nothing new\n\n"


def open_views(ctx, run_id, caller) -> list[Response]:
    """As many live views as the caller may open."""
    found = []
    with contextlib.suppress(BusyError):
        while True:
            found.append(event_stream.stream_events(ctx, run_id, None, caller))
    return found


def test_views_are_capped_so_that_pages_stay_reachable_and_a_closed_one_makes_room(client, ctx, run_id):
    open_streams = [one for caller in "abcdef" for one in open_views(ctx, run_id, caller)]
    assert len(open_streams) == ctx.settings.max_views
    url = f"/api/v1/runs/{run_id}/events"
    refused = client.get(url)
    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) > 0
    assert client.get("/api/v1/health/live").status_code == 200
    open_streams[0].close()
    service.cancel(ctx, run_id)
    assert client.get(url).status_code == 200


def test_one_reader_takes_neither_all_places_of_views_nor_any_of_completions(ctx, run_id):
    guarded = dataclasses.replace(ctx, settings=ctx.settings.model_copy(update={"require_tokens": True}))
    client = create_app(guarded).test_client()
    greedy, other = ({"Authorization": f"Bearer {create_token(ctx, name, Scope.SUBMIT)}"} for name in "ab")
    url = f"/api/v1/runs/{run_id}/events"
    answers = [client.get(url, headers=greedy) for _ in range(80)]
    assert {answer.status_code for answer in answers} == {200, 503}
    assert client.get(url, headers=other).status_code == 200
    with contextlib.ExitStack() as slots:
        for _ in range(ctx.settings.max_streams):
            slots.enter_context(waiting.acquire_slot(guarded))
    for answer in answers:
        answer.close()
    assert client.get(url, headers=greedy).status_code == 200


@pytest.mark.parametrize("size", [1, 2, 3, 24])
def test_no_caller_has_more_than_a_third_and_none_has_nothing(size):
    pool = CallerPool(size)
    mine = sum(pool.acquire("me") for _ in range(size + 1))
    assert mine == max(size // 3, 1)
    others = sum(pool.acquire(str(i)) for i in range(size))
    assert mine + others == size
    pool.release("me")
    assert pool.acquire("me")


def test_a_stream_holds_no_database_connection(ctx, run_id, monkeypatch):
    monkeypatch.setattr(event_stream, "BEAT_S", 0.01)
    stream = iter(event_stream.stream_events(ctx, run_id, None, "me").response)
    for _ in range(3):
        next(stream)
        assert ctx.database.engine.pool.checkedout() == 0


def test_the_end_of_a_run_is_told_even_if_the_stream_lost_it(ctx, run_id):
    service.cancel(ctx, run_id)
    ctx.bus = MemoryBus()
    (last,) = event_stream.follow_events(ctx, run_id, beat_s=0.01)
    assert (last.type, last.data) == ("state", {"state": RunState.CANCELLED, "error": None})


def test_readers_and_writers_do_not_disturb_each_other(run_id):
    bus, seen = MemoryBus(), []

    def follow():
        after = BEFORE_FIRST
        while len(seen) < 200:
            for event in bus.read(run_id, after, 1):
                seen.append(event.data["index"])
                after = event.id

    reader = threading.Thread(target=follow)
    reader.start()
    for i in range(200):
        bus.publish(run_id, "sample", {"index": i})
    reader.join(20)
    assert seen == list(range(200))
