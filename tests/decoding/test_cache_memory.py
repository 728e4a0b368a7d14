"""Memory for keys and values: a long prompt takes it for its own rows, waits for it, and harms nobody where there is
none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from decoding.attention.runner import ModelRunner
from decoding.attention.runner_pool import Runners
from decoding.config import EngineConfig
from decoding.engine import Engine
from decoding.memory.cache import RaggedCache
from decoding.memory.shelf import shelf_capacity
from decoding.models.loaded import LoadedModel
from decoding.models.trained_heads import LoadedHead
from decoding.request import Completion, Request, RequestError, SamplingParams
from tests.decoding.conftest import DRAFT
from tests.thorough import thorough

MakeEngine = Callable[..., Engine]
SHORT, LONG = "def add(a, b):", "x = 1\n" * 70
DRAFTERS = ["none", thorough("sibling"), DRAFT, thorough("trained"), "sibling+trained"]
NO_MEMORY = RuntimeError("[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory")


def asked(prompt: str = SHORT, **changes: Any) -> Request:
    return Request(prompt, **{"sampling": SamplingParams(0.8), "max_new_tokens": 20, "n": 2, **changes})


WANTED = [asked(), asked(LONG, seed=1), asked(seed=2)]


def texts(outcome: Completion | RequestError) -> list[list[int]]:
    assert isinstance(outcome, Completion), outcome
    return [sample.token_ids for sample in outcome.samples]


def in_both_ways(made: Engine, wanted: Sequence[Request] = WANTED) -> Iterator[dict[int, Completion | RequestError]]:
    for outcomes in (made.generate_many(wanted), made.serve(wanted)):
        yield dict(outcomes)


def watch(monkeypatch: pytest.MonkeyPatch, see: Callable[[ModelRunner], None]) -> None:
    """Call `see` after each forward of a model."""
    forward = ModelRunner.forward

    def watched(runner: ModelRunner, *args: Any, **options: Any) -> torch.Tensor:
        logits = forward(runner, *args, **options)
        see(runner)
        return logits

    monkeypatch.setattr(ModelRunner, "forward", watched)


def test_rows_get_memory_when_they_come(engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    most: list[int] = []
    watch(monkeypatch, lambda runner: most.append(sum(shelf.n_rows for shelf in runner.cache._shelves.values())))
    made = engine(max_batch=16)
    made.warm_up()
    most.clear()
    for outcome in (made.generate(asked(n=1)), dict(made.serve([asked(LONG, n=1)]))[0]):
        assert texts(outcome)
    assert set(most) == {1}


@pytest.mark.parametrize("n_tokens", [1000, thorough(8000)])
def test_a_long_prompt_beside_30_short_ones_costs_these_nothing_but_time(
    n_tokens: int, target: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their texts to the bit, and the bytes of the rows: each has its own, and no row the long one's."""
    made = Engine(EngineConfig("tiny", max_batch=64), replace(target, context_length=16_384), None)
    wanted = [asked(f"{SHORT} # {i}", seed=i, max_new_tokens=8, n=1) for i in range(30)]
    alone = [texts(made.generate(each)) for each in wanted]
    wanted.insert(10, asked(("x = 1\n" * n_tokens)[:n_tokens], max_new_tokens=8, n=1))
    most_bytes = [0]

    def see(runner: ModelRunner) -> None:
        if len(runner.cache.lens) > 30:
            most_bytes[0] = max(most_bytes[0], runner.cache.n_bytes // runner.cache.slot_bytes)

    watch(monkeypatch, see)
    outcomes = dict(made.generate_many(wanted))
    assert texts(outcomes.pop(10))
    assert [texts(outcomes[i]) for i in sorted(outcomes)] == alone
    assert most_bytes == [32 * shelf_capacity(14 + 8 + 40) + shelf_capacity(n_tokens + 8 + 33)]


@pytest.mark.parametrize("drafter", ["none", "sibling+trained"])
def test_a_long_prompt_leaves_the_rows_beside_it_as_they_are(
    drafter: str, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifteen short requests and one that is thirty times as long: capacities, and texts to the bit."""
    made = engine(drafter=drafter, max_batch=32)
    wanted = [asked(f"{SHORT} # {i}", seed=i, max_new_tokens=8) for i in range(15)]
    wanted.insert(7, asked(LONG, seed=99, max_new_tokens=8, n=1))
    alone = [texts(made.generate(each)) for each in wanted]
    seen: set[tuple[int, ...]] = set()

    def see(runner: ModelRunner) -> None:
        seen.add(tuple(sorted({row.shelf.capacity for row in runner.cache._rows})))

    watch(monkeypatch, see)
    for outcomes in in_both_ways(made, wanted):
        assert [texts(outcomes[i]) for i in range(len(wanted))] == alone
    assert (384, 512) in seen
    assert seen <= {(384,), (512,), (384, 512)}, "a short row takes the place of a short row"


def with_budget(
    n_rows: int, drafter: str, target: LoadedModel, draft: LoadedModel, head: LoadedHead
) -> tuple[Engine, int]:
    """An engine whose budget is `n_rows` rows of the long request, and this budget."""

    def make(kv_bytes: int | None) -> Engine:
        config = EngineConfig("tiny", drafter)
        parts = draft if DRAFT in drafter else None, head if "trained" in drafter else None
        made = Engine(config, target, *parts, kv_bytes=kv_bytes)
        made.warm_up()
        return made

    with make(None)._pool.acquire(1) as runners:
        budget = n_rows * 512 * runners.memory.slot_bytes
    assert budget
    return make(budget), budget


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_a_request_that_does_not_fit_beside_the_others_waits(
    drafter: str,
    engine: MakeEngine,
    target: LoadedModel,
    draft: LoadedModel,
    head: LoadedHead,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = engine(drafter=drafter)
    alone = [texts(plain.generate(each)) for each in WANTED]
    made, budget = with_budget(2, drafter, target, draft, head)  # for two rows of the long one, and not for others
    used: list[int] = []
    watch(monkeypatch, lambda _: used.append(made._pool._store.n_bytes))
    for outcomes in in_both_ways(made):
        assert [texts(outcomes[i]) for i in range(3)] == alone
    assert 0 < max(used) <= budget


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_a_request_that_never_fits_is_refused_with_the_figure(
    drafter: str, engine: MakeEngine, target: LoadedModel, draft: LoadedModel, head: LoadedHead
) -> None:
    plain = engine(drafter=drafter)
    wanted = [WANTED[0], replace(WANTED[1], n=4), WANTED[2]]
    alone = [texts(plain.generate(each)) for each in (WANTED[0], WANTED[2])]
    made, budget = with_budget(2, drafter, target, draft, head)
    for outcomes in in_both_ways(made, wanted):
        assert [texts(outcomes[i]) for i in (0, 2)] == alone
        message = str(outcomes[1])
        assert f"needs {2 * budget / 2**20:,.1f} MiB" in message
        assert f"of {budget / 2**20:,.1f} MiB are free: shorten the prompt" in message


def test_blocks_of_earlier_prompts_make_room_for_a_request(target: LoadedModel) -> None:
    made, budget = with_budget(2, "none", target, target, None)  # type: ignore[arg-type]
    for i in range(6):
        made.generate(asked(f"{i}{LONG}", n=1, prefix_cache=True))
        assert made._pool._store.n_bytes <= budget
    assert made._pool._prefixes[0].n_bytes, "as many stay as there is room for"
    assert texts(made.generate(WANTED[1]))


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("fails", ["cache", "prefill", "round", "fork"])
def test_lack_of_memory_ends_the_request_that_causes_it_alone(
    fails: str, drafter: str, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = engine(drafter=drafter)
    alone = [texts(made.generate(each)) for each in WANTED]
    make_room, forward = RaggedCache.make_room, ModelRunner.forward

    def making_room(cache: RaggedCache, n_rows: int, most: int) -> None:
        if most > 400 and fails == "cache":
            raise NO_MEMORY
        if most > 400 and fails == "fork" and any(row.most == most for row in cache._rows):
            raise NO_MEMORY
        make_room(cache, n_rows, most)

    def forwarding(runner: ModelRunner, tokens: Sequence[Sequence[int]], **options: Any) -> torch.Tensor:
        reads = max(map(len, tokens)) >= 64
        if fails == "prefill" and reads and sum(runner.cache.lens) > 100:
            raise NO_MEMORY
        if fails == "round" and not reads and len(tokens) == len(runner.cache.lens) and max(runner.cache.lens) > 400:
            raise NO_MEMORY
        return forward(runner, tokens, **options)

    monkeypatch.setattr(RaggedCache, "make_room", making_room)
    monkeypatch.setattr(ModelRunner, "forward", forwarding)
    for outcomes in in_both_ways(made):
        assert [texts(outcomes[i]) for i in (0, 2)] == [alone[0], alone[2]]
        assert "does not fit into the memory that is free" in str(outcomes[1])


@pytest.mark.parametrize("drafter", ["none", DRAFT])
def test_samples_for_whose_rows_there_is_no_memory_wait_for_one_of_their_request_to_end(
    drafter: str, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = engine(drafter=drafter, acceptance="maximal", draft_length="fixed:2")
    monkeypatch.setattr(Runners, "shares_rows", False)  # as with graphs: each sample has a row of its own
    wanted = asked(n=3, sampling=SamplingParams(0.0))
    alone = texts(made.generate(wanted))
    make_room, n_rows = RaggedCache.make_room, [0]

    def making_room(cache: RaggedCache, n: int, most: int) -> None:
        if len(cache._rows) + n > 1:
            raise NO_MEMORY
        make_room(cache, n, most)

    monkeypatch.setattr(RaggedCache, "make_room", making_room)
    watch(monkeypatch, lambda runner: n_rows.append(len(runner.cache.lens)))
    assert texts(made.generate(wanted)) == alone
    assert max(n_rows) == 1


def test_other_errors_of_an_admission_are_not_hidden(engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    made = engine()
    made.warm_up()

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("shapes cannot be multiplied")

    monkeypatch.setattr(ModelRunner, "forward", broken)
    with pytest.raises(RuntimeError, match="shapes"):
        made.generate(asked(LONG))
