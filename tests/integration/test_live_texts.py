"""Live texts of a completion: events carry what was added, and a reader that comes at any time gets whole texts."""

from __future__ import annotations

import json
import random
import types
import uuid

import pytest
import redis

from app.completions.schemas import CompletionSpec
from app.completions.service import submit
from app.core.events import bus as buses
from app.core.events import event_types
from app.core.events.bus import BEFORE_FIRST, MemoryBus, RedisBus
from app.core.events.texts import TextAssembler
from app.core.states import RunState
from app.jobs.work import live_updates
from app.runs import transitions
from app.runs.event_stream import follow_events
from app.samples.origins import cut_pieces
from app.site.factory import create_app
from decoding.request import Update

RUN = uuid.UUID(int=1)
WORDS = ["    re", "turn", "(x, ", "é", "\n  ", "", "😀"]


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(live_updates, "time", clock)
    return clock


class Completion:
    """Decodes random samples round by round into live updates; knows what a reader should see."""

    def __init__(self, bus, clock: Clock, n: int, seed: int = 0, *, with_ends: bool = True, run_id=RUN) -> None:
        context, run = types.SimpleNamespace(bus=bus), types.SimpleNamespace(id=run_id)
        task = types.SimpleNamespace(task_id="prompt")
        self.live = live_updates.LiveUpdates(context, run, task, texts=True)
        self.clock, self.n, self.with_ends = clock, n, with_ends
        self.random = random.Random(seed)
        self.texts, self.ends, self.origins = ([""] * n, [[] for _ in range(n)], [""] * n)
        self.ended: set[int] = set()

    def round(self, seconds: float, tokens: int = 3) -> None:
        self.clock.now += seconds
        self.live([self._grow(i, tokens) for i in range(self.n) if i not in self.ended])

    def end(self, index: int, cut: int = 0) -> None:
        """Ends a sample, whose last `cut` characters were the beginning of a stop string."""
        self.clock.now += 0.001
        self.ended.add(index)
        self.texts[index] = self.texts[index][: len(self.texts[index]) - cut]
        self.live([self._update(index, [], [], "stop")])

    def whole(self, index: int) -> tuple[str, list]:
        ends = self.ends[index] if self.with_ends else []
        return self.texts[index], [list(piece) for piece in cut_pieces(self.texts[index], ends, self.origins[index])]

    def _grow(self, index: int, tokens: int) -> Update:
        ends, origins = [], []
        for _ in range(tokens):
            self.texts[index] += self.random.choice(WORDS)
            held_back = self.random.choice([0, 0, 2])  # the beginning of a stop string, perhaps
            ends.append(max(len(self.texts[index]) - held_back, 0))
            origins.append(self.random.choice(["draft", "draft", "target"]))
        self.ends[index] += ends
        self.origins[index] += live_updates.encode_origins(origins)
        return self._update(index, ends, origins, None)

    def _update(self, index, ends, origins, reason) -> Update:
        origins, ends = (origins, ends) if self.with_ends else ((), ())
        elapsed_s = self.clock.now - 1000
        return Update(index, self.texts[index], len(self.ends[index]), tuple(origins), -0.3, elapsed_s, reason, ends)


def read_texts(bus, after: str = BEFORE_FIRST) -> dict[int, dict]:
    """The newest whole text of each sample, for a reader that comes now."""
    texts, newest = TextAssembler(), {}
    for event in bus.read(RUN, after, 0):
        whole = texts.expand(event)
        newest |= {sample["index"]: sample for sample in (whole.data["samples"] if whole else ())}
    return newest


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("with_ends", [True, False])
def test_deltas_put_together_are_the_texts_and_their_origins(clock, seed, with_ends):
    bus = MemoryBus()
    completion = Completion(bus, clock, 3, seed, with_ends=with_ends)
    for i in range(60):
        completion.round(2.0, tokens=i % 4)
    completion.end(0)
    completion.end(1, cut=3)
    completion.end(2, cut=len(completion.texts[2]))
    found = read_texts(bus)
    for index in range(3):
        text, cut = completion.whole(index)
        assert found[index]["text"] == text
        assert "".join(part for _, part in found[index]["pieces"]) == text
        assert found[index]["pieces"] == cut
        assert found[index]["origins"] == (completion.origins[index] if with_ends else "")
        assert found[index]["finish_reason"] == "stop"


