"""The sparse distribution is exactly the one that the sampling parameters define on the whole vocabulary."""

import math
import tracemalloc
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from decoding.acceptance.coupled import CoupledRule
from decoding.acceptance.noise import Role, compute_sample_seed, draw_gumbel
from decoding.acceptance.rule import Positions
from decoding.acceptance.sampling import compute_raw_logprobs, to_distribution, to_distributions
from decoding.request import SamplingParams
from tests.thorough import scale_examples, thorough


def dense(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """The textbook way: sort everything, cut, renormalize."""
    p = (logits.double() / params.temperature).softmax(dim=1)
    p, order = p.sort(dim=1, descending=True)
    if params.top_k:
        p[:, params.top_k :] = 0
        p /= p.sum(dim=1, keepdim=True)
    keep = (p.cumsum(1) - p < params.top_p) & (p >= params.min_p * p[:, :1]) & (p > 0)
    keep[:, 0] = True
    p = p * keep
    return torch.zeros_like(p).scatter(1, order, p / p.sum(dim=1, keepdim=True))


@settings(deadline=None, max_examples=scale_examples(60))
@given(
    seed=st.integers(0, 10_000),
    spread=st.sampled_from([0.1, 1.0, 4.0, 12.0]),
    vocabulary=st.sampled_from([7, 300, 40_000]),
    temperature=st.sampled_from([0.2, 0.8, 1.0, 1.7]),
    top_p=st.sampled_from([0.1, 0.9, 0.95, 1.0]),
    top_k=st.sampled_from([0, 1, 5, 100]),
    min_p=st.sampled_from([0.0, 0.05]),
)
def test_nucleus_equals_the_textbook_one(
    seed: int, spread: float, vocabulary: int, temperature: float, top_p: float, top_k: int, min_p: float
) -> None:
    params = SamplingParams(temperature=temperature, top_p=top_p, top_k=top_k, min_p=min_p)
    logits = torch.randn(3, vocabulary, generator=torch.Generator().manual_seed(seed)) * spread
    got = to_distribution(logits, params)
    supported = got.logp > -torch.inf
    p = torch.zeros(3, vocabulary, dtype=torch.float64)
    for row in range(3):
        p[row, got.ids[row][supported[row]]] = got.logp[row][supported[row]].double().exp()
    # A token on the very edge of the nucleus may fall either way in float32: compare mass, not membership.
    assert (p - dense(logits, params)).abs().sum(dim=1).max() < 2e-3 + 2 * dense(logits, params).max() * 0.02
    assert torch.allclose(got.logp.exp().sum(dim=1), torch.ones(3), atol=1e-4)


def test_prob_of_reads_the_sparse_distribution() -> None:
    logits = torch.randn(5, 1000) * 5
    got = to_distribution(logits, SamplingParams(temperature=0.7, top_p=0.9))
    everything = torch.arange(1000).expand(5, -1)
    assert torch.allclose(got.get_probabilities(everything), dense(logits, SamplingParams(0.7, 0.9)).float(), atol=1e-5)


def test_temperature_zero_is_the_argmax() -> None:
    logits = torch.randn(4, 500)
    got = to_distribution(logits, SamplingParams(temperature=0))
    assert got.ids[:, 0].tolist() == logits.argmax(1).tolist()
    assert (
        got.sample(torch.zeros(4, dtype=torch.int64), torch.arange(4), Role.SAMPLE).tolist() == got.ids[:, 0].tolist()
    )


def test_samples_follow_the_distribution() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.5, 0.0, -1.0]])
    params = SamplingParams(temperature=1.0, top_p=1.0)
    n = 20_000
    keys = torch.tensor([compute_sample_seed(5, i) for i in range(n)])
    drawn = to_distribution(logits.expand(n, -1), params).sample(keys, torch.zeros(n, dtype=torch.int64), Role.SAMPLE)
    expected = logits[0].double().softmax(0).numpy() * n
    assert stats.chisquare(torch.bincount(drawn, minlength=5).numpy(), expected).pvalue > 1e-3


