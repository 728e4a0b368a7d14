"""The acceptance kernel decides as the engine's rules do, token for token, and with the same noise."""

from __future__ import annotations

import pytest
import torch

from decoding.acceptance.coupled import CoupledRule
from decoding.acceptance.distribution import Distribution
from decoding.acceptance.maximal import MaximalRule
from decoding.acceptance.noise import Role, compute_sample_seed
from decoding.acceptance.rule import Positions
from kernels import accept, reference
from kernels.availability import jit, tl
from kernels.noise import compute_role_offset, compute_state, draw_uniform, to_gumbel, to_uniform
from kernels.rows import NO_TOKEN


def sparse(n: int, width: int, device: torch.device, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`n` distributions over `width` of 2 * width ids, a fifth of them without mass."""
    make = torch.Generator().manual_seed(seed)
    ids = torch.stack([torch.randperm(2 * width, generator=make)[:width] for _ in range(n)])
    logits = torch.randn(n, width, generator=make) * 2
    logits[:, 1:][torch.rand(n, width - 1, generator=make) < 0.2] = float("-inf")
    return ids.to(device), logits.log_softmax(1).to(device)


class Step:
    """S samples of a ragged batch at T positions; some rows propose less than others."""

    def __init__(self, S: int, T: int, width: int, device: torch.device) -> None:
        self.p = sparse(S * T, width, device, 1)
        self.at = torch.arange(S * T, device=device).view(S, T)
        self.position = torch.arange(100, 100 + S, device=device)[:, None] * 3 + torch.arange(T, device=device)
        self.keys = torch.tensor([compute_sample_seed(5, s) for s in range(S)], device=device)
        # The target's own tokens, so that drafts stand for a while; then what a drafter says.
        where = Positions(self.at, self.position)
        _, own = CoupledRule().accept(Distribution(*self.p), where, self.draft_of(S, T), self.keys, None)
        self.draft = own[:, :-1].clone()
        for s in range(S):
            self.draft[s, s + 1 :] = NO_TOKEN if s % 2 else 0

    def draft_of(self, S: int, T: int) -> torch.Tensor:
        return self.at.new_full((S, T - 1), NO_TOKEN)


SHAPES = [(1, 1, 1), (3, 2, 1), (4, 5, 40), (2, 33, 7), (3, 3, 1500)]


def assert_same(ours: tuple[torch.Tensor, torch.Tensor], theirs: tuple[torch.Tensor, torch.Tensor]) -> None:
    assert ours[0].tolist() == theirs[0].tolist()
    for s, n in enumerate(ours[0].tolist()):
        assert ours[1][s, : n + 1].tolist() == theirs[1][s, : n + 1].tolist(), f"sample {s}"


@pytest.mark.parametrize(("S", "T", "width"), SHAPES)
def test_the_coupled_rule_is_the_engines(S: int, T: int, width: int, device: torch.device) -> None:
    step = Step(S, T, width, device)
    where = Positions(step.at, step.position)
    ours = accept.accept_coupled(*step.p, step.at, step.position, step.draft, step.keys, Role.SAMPLE)
    assert_same(ours, CoupledRule().accept(Distribution(*step.p), where, step.draft, step.keys, None))
    plain = reference.accept_coupled(*step.p, step.at, step.position, step.draft, step.keys, Role.SAMPLE)
    assert torch.equal(ours[1], plain[1])
    assert torch.equal(ours[0], plain[0])


@pytest.mark.parametrize(("S", "T", "width"), SHAPES)
@pytest.mark.parametrize("certain", [True, False], ids=["lookup", "model"])
def test_the_maximal_rule_is_the_engines(S: int, T: int, width: int, certain: bool, device: torch.device) -> None:
    step = Step(S, T, width, device)
    q = None if certain or T == 1 else sparse(S * (T - 1), width, device, 2)
    where = Positions(step.at, step.position)
    arguments = (*step.p, step.at, step.position, step.draft, step.keys, q, Role.ACCEPT, Role.RESIDUAL)
    ours = accept.accept_maximal(*arguments)
    theirs = MaximalRule().accept(Distribution(*step.p), where, step.draft, step.keys, q and Distribution(*q))
    assert_same(ours, theirs)
    plain = reference.accept_maximal(*arguments)
    assert torch.equal(ours[1], plain[1])
    assert torch.equal(ours[0], plain[0])


def test_equal_distributions_leave_no_residual_and_every_draft_is_accepted(device: torch.device) -> None:
    S, T = 3, 4
    step = Step(S, T, 20, device)
    q = tuple(t.view(S, T, -1)[:, :-1].flatten(0, 1) for t in step.p)
    draft = (
        Distribution(*q)
        .sample(step.keys.repeat_interleave(T - 1), step.position[:, :-1].flatten(), Role.DRAFT)
        .view(S, T - 1)
    )
    accepted, _ = accept.accept_maximal(
        *step.p, step.at, step.position, draft, step.keys, q, Role.ACCEPT, Role.RESIDUAL
    )
    assert accepted.tolist() == [T - 1] * S


def test_logits_that_are_no_numbers_yield_an_id_of_the_vocabulary(device: torch.device) -> None:
    ids, logp = sparse(2, 8, device, 3)
    at, position = torch.tensor([[0, 1]], device=device), torch.tensor([[4, 5]], device=device)
    draft, keys = torch.tensor([[3]], device=device), torch.tensor([9], device=device)
    _, emitted = accept.accept_coupled(ids, logp.fill_(torch.nan), at, position, draft, keys, Role.SAMPLE)
    assert 0 <= emitted[0, 0] < 16


@jit
def _noise(out, gumbel_out, keys, positions, tokens, N: tl.constexpr, OFFSET: tl.constexpr):
    n = tl.arange(0, N)
    state = compute_state(tl.load(keys + n), tl.load(positions + n), OFFSET)
    tl.store(out + n, to_uniform(state))
    tl.store(gumbel_out + n, to_gumbel(state, tl.load(tokens + n)))


@pytest.mark.parametrize("role", list(Role))
def test_the_noise_is_the_same_bit_for_bit(role: Role, device: torch.device) -> None:
    N = 1024
    keys = torch.tensor([compute_sample_seed(2**62, n) for n in range(N)], device=device)
    positions = torch.arange(N, device=device) * 7
    tokens = torch.randint(0, 152_000, (N,), device=device)
    out, gumbel_out = keys.new_empty(N, dtype=torch.float64), keys.new_empty(N, dtype=torch.float64)
    _noise[(1,)](out, gumbel_out, keys, positions, tokens, N=N, OFFSET=compute_role_offset(role))
    assert torch.equal(out, draw_uniform(keys, positions, role))
    by_token = -torch.log(-torch.log(draw_uniform(keys, positions, role, tokens[:, None])[:, 0]))
    # The bits are the same; logarithms of two libraries may differ in the last place.
    assert torch.allclose(gumbel_out, by_token, rtol=1e-14, atol=1e-14)
