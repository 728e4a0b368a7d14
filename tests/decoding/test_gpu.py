"""Rounds on a GPU: real captures, memory that stays, and a host that waits once a round.

On a CPU graphs replay by running again, with shorter prompts. What only a GPU can show is marked `gpu`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

from decoding.attention.drafting import BlockSampler, DraftRunner
from decoding.attention.target_runner import TargetRunner
from decoding.checks.graph_check import find_error
from decoding.checks.self_check import encode_probes
from decoding.config import EngineConfig
from decoding.engine import Engine
from decoding.models.loaded import LoadedModel
from decoding.models.trained_heads import LoadedHead
from decoding.request import Request, SamplingParams
from tests.decoding.conftest import CUDA, DRAFT
from tests.thorough import quick_first, thorough

pytest.importorskip("triton")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("in_graphs")]
DRAFTERS = ["none", thorough("ngram"), DRAFT, "trained"]
LENGTHS = (300, 3_000, 6_000, 300, 16_000) if CUDA else (60, 700, 60)
"""Tokens of prompts, past each size that a cache ever had."""
MakeEngine = Callable[..., Engine]


@pytest.fixture
def make(target: LoadedModel, draft: LoadedModel, head: LoadedHead) -> MakeEngine:
    """Make an engine of tiny models whose texts never end by themselves."""

    def make_engine(drafter: str, *, graphs: bool = True, **settings: Any) -> Engine:
        config = EngineConfig("tiny", drafter, **{"draft_length": "fixed:2", "max_batch": 3, **settings})
        # Triton's interpreter is slow, and serves one thread: test_graphs.py shows that PyTorch decides the same.
        disabled = {} if CUDA else {"accept": "interpreted"}
        model = replace(target, vocab_size=256, context_length=20_000, disabled=disabled)
        small = replace(draft, vocab_size=256, context_length=20_000) if drafter == DRAFT else None
        return Engine(config, model, small, head if drafter == "trained" else None, graphs=graphs, kv_bytes=256 * 2**20)

    return make_engine


def prompt(n: int, seed: int = 0) -> tuple[int, ...]:
    return tuple(torch.randint(1, 255, (n,), generator=torch.Generator().manual_seed(seed)).tolist())


def captured_seconds(engine: Engine) -> float:
    with engine._pool.acquire(1) as runners:
        assert runners.graphs
        return runners.captured_s


@pytest.mark.gpu
@pytest.mark.parametrize("acceptance", ["coupled", "maximal"])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_replays_are_what_forwards_compute_in_every_bucket(drafter: str, acceptance: str, make: MakeEngine) -> None:
    """On a CPU test_self_check.py does this, with few buckets."""
    engine = make(drafter, acceptance=acceptance, max_batch=16, draft_length="fixed:32")
    engine.warm_up()
    with engine._pool.acquire(16) as runners:
        for graphs in runners.graphs:
            assert graphs.n_bytes > 0
            assert find_error(graphs, encode_probes(engine.target)) is None
    plain = make(drafter, graphs=False, acceptance=acceptance, max_batch=16)
    for n in range(1, 17):
        wanted = Request(prompt(40, n), n=n, sampling=SamplingParams(0.0), max_new_tokens=12)
        one, other = ([s.token_ids for s in each.generate(wanted).samples] for each in (engine, plain))
        assert one == other


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_prompts_of_any_length_get_full_answers_without_a_capture(drafter: str, make: MakeEngine) -> None:
    engine = make(drafter, max_batch=2)
    engine.warm_up()
    before = captured_seconds(engine)
    for length in LENGTHS:
        wanted = Request(prompt(length), n=2, sampling=SamplingParams(0.8), budget_s=120, max_new_tokens=12)
        done = engine.generate(wanted)
        assert [(s.n_tokens, s.finish_reason) for s in done.samples] == [(12, "length")] * 2
    assert captured_seconds(engine) == before
    assert "graphs" not in engine.disabled


def test_engines_are_loaded_and_decode_while_other_threads_do(make: MakeEngine) -> None:
    """A capture in one thread must not fail because of what another one does, nor the other way round."""
    wanted = Request(prompt(50), n=2, sampling=SamplingParams(0.8), max_new_tokens=16)
    expected = [s.token_ids for s in make(DRAFT, graphs=False).generate(wanted).samples]

    def load_and_decode(_: int) -> tuple[Collection[str], list[list[list[int]]]]:
        engine = make(DRAFT, max_batch=2)
        engine.warm_up()
        return engine.disabled, [[s.token_ids for s in engine.generate(wanted).samples] for _ in range(3)]

    with ThreadPoolExecutor(4 if CUDA else 2) as threads:
        for disabled, texts in threads.map(load_and_decode, range(8 if CUDA else 2)):
            assert "graphs" not in disabled
            assert texts == [expected] * 3


@pytest.mark.parametrize("drafter", quick_first(DRAFTERS, ["./draft"]))
def test_memory_is_as_before_after_fifty_requests(drafter: str, make: MakeEngine) -> None:
    engine = make(drafter)
    engine.warm_up()
    longest = max(LENGTHS) // 4

    def decode(i: int) -> None:
        length, sampling = longest if i % 10 == 0 else 20 + i, SamplingParams(0.1 * (i % 4))
        engine.generate(Request(prompt(length, i), n=1 + i % 3, sampling=sampling, max_new_tokens=4))

    for i in range(3):
        decode(i)
    before = held_bytes(engine)
    for i in range(50):
        decode(i)
    assert held_bytes(engine) == before


def held_bytes(engine: Engine) -> tuple[int, ...]:
    """Return what the engine holds between requests: bytes of the GPU, and pages that rows have."""
    gc.collect()
    with engine._pool.acquire(1) as runners:
        pages = tuple(graphs.runner.cache.pool.n_used for graphs in runners.graphs)
    if not CUDA:
        return pages
    torch.cuda.synchronize()
    return (*pages, torch.cuda.memory_allocated())


@contextmanager
def waiting(mode: str) -> Iterator[None]:
    """Let a wait for the GPU raise (`error`) or not (`default`)."""
    if not CUDA:
        yield
        return
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode(mode)
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """The host's reads in each later draft and verify; on a GPU any other wait in these raises."""
    found: dict[str, list[int]] = {"draft": [], "verify": []}
    tolist, n_read = torch.Tensor.tolist, [0]

    def read(tensor: torch.Tensor) -> Any:
        # The attention that stands in for the kernel on a CPU reads lengths.
        n_read[0] += sys._getframe(1).f_globals["__name__"] != "kernels.reference"
        with waiting("default"):
            return tolist(tensor)

    def watch(kind: type, name: str) -> None:
        call = getattr(kind, name)

        def watched(*arguments: Any) -> Any:
            n_read[0] = 0
            with waiting("error"):
                result = call(*arguments)
            found[name].append(n_read[0])
            return result

        monkeypatch.setattr(kind, name, watched)

    monkeypatch.setattr(torch.Tensor, "tolist", read)
    for kind, name in ((TargetRunner, "verify"), (DraftRunner, "draft"), (BlockSampler, "draft")):
        watch(kind, name)
    return found


@pytest.mark.parametrize("acceptance", ["coupled", "maximal"])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_the_host_waits_once_a_round(
    drafter: str, acceptance: str, make: MakeEngine, reads: dict[str, list[int]]
) -> None:
    """Requests with different parameters, whose nuclei end within the search."""
    samplings = [SamplingParams(0.0), SamplingParams(0.3, 0.5), SamplingParams(0.3, 1.0, 5), SamplingParams(0.8, 1.0)]
    wanted = [Request(prompt(40, i), sampling=each, max_new_tokens=6) for i, each in enumerate(samplings)]
    engine = make(drafter, acceptance=acceptance, max_batch=4)
    done = dict(engine.generate_many(wanted))
    for each in reads.values():
        each.clear()  # the first batch captured
    done = dict(engine.generate_many(wanted))
    assert all(done[i].samples[0].n_tokens == 6 for i in range(4))
    assert len(reads["verify"]) >= max(len(done[i].rounds) for i in range(4))
    assert set(reads["verify"]) == {1}
    assert set(reads["draft"]) == ({0} if drafter in (DRAFT, "trained") else set())
