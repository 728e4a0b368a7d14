"""The prefix cache changes when a prompt is ready, and nothing else."""

from __future__ import annotations

import pytest

from decoding.attention import runner_pool
from decoding.request import Request, SamplingParams
from tests.thorough import thorough

LONG = "def add(a, b):\n    return a + b\n\n\n" * 6  # 204 tokens of one byte


def decoded(engine, prompt, *, prefix_cache, n=3, temperature=0.8):
    sampling = SamplingParams(temperature, 0.95)
    request = Request(prompt, n=n, seed=5, max_new_tokens=16, sampling=sampling, prefix_cache=prefix_cache)
    completion = engine.generate(request)
    return [(s.token_ids, s.logprobs) for s in completion.samples], completion.cached_tokens


@pytest.mark.parametrize("drafter", ["none", "sibling", "./draft"])
@pytest.mark.parametrize("temperature", [thorough(0.0), 0.8])
def test_texts_are_the_same_with_and_without_and_pages_in_common_are_found(engine, drafter, temperature):
    made = engine(drafter=drafter, draft_length="fixed:4")
    edited = LONG[:150] + "x" + LONG[151:]
    for prompt, found in ((LONG, 0), (LONG, 192), (LONG + "z", 192), (edited, 128), (LONG[:65], 64), ("zz" + LONG, 0)):
        without, unused = decoded(made, prompt, prefix_cache=False, temperature=temperature)
        assert unused == 0
        assert decoded(made, prompt, prefix_cache=True, temperature=temperature) == (without, found)


def test_a_request_that_does_not_ask_for_it_leaves_nothing(engine):
    made = engine()
    decoded(made, LONG, prefix_cache=False)
    assert decoded(made, LONG, prefix_cache=True)[1] == 0


def test_a_batch_of_several_requests_finds_what_the_first_one_left(engine):
    made = engine()
    alone, _ = decoded(made, LONG, prefix_cache=False, n=2)
    request = Request(LONG, n=2, seed=5, max_new_tokens=16, sampling=SamplingParams(0.8, 0.95), prefix_cache=True)
    outcomes = dict(made.generate_many([request, request]))
    assert [outcomes[i].cached_tokens for i in (0, 1)] == [0, 192]
    for completion in outcomes.values():
        assert [s.token_ids for s in completion.samples] == [ids for ids, _ in alone]


def test_what_is_kept_of_earlier_prompts_is_bounded(engine, monkeypatch):
    monkeypatch.setattr(runner_pool, "_IDLE_BYTES", 200_000)
    made = engine(drafter="none")
    for i in range(20):
        decoded(made, f"{i:03d}" + LONG, prefix_cache=True, n=1)
    (pool,) = made._pool._pools
    assert 0 < len(pool._idle) * pool.page_bytes <= 200_000
    assert pool.n_used == 0
    made.count_memory()
    assert made._pool.n_bytes == pool.n_bytes
