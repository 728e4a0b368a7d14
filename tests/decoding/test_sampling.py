"""The sparse distribution is exactly the one that the sampling parameters define on the whole vocabulary."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from decoding.acceptance.noise import Role, sample_seed
from decoding.acceptance.sampling import raw_logprobs, to_distribution
from decoding.request import SamplingParams


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


@settings(deadline=None, max_examples=60)
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
    assert torch.allclose(got.prob_of(everything), dense(logits, SamplingParams(0.7, 0.9)).float(), atol=1e-5)


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
    keys = torch.tensor([sample_seed(5, i) for i in range(n)])
    drawn = to_distribution(logits.expand(n, -1), params).sample(keys, torch.zeros(n, dtype=torch.int64), Role.SAMPLE)
    expected = logits[0].double().softmax(0).numpy() * n
    assert stats.chisquare(torch.bincount(drawn, minlength=5).numpy(), expected).pvalue > 1e-3


def test_raw_logprobs_ignore_temperature_and_filters() -> None:
    logits = torch.randn(3, 50)
    tokens = torch.tensor([3, 7, 9])
    expected = logits.log_softmax(1)[torch.arange(3), tokens]
    assert torch.allclose(raw_logprobs(logits, torch.arange(3), tokens), expected, atol=1e-6)
