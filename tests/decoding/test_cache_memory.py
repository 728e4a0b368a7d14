"""Memory for caches: a long prompt takes it for its own rows, waits for it, and harms nobody where there is none."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch

from decoding.attention import runner_pool
from decoding.attention.runner import ModelRunner
from decoding.engine import Engine
from decoding.memory.cache import RaggedCache
from decoding.request import Completion, Request, RequestError, SamplingParams
from tests.thorough import thorough

MakeEngine = Callable[..., Engine]
SHORT, LONG = "def add(a, b):", "x = 1\n" * 70
DRAFTERS = ["none", thorough("sibling"), "./draft", thorough("trained"), "sibling+trained"]
NO_MEMORY = RuntimeError("[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory")


def asked(prompt: str = SHORT, **changes: Any) -> Request:
    return Request(prompt, sampling=SamplingParams(0.8), **{"max_new_tokens": 20, "n": 2, **changes})


WANTED = [asked(), asked(LONG, seed=1), asked(seed=2)]


def texts(outcome: Completion | RequestError) -> list[list[int]]:
    assert isinstance(outcome, Completion), outcome
    return [sample.token_ids for sample in outcome.samples]


def in_both_ways(made: Engine) -> Iterator[dict[int, Completion | RequestError]]:
    for outcomes in (made.generate_many(WANTED), made.serve(WANTED)):
        yield dict(outcomes)


def test_rows_get_memory_when_they_come(engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    most, forward = [0], ModelRunner.forward

    def watched(runner: ModelRunner, *args: Any, **options: Any) -> torch.Tensor:
        logits = forward(runner, *args, **options)
        most[0] = max(most[0], runner.cache.n_rows)
        assert runner.cache.layers[0].keys.shape[0] == runner.cache.n_rows
        return logits

    monkeypatch.setattr(ModelRunner, "forward", watched)
    made = engine(max_batch=16)
    for outcome in (made.generate(asked(n=1)), dict(made.serve([asked(LONG, n=1)]))[0]):
        assert texts(outcome)
    assert most == [1]


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_a_request_that_does_not_fit_beside_the_others_waits_and_one_that_never_fits_is_refused(
    drafter: str, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = engine(drafter=drafter)
    alone = [texts(made.generate(each)) for each in WANTED]
    with made._pool.acquire(2) as runners:
        budget = 2 * 512 * runners.slot_bytes  # two rows of the long one, and not four
    caches: weakref.WeakSet[RaggedCache] = weakref.WeakSet()
    reserve, most = RaggedCache.reserve, [0]

    def watched(cache: RaggedCache, capacity: int) -> None:
        caches.add(cache)
        reserve(cache, capacity)

    def free(_device: torch.device) -> int:
        most.append(sum(cache.n_bytes for cache in caches))
        return budget - most[-1]

    monkeypatch.setattr(RaggedCache, "__hash__", object.__hash__)
    monkeypatch.setattr(RaggedCache, "reserve", watched)
    monkeypatch.setattr(runner_pool, "_USABLE", 1.0)
    monkeypatch.setattr(runner_pool, "free_bytes", free)
    for outcomes in in_both_ways(made):
        assert [texts(outcomes[i]) for i in range(3)] == alone
    assert 0 < max(most) <= budget
    budget //= 2
    for outcomes in in_both_ways(made):
        assert [texts(outcomes[i]) for i in (0, 2)] == [alone[0], alone[2]]
        assert "MiB more memory than is free: shorten the prompt" in str(outcomes[1])


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("fails", ["cache", "forward"])
def test_lack_of_memory_ends_the_newcomer_alone(
    fails: str, drafter: str, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = engine(drafter=drafter)
    alone = [texts(made.generate(each)) for each in WANTED]
    reserve, forward = RaggedCache.reserve, ModelRunner.forward

    def reserving(cache: RaggedCache, capacity: int) -> None:
        if capacity > 400 and fails == "cache":
            raise NO_MEMORY
        reserve(cache, capacity)

    def forwarding(runner: ModelRunner, tokens: Sequence[Sequence[int]], **options: Any) -> torch.Tensor:
        if max(map(len, tokens)) >= 64 and sum(runner.cache.lens) > 100 and fails == "forward":
            raise NO_MEMORY
        return forward(runner, tokens, **options)

    monkeypatch.setattr(RaggedCache, "reserve", reserving)
    monkeypatch.setattr(ModelRunner, "forward", forwarding)
    for outcomes in in_both_ways(made):
        assert [texts(outcomes[i]) for i in (0, 2)] == [alone[0], alone[2]]
        assert "does not fit into the memory that is free" in str(outcomes[1])


def test_other_errors_of_an_admission_are_not_hidden(engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("shapes cannot be multiplied")

    monkeypatch.setattr(ModelRunner, "forward", broken)
    with pytest.raises(RuntimeError, match="shapes"):
        engine().generate(asked(LONG))
