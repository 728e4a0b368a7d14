"""Every acceptance rule emits the target's distribution, and the tests would notice if it did not.

The statistical test is the joint one: a Markov target over 4 tokens, drafts of 2 from another chain, the first three
tokens of each row as one of 64 cells, rows of unequal draft length in one ragged batch, and a positive control.
"""

from functools import cache

import pytest
import torch

from decoding.acceptance.distribution import Distribution
from decoding.acceptance.noise import Role, compute_sample_seed
from decoding.acceptance.registry import RULES, make_rule
from decoding.acceptance.rule import Positions
from decoding.memory.layout import Layout
from kernels.rows import NO_TOKEN, RaggedRows

V = 4
CHI2_LIMIT = 103.44  # 63 degrees of freedom, 0.001
N_TRIALS = 12_000


def chain(seed: int) -> torch.Tensor:
    """Transition probabilities [V + 1, V]; row V is the start."""
    return (torch.randn(V + 1, V, generator=torch.Generator().manual_seed(seed)) * 1.2).softmax(dim=1)


TARGET, DRAFT = chain(1), chain(2)


def distribution(p: torch.Tensor) -> Distribution:
    return Distribution(torch.arange(V).expand(p.shape).contiguous(), p.log())


def where(layout: Layout) -> Positions:
    """One sample per row."""
    return Positions(layout.padded_index, layout.position[layout.padded_index] + 1)


def layout_of(lens: list[int], counts: list[int]) -> Layout:
    return Layout(RaggedRows.build(lens, counts, torch.device("cpu")), torch.arange(sum(counts)))


def one_round(name: str, keys: torch.Tensor, start: torch.Tensor, at: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draft k tokens from state `start` and verify; rows alternate between full drafts and drafts of one."""
    rule = make_rule("maximal" if name == "wrong" else name)
    R = len(keys)
    state, tokens, dists = start, [], []
    for j in range(k):
        dists.append(DRAFT[state])
        state = distribution(dists[-1]).sample(keys, torch.full((R,), at + j), rule.draft_role)
        tokens.append(state)
    draft = torch.stack(tokens, dim=1)
    draft[1::2, 1:] = NO_TOKEN
    counts = [1 + int((row != NO_TOKEN).sum()) for row in draft]
    layout = layout_of([at - 1] * R, counts)
    packed_states = torch.cat([torch.cat([start[r : r + 1], draft[r, : counts[r] - 1]]) for r in range(R)])
    target = distribution(TARGET[packed_states])
    q = distribution(torch.stack(dists, dim=1).flatten(0, 1)) if rule.needs_q else None
    accepted, emitted = rule.accept(target, where(layout), draft, keys, q)
    if name == "wrong":  # the positive control: plain p instead of the residual after a refusal
        at_refusal = layout.padded_index.gather(1, accepted[:, None])[:, 0]
        plain = target.select_rows(at_refusal).sample(keys, torch.full((R,), at + 77), Role.RESIDUAL)
        emitted = emitted.scatter(1, accepted[:, None], plain[:, None])
    return accepted, emitted


@cache
def first_three(rule: str) -> torch.Tensor:
    """Run rounds until every row has three tokens; return them [N_TRIALS, 3]."""
    keys = torch.tensor([compute_sample_seed(11, i) for i in range(N_TRIALS)])
    written: list[list[int]] = [[] for _ in range(N_TRIALS)]
    while todo := [r for r, tokens in enumerate(written) if len(tokens) < 3]:
        # Rows at the same length share a batch: Layout wants one start here, raggedness comes from the drafts.
        for length in {len(written[r]) for r in todo}:
            rows = [r for r in todo if len(written[r]) == length]
            start = torch.tensor([written[r][-1] if written[r] else V for r in rows])
            accepted, emitted = one_round(rule, keys[rows], start, length + 1, 2)
            for r, n, tokens in zip(rows, accepted.tolist(), emitted.tolist(), strict=True):
                written[r] += tokens[: n + 1]
    return torch.tensor([tokens[:3] for tokens in written])


def chi2(rule: str, parity: int) -> float:
    tokens = first_three(rule)[parity::2]
    observed = torch.bincount(tokens @ torch.tensor([V * V, V, 1]), minlength=V**3).double()
    a, b, c = torch.meshgrid(torch.arange(V), torch.arange(V), torch.arange(V), indexing="ij")
    expected = (TARGET[V][a] * TARGET[a, b] * TARGET[b, c]).flatten().double() * len(tokens)
    return float(((observed - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("parity", [0, 1], ids=["full drafts", "short drafts"])
def test_the_law_of_three_tokens_is_the_targets(rule: str, parity: int) -> None:
    assert chi2(rule, parity) < CHI2_LIMIT


def test_the_statistic_has_power_to_notice_a_wrong_residual() -> None:
    assert chi2("wrong", 0) > CHI2_LIMIT


@pytest.mark.parametrize("rule", RULES)
def test_a_draft_that_equals_the_target_is_always_accepted(rule: str) -> None:
    R, k = 200, 3
    keys = torch.tensor([compute_sample_seed(3, i) for i in range(R)])
    same = TARGET[V].expand(R, k + 1, V)
    made = make_rule(rule)
    draft = torch.stack(
        [distribution(same[:, j]).sample(keys, torch.full((R,), j + 1), made.draft_role) for j in range(k)], dim=1
    )
    layout = layout_of([0] * R, [k + 1] * R)
    p, q = distribution(same.flatten(0, 1)), distribution(same[:, :k].flatten(0, 1))
    accepted, _ = made.accept(p, where(layout), draft, keys, q)
    assert accepted.tolist() == [k] * R


@pytest.mark.parametrize("rule", RULES)
def test_a_draft_outside_the_targets_support_is_never_accepted(rule: str) -> None:
    R = 50
    keys = torch.tensor([compute_sample_seed(4, i) for i in range(R)])
    p = torch.tensor([0.5, 0.5, 0.0, 0.0]).expand(R * 2, V)
    layout = layout_of([0] * R, [2] * R)
    draft = torch.full((R, 1), 3)
    accepted, emitted = make_rule(rule).accept(distribution(p), where(layout), draft, keys, None)
    assert accepted.tolist() == [0] * R
    assert set(emitted[:, 0].tolist()) == {0, 1}


@pytest.mark.parametrize("rule", RULES)
def test_a_certain_draft_is_accepted_with_the_targets_probability(rule: str) -> None:
    R = 20_000
    keys = torch.tensor([compute_sample_seed(6, i) for i in range(R)])
    layout = layout_of([0] * R, [2] * R)
    p = torch.tensor([0.1, 0.6, 0.2, 0.1]).expand(R * 2, V)
    draft = torch.ones(R, 1, dtype=torch.int64)
    accepted, emitted = make_rule(rule).accept(distribution(p), where(layout), draft, keys, None)
    assert abs(accepted.double().mean() - 0.6) < 0.015
    share = torch.bincount(emitted[:, 0], minlength=V) / R
    assert (share - p[0]).abs().max() < 0.015
