"""The kernel draws what the engine draws without graphs, token for token, and records what it drew from."""

from __future__ import annotations

import pytest
import torch

from decoding.acceptance.distribution import Distribution
from decoding.acceptance.noise import Role
from decoding.acceptance.sampling import pack_sampling_params, to_distribution_nosync
from decoding.request import SamplingParams
from kernels import check, draw, reference
from kernels.draw import N_CANDIDATES

SAMPLINGS = [
    SamplingParams(0.0),
    SamplingParams(0.3, 1.0),
    SamplingParams(0.7, 0.9),
    SamplingParams(1.0, 1.0, 5),
    SamplingParams(1.3, 0.8, 20, 0.02),
    SamplingParams(1.0, 1.0, 0, 0.1),
    SamplingParams(1.0, 1.0, 64),
]
SIZES = [5, 64, 257, 9_000]
"""Fewer logits than candidates, one of several parts, and more chunks than candidates."""


class Rows:
    """A row of random logits for each of SAMPLINGS, which are part of a wider tensor."""

    def __init__(self, V: int, device: torch.device, dtype: torch.dtype = torch.float32) -> None:
        self.logits = (torch.randn(len(SAMPLINGS), V + 3, device=device) * 4).to(dtype)[:, :V]
        self.limits = torch.tensor([pack_sampling_params(params) for params in SAMPLINGS], device=device)
        self.seeds = torch.randint(-(2**62), 2**62, (len(SAMPLINGS),), device=device)
        self.position = torch.arange(len(SAMPLINGS), device=device) * 31 + 7

    def arguments(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, int]:
        return self.logits, self.limits, self.seeds, self.position, Role.DRAFT


@pytest.mark.parametrize("keeps_q", [False, True])
@pytest.mark.parametrize("V", SIZES)
def test_rows_draw_the_tokens_of_their_own_parameters(V: int, keeps_q: bool, device: torch.device) -> None:
    rows = Rows(V, device)
    tokens, q = draw.draw_tokens(*rows.arguments(), keeps_q=keeps_q)
    assert torch.equal(tokens, reference.draw_tokens(*rows.arguments(), keeps_q=keeps_q)[0])
    everything = torch.arange(V, device=device)[None]
    for r, params in enumerate(SAMPLINGS):
        one = slice(r, r + 1)
        if keeps_q and r == 1:
            continue  # without a filter, in a batch that has some: the most likely tokens
        p, _ = to_distribution_nosync(rows.logits[one], params)
        assert tokens[one].tolist() == p.sample(rows.seeds[one], rows.position[one], Role.DRAFT).tolist(), params
        if q is not None:
            recorded = Distribution(q[0][one], q[1][one]).get_probabilities(everything)
            torch.testing.assert_close(recorded, p.get_probabilities(everything), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("V", SIZES)
def test_a_token_is_recorded_once_with_what_it_was_drawn_from(V: int, device: torch.device) -> None:
    rows = Rows(V, device, torch.bfloat16)  # with ties
    rows.logits[:, 1::2] = rows.logits[:, : V // 2 * 2 : 2]
    tokens, q = draw.draw_tokens(*rows.arguments(), keeps_q=True)
    assert q is not None
    ids, logp = q
    assert all(len(set(row)) == N_CANDIDATES for row in ids.tolist())
    assert not logp[ids < 0].isfinite().any()
    assert torch.allclose(logp.exp().sum(dim=1), torch.ones((), device=device), atol=1e-5)
    assert Distribution(ids, logp).sample(rows.seeds, rows.position, Role.DRAFT).tolist() == tokens.tolist()
    highest = rows.logits.float().topk(min(V, N_CANDIDATES), dim=1).values.amin(dim=1, keepdim=True)
    assert (rows.logits.float().gather(1, ids.clamp(min=0)) >= highest)[logp.isfinite()].all()


@pytest.mark.parametrize("keeps_q", [False, True])
def test_the_noise_is_that_of_the_tokens_that_logits_stand_for(keeps_q: bool, device: torch.device) -> None:
    rows, ids = Rows(300, device), torch.randperm(1000, device=device)[:300]
    tokens, q = draw.draw_tokens(*rows.arguments(), ids=ids, keeps_q=keeps_q)
    expected, _ = reference.draw_tokens(*rows.arguments(), ids=ids, keeps_q=keeps_q)
    assert tokens.tolist() == expected.tolist()
    assert set(tokens.tolist()) <= set(ids.tolist())
    assert q is None or set(q[0][q[0] >= 0].tolist()) <= set(ids.tolist())


@pytest.mark.parametrize("V", [5, 9_000])
def test_logits_that_are_no_numbers_yield_an_id_of_the_vocabulary(V: int, device: torch.device) -> None:
    rows = Rows(V, device)
    rows.logits.fill_(torch.nan)
    tokens, _ = draw.draw_tokens(*rows.arguments())
    assert all(0 <= token < V for token in tokens.tolist())


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda tokens, q: (tokens + 1, q), "draws other tokens"),
        (lambda tokens, q: (tokens, q and (q[0] + 1, q[1])), "draws from other tokens"),
        (lambda tokens, q: (tokens, q and (q[0], q[1] + 0.1)), "differs from its reference by 0.1"),
    ],
)
def test_a_wrong_draw_is_found_before_it_is_used(spoil, reason, device: torch.device, monkeypatch) -> None:
    monkeypatch.setattr(draw, "draw_tokens", lambda *args, **how: spoil(*reference.draw_tokens(*args, **how)))
    with pytest.raises(check.WrongKernelError, match=reason):
        check._check_draw(device)
