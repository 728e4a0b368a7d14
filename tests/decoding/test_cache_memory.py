"""Memory for keys and values: a long prompt takes it for its own rows, waits for it, and harms nobody where there is
none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from decoding.attention.runner import ModelRunner
from decoding.config import EngineConfig
from decoding.engine import Engine
from decoding.limits import MAX_DRAFT_LENGTH
from decoding.memory import store
from decoding.models.loaded import LoadedModel
from decoding.models.trained_heads import LoadedHead
from decoding.request import Completion, Request, RequestError, SamplingParams
from tests.decoding.conftest import DRAFT, texts
from tests.thorough import thorough

MakeEngine = Callable[..., Engine]
SHORT, LONG = "def add(a, b):", "x = 1\n" * 70
DRAFTERS = [*map(thorough, ("none", "sibling", "trained")), DRAFT, "sibling+trained"]
NO_MEMORY = RuntimeError("[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory")


def asked(prompt: str = SHORT, **changes: Any) -> Request:
    return Request(prompt, **{"sampling": SamplingParams(0.8), "max_new_tokens": 20, "n": 2, **changes})


WANTED = [asked(), asked(LONG, seed=1), asked(seed=2)]


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


@pytest.mark.parametrize("n_tokens", [1000, thorough(8000)])
def test_a_long_prompt_beside_30_short_ones_costs_these_nothing_but_time(
    n_tokens: int, target: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their texts to the bit, and the pages of the rows: each has its own, and no row the long one's."""
    made = Engine(EngineConfig("tiny", max_batch=64), replace(target, context_length=16_384), None)
    wanted = [asked(f"{SHORT} # {i}", seed=i, max_new_tokens=8, n=1) for i in range(30)]
    alone = [texts(made.generate(each)) for each in wanted]
    wanted.insert(10, asked(("x = 1\n" * n_tokens)[:n_tokens], max_new_tokens=8, n=1))
    n_used: list[int] = []
    watch(monkeypatch, lambda runner: n_used.append(runner.cache.pool.n_used))
    outcomes = dict(made.generate_many(wanted))
    assert texts(outcomes.pop(10))
    assert [texts(outcomes[i]) for i in sorted(outcomes)] == alone
    assert n_tokens // 64 + 1 <= max(n_used) <= 30 + n_tokens // 64 + 2


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

    n_pages = -(-(len(LONG) + 20 + MAX_DRAFT_LENGTH + 1) // 64)
    budget = n_rows * n_pages * sum(pool.page_bytes for pool in make(None)._pool._pools)
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
    watch(monkeypatch, lambda _: used.append(sum(p.n_used * p.page_bytes for p in made._pool._pools)))
    for outcomes in in_both_ways(made):
        assert [texts(outcomes[i]) for i in range(3)] == alone
    assert 0 < max(used) <= budget


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_a_request_that_never_fits_is_refused_with_the_tokens_that_would(
    drafter: str, engine: MakeEngine, target: LoadedModel, draft: LoadedModel, head: LoadedHead
) -> None:
    plain = engine(drafter=drafter)
    wanted = [WANTED[0], replace(WANTED[1], max_new_tokens=90, n=4), WANTED[2]]
    alone = [texts(plain.generate(each)) for each in (WANTED[0], WANTED[2])]
    made, _ = with_budget(2, drafter, target, draft, head)
    for outcomes in in_both_ways(made, wanted):
        assert [texts(outcomes[i]) for i in (0, 2)] == alone
        message = str(outcomes[1])
        assert "a cache of 4 x 510 tokens for n = 4 samples" in message
        found = re.search(r"([0-9]+) tokens each would: shorten the prompt", message)
        assert found is not None
        # The refused request, with a prompt that is so much shorter, or fewer tokens to write, is decoded.
        n = int(found[1])
        assert 200 < n < 510
        fits = replace(wanted[1], prompt=LONG[: n - 90])
        assert texts(dict(made.generate_many([fits]))[0])
        with pytest.raises(RequestError):
            made.generate(replace(wanted[1], prompt=LONG[: n - 90 + 128]))


def test_pages_of_earlier_prompts_make_room_for_a_request(target: LoadedModel) -> None:
    made, _ = with_budget(2, "none", target, target, None)  # type: ignore[arg-type]
    for i in range(6):
        made.generate(asked(f"{i}{LONG}", n=1, prefix_cache=True))
    (pool,) = made._pool._pools
    assert len(pool._idle) > 6, "as many stay as there is room for"
    assert texts(made.generate(WANTED[1]))


def test_a_service_whose_memory_others_take_lets_requests_wait(
    engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = engine(max_batch=16)
    made.warm_up()
    alone = [texts(made.generate(each)) for each in WANTED]
    made.generate(asked(LONG, n=6, max_new_tokens=60))
    monkeypatch.setattr(store, "count_free_bytes", lambda _device: 0)
    (pool,) = made._pool._pools
    seen: list[int] = []
    watch(monkeypatch, lambda runner: seen.append(runner.cache.pool.n_touched))
    before = pool.n_touched
    for outcomes in in_both_ways(made):
        assert [texts(outcomes[i]) for i in range(3)] == alone
    assert max(seen) <= before


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("fails", ["prefill", "round"])
def test_lack_of_memory_ends_the_request_that_causes_it_alone(
    fails: str, drafter: str, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = engine(drafter=drafter)
    alone = [texts(made.generate(each)) for each in WANTED]
    forward = ModelRunner.forward

    def forwarding(runner: ModelRunner, tokens: Sequence[Sequence[int]], **options: Any) -> torch.Tensor:
        reads = max(map(len, tokens)) >= 64
        if fails == "prefill" and reads and sum(runner.cache.lens) > 100:
            raise NO_MEMORY
        if fails == "round" and not reads and len(tokens) == len(runner.cache.lens) and max(runner.cache.lens) > 400:
            raise NO_MEMORY
        return forward(runner, tokens, **options)

    monkeypatch.setattr(ModelRunner, "forward", forwarding)
    for outcomes in in_both_ways(made):
        assert [texts(outcomes[i]) for i in (0, 2)] == [alone[0], alone[2]]
        assert "does not fit into the memory that is free" in str(outcomes[1])


def test_other_errors_of_an_admission_are_not_hidden(engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    made = engine()
    made.warm_up()

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("shapes cannot be multiplied")

    monkeypatch.setattr(ModelRunner, "forward", broken)
    with pytest.raises(RuntimeError, match="shapes"):
        made.generate(asked(LONG))
