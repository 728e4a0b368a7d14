"""Randomness is a function of its key: independent of order, batch and device, and uniform."""

import torch
from scipy import stats

from decoding.acceptance.noise import Role, compute_sample_seed, draw_gumbel, draw_uniform


def keys(n: int) -> torch.Tensor:
    return torch.tensor([compute_sample_seed(0, i) for i in range(n)])


def test_a_draw_depends_on_its_key_alone() -> None:
    alone = draw_uniform(keys(3)[1:2], torch.tensor([7]), Role.ACCEPT)
    among_others = draw_uniform(keys(3), torch.tensor([9, 7, 1]), Role.ACCEPT)[1]
    assert alone.item() == among_others.item()


def test_seed_sample_position_role_and_token_each_change_the_draw() -> None:
    def draw(seed: int = 0, sample: int = 0, position: int = 0, role: Role = Role.SAMPLE, token: int = 0) -> float:
        key, at = torch.tensor([compute_sample_seed(seed, sample)]), torch.tensor([position])
        return draw_gumbel(key, at, role, torch.tensor([[token]])).item()

    draws = [draw(), draw(seed=1), draw(sample=1), draw(position=1), draw(role=Role.DRAFT), draw(token=1)]
    assert len(set(draws)) == len(draws)


def test_draws_are_uniform_over_every_axis() -> None:
    positions = torch.arange(20_000)
    by_position = draw_uniform(keys(1).expand(20_000), positions, Role.SAMPLE)
    by_token = draw_uniform(keys(1), positions[:1], Role.SAMPLE, positions[None])[0]
    by_sample = draw_uniform(keys(4000), positions[:1].expand(4000), Role.SAMPLE)
    for draws in (by_position, by_token, by_sample):
        assert stats.kstest(draws.numpy(), "uniform").pvalue > 1e-3


def test_gumbel_noise_is_finite() -> None:
    noise = draw_gumbel(keys(8), torch.arange(8), Role.SAMPLE, torch.arange(10_000).expand(8, -1))
    assert torch.isfinite(noise).all()