def test_a_sample_decoded_again_by_another_worker_replaces_the_text(clock):
    bus = MemoryBus()
    for seed in (1, 2):
        completion = Completion(bus, clock, 2, seed)
        for _ in range(5):
            completion.round(2.0)
    for index, sample in read_texts(bus).items():
        assert (sample["text"], sample["pieces"]) == completion.whole(index)


def test_a_reader_finds_whole_texts_although_the_beginning_of_the_stream_is_lost(clock, monkeypatch):
    monkeypatch.setattr(buses, "MAX_EVENTS", 12)
    monkeypatch.setattr(live_updates, "WHOLE_TEXT_EVERY", 5)
    bus = MemoryBus()
    completion = Completion(bus, clock, 2)
    for i in range(53):
        if i == 20:
            completion.end(1)
        completion.round(2.0)
    for index, sample in read_texts(bus).items():
        assert (sample["text"], sample["pieces"]) == completion.whole(index)
    assert len(read_texts(bus)) == 2


@pytest.fixture(params=["memory", "redis"])
def bus(request):
    return MemoryBus() if request.param == "memory" else RedisBus(request.getfixturevalue("redis_url"))


def test_only_a_reader_that_waits_counts_as_listening(bus):
    run_id = uuid.uuid4()
    assert not bus.publish(run_id, "sample", {})
    bus.read(run_id, BEFORE_FIRST, 0)
    assert not bus.publish(run_id, "sample", {})
    bus.read(run_id, BEFORE_FIRST, 0.01)
    assert bus.publish(run_id, "sample", {})
    assert not bus.publish(uuid.uuid4(), "sample", {})


@pytest.mark.parametrize("heard", [False, True])
def test_the_events_of_a_completion_are_about_as_long_as_its_texts(clock, bus, heard):
    run_id = uuid.uuid4()
    completion = Completion(bus, clock, 16, run_id=run_id)
    for i in range(680):
        if heard and i % 50 == 0:
            bus.read(run_id, "9" * 15 + "-0", 0.001)
        completion.round(30 / 680)
    stored = sum(len(json.dumps(event.data)) for event in bus.read(run_id, BEFORE_FIRST, 0))
    n_characters = sum(map(len, completion.texts))
    assert n_characters > 60_000
    assert stored < (20 if heard else 8) * n_characters


def test_events_expire_soon_after_the_end_of_a_run(request):
    url = request.getfixturevalue("redis_url")
    bus, server, run_id = RedisBus(url), redis.Redis.from_url(url), uuid.uuid4()
    bus.publish(run_id, event_types.STATE, {"state": RunState.RUNNING, "error": None})
    assert 600 < server.ttl(f"bassline:events:{run_id}") <= buses.EXPIRE_S
    bus.publish(run_id, event_types.STATE, {"state": RunState.FINISHED, "error": None})
    assert 0 < server.ttl(f"bassline:events:{run_id}") <= buses.ENDED_EXPIRE_S <= 300


def test_events_of_ended_runs_leave_the_memory(monkeypatch):
    monkeypatch.setattr(buses, "ENDED_EXPIRE_S", 0)
    bus = MemoryBus()
    ended, other = uuid.uuid4(), uuid.uuid4()
    bus.publish(ended, event_types.STATE, {"state": RunState.FINISHED, "error": None})
    bus.publish(other, event_types.STATE, {"state": RunState.RUNNING, "error": None})
    assert bus.read(ended, BEFORE_FIRST, 0) == []
    assert len(bus.read(other, BEFORE_FIRST, 0)) == 1


def test_a_resumed_reader_gets_whole_texts_or_deltas(ctx, clock):
    run_id = submit(ctx, CompletionSpec(target="smollm2-135m", prompt="def f():\n"), handover=True)
    completion = Completion(ctx.bus, clock, 1, run_id=run_id)
    for _ in range(4):
        completion.round(2.0)
    stored = ctx.bus.read(run_id, BEFORE_FIRST, 0)
    transitions.cancel(ctx, run_id)
    whole = [e for e in follow_events(ctx, run_id, stored[2].id, 0.01) if e and e.type == event_types.TEXT]
    assert [e.data["samples"][0]["text"] for e in whole] == completion.texts
    client = create_app(ctx).test_client()
    address = f"/api/v1/runs/{run_id}/events"
    texts = client.get(address, headers={"Last-Event-ID": stored[2].id}).text
    assert "event: text\n" in texts
    assert "event: text_delta\n" not in texts
    deltas = client.get(f"{address}?text=delta").text
    assert deltas.count("event: text_delta\n") == 4
    assert client.get(f"{address}?text=some").status_code == 422