def test_raw_logprobs_ignore_temperature_and_filters() -> None:
    logits = torch.randn(3, 50)
    tokens = torch.tensor([3, 7, 9])
    expected = logits.log_softmax(1)[torch.arange(3), tokens]
    assert torch.allclose(compute_raw_logprobs(logits, torch.arange(3), tokens), expected, atol=1e-6)


@pytest.mark.parametrize("temperature", [0.2, thorough(0.8), thorough(1.0), 3.0])
@pytest.mark.parametrize("spread", [0.0, thorough(1.0), 4.0])
def test_a_draw_from_a_whole_vocabulary_is_the_argmax_over_the_noise_of_all_its_tokens(
    spread: float, temperature: float
) -> None:
    chance = torch.Generator().manual_seed(7)
    logits = torch.randn(3, 40_000, generator=chance) * spread
    whole = to_distribution(logits, SamplingParams(temperature, 1.0))
    rows = torch.randint(0, 3, (200,), generator=chance)
    seeds, positions = (torch.randint(0, 2**62, (200,), generator=chance) for _ in range(2))
    drawn = whole.sample(seeds, positions, Role.SAMPLE, rows=rows)
    for m, row in enumerate(rows.tolist()):
        noise = draw_gumbel(seeds[m : m + 1], positions[m : m + 1], Role.SAMPLE, whole.ids[:1])[0]
        assert drawn[m] == (whole.logp[row].double() + noise).argmax()


def test_a_draw_from_a_joined_distribution_knows_the_ids_of_its_row() -> None:
    logits = torch.randn(2, 5_000, generator=torch.Generator().manual_seed(7)) * 3
    mixed = to_distributions(logits, [SamplingParams(1.0, 1.0), SamplingParams(1.0, 0.5)])
    seeds, positions = torch.arange(2), torch.full((2,), 9)
    for row, params in enumerate((SamplingParams(1.0, 1.0), SamplingParams(1.0, 0.5))):
        alone = to_distribution(logits[row : row + 1], params)
        expected = alone.sample(seeds[row : row + 1], positions[:1], Role.SAMPLE)
        assert mixed.sample(seeds, positions, Role.SAMPLE)[row] == expected[0]


def test_numbers_that_are_no_logits_are_drawn_without_an_error() -> None:
    whole = to_distribution(torch.full((1, 5_000), math.nan), SamplingParams(1.0, 1.0))
    assert whole.sample(torch.tensor([1]), torch.tensor([2]), Role.SAMPLE).shape == (1,)


class Allocated(TorchDispatchMode):
    """Records the bytes of the largest tensor that an operation returns, views aside."""

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def storages(of: Any) -> dict[int, int]:
            tensors = [each for each in tree_leaves(of) if isinstance(each, torch.Tensor)]
            return {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in tensors}

        result = func(*args, **(kwargs or {}))
        before = storages((args, kwargs))
        new = [n_bytes for address, n_bytes in storages(result).items() if address not in before]
        self.largest = max(self.largest, *new, 0)
        return result


def test_acceptance_over_a_whole_vocabulary_takes_the_memory_of_a_few_rows() -> None:
    S, T, V = 16, 5, 50_000
    logits = torch.randn(T, V, generator=torch.Generator().manual_seed(7)) * 4
    where = Positions(torch.arange(T).expand(S, T), torch.arange(T).expand(S, T) + 100)
    with Allocated() as allocated:
        whole = to_distribution(logits, SamplingParams(1.0, 1.0))
    assert allocated.largest <= logits.nbytes
    tracemalloc.start()
    with Allocated() as allocated:
        CoupledRule().accept(whole, where, torch.zeros(S, T - 1, dtype=torch.int64), torch.arange(S), None)
    _, numpy_peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert allocated.largest <= 8 * V
    assert numpy_peak <= 40 * V
