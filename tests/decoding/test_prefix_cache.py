"""The prefix cache changes when a prompt is ready, and nothing else."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decoding.attention import runner_pool
from decoding.memory.cache import RaggedCache
from decoding.memory.prefix_cache import PrefixCache
from decoding.memory.shelf import Slots
from decoding.request import Request, SamplingParams

LONG = "def add(a, b):\n    return a + b\n\n\n" * 6  # 204 tokens of one byte


def decoded(engine, prompt, *, prefix_cache, n=3, temperature=0.8):
    sampling = SamplingParams(temperature, 0.95)
    request = Request(prompt, n=n, seed=5, max_new_tokens=16, sampling=sampling, prefix_cache=prefix_cache)
    completion = engine.generate(request)
    return [(s.token_ids, s.logprobs) for s in completion.samples], completion.cached_tokens


@pytest.mark.parametrize("drafter", ["none", "sibling", "./draft"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_texts_are_the_same_with_and_without_and_blocks_in_common_are_found(engine, drafter, temperature):
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


def test_what_the_cache_holds_is_counted_and_bounded(engine, monkeypatch):
    monkeypatch.setattr(runner_pool, "_PREFIX_CACHE_BYTES", 100_000)
    made = engine(drafter="none")
    before = made._pool.n_bytes
    for i in range(20):
        decoded(made, f"{i:03d}" + LONG, prefix_cache=True, n=1)
    assert 0 < made._pool.n_bytes - before <= 100_000


class Blocks:
    """A prefix cache over dummy keys and values: each slot holds its token."""

    def __init__(self, n_blocks: int) -> None:
        self.cache = RaggedCache(2, 1)
        self.known = PrefixCache(n_blocks * self._bytes_of_a_block, 4)

    _bytes_of_a_block = 2 * 2 * 4 * 2 * 4  # layers, keys and values, tokens, size of a head, bytes of a number

    def prefill(self, tokens: list[int]) -> int:
        self.cache.start(0, 64)
        self.cache.write(0, 0, self.block([-1] * 64))
        n_known = self.known.restore(self.cache, 0, tokens)
        for at in range(n_known, len(tokens), 4):
            piece = tokens[at : at + 4]
            self.cache.write(0, at, self.block(piece))
            self.known.store(self.cache, 0, tokens[: at + len(piece)])
        held = self.cache.read(0, 0, len(tokens))
        assert len(held) == 4
        assert all(states[0, :, at].tolist() == tokens for states in held.values() for at in (0, 1))
        return n_known

    @staticmethod
    def block(tokens: list[int]) -> Slots:
        states = torch.tensor(tokens, dtype=torch.float32)[None, :, None].expand(1, -1, 2)
        return {(what, layer): states for what in ("keys", "values") for layer in range(2)}


@given(st.lists(st.lists(st.integers(0, 1), max_size=22), max_size=12), st.integers(1, 6))
def test_a_row_holds_its_tokens_whatever_was_cached_and_dropped(prompts, n_blocks):
    blocks = Blocks(n_blocks)
    for prompt in prompts:
        n_known = blocks.prefill(prompt)
        assert n_known % 4 == 0
        assert blocks.known.n_bytes <= n_blocks * Blocks._bytes_of_a_block


def test_the_beginning_of_a_prompt_stays_longer_than_its_end_and_the_oldest_prompt_goes_first():
    blocks = Blocks(4)
    old, new = [1] * 12, [2] * 8
    assert [blocks.prefill(prompt) for prompt in (old, old, new, new)] == [0, 12, 0, 8]
    assert blocks.prefill(old) == 8, "its last block made room"
    assert blocks.prefill([3] * 40) == 0
    assert blocks.prefill([3] * 40) == 16, "a prompt that does not fit leaves its beginning"
