"""What a page held before its tokens, and what captured rounds pad with, reach no result: the bits are the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from decoding.acceptance.coupled import CoupledRule
from decoding.attention.backends import NAMES
from decoding.attention.runner import ModelRunner
from decoding.attention.verify_graphs import VerifyGraphs
from decoding.memory.pages import PagePool
from decoding.models.loaded import LoadedModel
from decoding.request import SamplingParams
from decoding.state.proposal import Proposal
from kernels.registry import BACKENDS
from tests.decoding.conftest import CUDA
from tests.thorough import thorough

pytest.importorskip("triton")
PROMPTS = list(range(1, 20)), list(range(30, 33))  # two pages and one, each with room at its end
DRAFTS = [[7, 8], []]
RUNNING = [name for name, backend in BACKENDS.items() if not (CUDA and backend.needs_compiler)]
CAPTURED = [name for name, backend in BACKENDS.items() if backend.supports_graphs]
"""The backends that run in captured rounds, and on a CPU the reference."""
if not CUDA:
    CAPTURED.append("reference")


@pytest.fixture
def runner(request: pytest.FixtureRequest, target: LoadedModel) -> Iterator[ModelRunner]:
    """Run the tiny model with the attention that the test names, over few pages."""
    before = target.model.config._attn_implementation
    target.model.set_attn_implementation(NAMES[request.param])
    made = ModelRunner(target.model, target.vocab_size, 4, pool=PagePool(8, 16), max_tokens=60)
    made.cache.start(0, 60)
    made.forward([[1]])  # which makes the buffers
    made.cache.clear()
    yield made
    target.model.set_attn_implementation(before)


@torch.inference_mode()
def start(runner: ModelRunner, stale: float) -> None:
    """Begin both prompts in pages that hold `stale` numbers."""
    cache = runner.cache
    cache.clear()
    for buffer in cache.pool.buffers.values():
        buffer[1:] = stale
    for row, prompt in enumerate(PROMPTS):
        runner.start(row, prompt, 60).finish(row)


def check_reserved_page(runner: ModelRunner) -> None:
    assert runner.cache.pool.buffers
    assert not any(buffer[0].any() for buffer in runner.cache.pool.buffers.values())


@pytest.mark.parametrize("runner", RUNNING, indirect=True)
def test_a_forward_does_not_see_what_its_pages_held_before(runner: ModelRunner) -> None:
    found = []
    for stale in (0.0, torch.nan, torch.inf):
        start(runner, stale)
        runner.cache.fork(0)  # which copies the end of a page before it writes
        found.append(runner.forward([[20, *DRAFTS[0]], [33], [21]]))
        check_reserved_page(runner)
    assert found[0].isfinite().all()
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@torch.inference_mode()
@pytest.mark.parametrize("runner", CAPTURED, indirect=True)
@pytest.mark.parametrize("scatters_by_kernel", [True, thorough(False)])
def test_a_captured_round_does_not_see_what_pages_held_before(runner: ModelRunner, scatters_by_kernel: bool) -> None:
    """Its rows are padded past the end of their pages, and one row is idle."""
    if not scatters_by_kernel:
        runner = ModelRunner(runner.model, runner.vocab_size, 4, pool=runner.cache.pool, scatters_by_kernel=False)
    graphs = VerifyGraphs(runner, CoupledRule(), uses_kernel=False)
    drafts = [list(range(2, 14)), []]  # the second row has one page, and 16 tokens of a graph are fed after three
    proposal, found = Proposal(drafts, [(), ()]), []
    for stale in (0.0, torch.nan, torch.inf):
        start(runner, stale)
        for _ in range(2):  # what the first round padded with, the second finds
            draws = graphs.verify([20, 33], [0, 1], proposal, [SamplingParams(0.0), SamplingParams(1.0)])
        found.append(draws)
        check_reserved_page(runner)
    assert found[0] is not None
    assert found[0] == found[1] == found[2]
