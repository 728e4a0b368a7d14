"""The recurrence: one token after the other, states left alone by a round and advanced over what stays of it."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from kernels import check, recurrence, triton_recurrence
from kernels.recurrence import StateRows, TokenInputs
from tests.thorough import thorough

SLOTS, COUNTS = (3, 0, 5), (4, 1, 2)
STARTS, N = (0, 4, 5), 7


def random_tokens(
    device: torch.device, *, G: int, H: int, K: int, V: int, delta: bool, per_channel: bool
) -> TokenInputs:
    decay = torch.rand(N, H, K, device=device) if per_channel else torch.rand(N, H, device=device)
    q, k = torch.randn(2, N, G, K, device=device)
    return TokenInputs(
        q, k, torch.randn(N, H, V, device=device), decay, torch.rand(N, H, device=device) if delta else None
    )


SHAPES = [
    {"G": 2, "H": 4, "K": 16, "V": 40, "delta": True, "per_channel": False},
    {"G": 3, "H": 3, "K": 24, "V": 16, "delta": True, "per_channel": True},
    {"G": 1, "H": 4, "K": 16, "V": 8, "delta": False, "per_channel": False},
    {"G": 1, "H": 6, "K": 8, "V": 1, "delta": False, "per_channel": True},
]
IDS = ["gated delta", "a decay per channel", "mamba-2", "mamba"]


@pytest.mark.parametrize("by", [recurrence, triton_recurrence], ids=["pytorch", "triton"])
@pytest.mark.parametrize("shape", SHAPES, ids=IDS)
def test_a_round_is_its_tokens_one_after_the_other(by: ModuleType, shape: dict[str, int], device: torch.device) -> None:
    tokens = random_tokens(device, **shape)  # type: ignore[arg-type]
    states = torch.randn(6, shape["H"], shape["K"], shape["V"], device=device)
    before = states.clone()
    out, writes = by.run_tokens(states, StateRows(SLOTS, STARTS, COUNTS, device), tokens)
    assert torch.equal(states, before), "tokens that may be rejected change no state"
    kept = (2, 1, 0)
    by.advance_states(states, StateRows(SLOTS, STARTS, kept, device), writes)
    expected = before.clone()
    for slot, start, count, n in zip(SLOTS, STARTS, COUNTS, kept, strict=True):
        one = before.clone()
        for t in range(start, start + count):
            alone = StateRows((slot,), (t,), (1,), device)
            read, wrote = recurrence.run_tokens(one, alone, tokens)
            recurrence.advance_states(one, alone, wrote)
            torch.testing.assert_close(out[t], read[t], atol=1e-5, rtol=1e-5)
            if t < start + n:
                expected[slot] = one[slot]
    torch.testing.assert_close(states, expected, atol=1e-5, rtol=1e-5)


def test_a_round_has_the_same_bits_in_any_batch(device: torch.device) -> None:
    tokens = random_tokens(device, **SHAPES[0])  # type: ignore[arg-type]
    states = torch.randn(6, 4, 16, 40, device=device)
    together, _ = recurrence.run_tokens(states, StateRows(SLOTS, STARTS, COUNTS, device), tokens)
    for r in range(len(SLOTS)):
        row = StateRows(SLOTS[r : r + 1], STARTS[r : r + 1], COUNTS[r : r + 1], device)
        alone, _ = recurrence.run_tokens(states, row, tokens)
        at = slice(STARTS[r], STARTS[r] + COUNTS[r])
        assert torch.equal(together[at], alone[at])


def test_a_convolution_reads_its_own_rows_past(device: torch.device) -> None:
    weight, bias = torch.randn(6, 4, device=device), torch.randn(6, device=device)
    x, states = torch.randn(N, 6, device=device), torch.randn(6, 3, 6, device=device)
    before = states.clone()
    rows = StateRows(SLOTS, STARTS, COUNTS, device)
    out = recurrence.convolve(states, rows, x, weight, bias)
    assert torch.equal(states, before)
    for slot, start, count in zip(SLOTS, STARTS, COUNTS, strict=True):
        row = torch.cat([before[slot], x[start : start + count]])
        want = torch.nn.functional.conv1d(row.T[None], weight[:, None], bias, groups=6)[0].T
        torch.testing.assert_close(out[start : start + count], want, atol=1e-5, rtol=1e-5)
    recurrence.advance_pasts(states, StateRows(SLOTS, STARTS, (2, 1, 2), device), x)
    assert torch.equal(states[3], torch.cat([before[3, 2:], x[:2]]))
    assert torch.equal(states[5], torch.cat([before[5, 2:], x[5:7]]))
    assert torch.equal(states[1], before[1])


@pytest.mark.parametrize("shape", [SHAPES[0], *map(thorough, SHAPES[1:])], ids=IDS)
def test_the_kernel_is_compared_before_it_is_used(
    shape: dict[str, int], device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    like = random_tokens(device, **shape)  # type: ignore[arg-type]
    assert check.check_recurrence(like, device) is None
    right = triton_recurrence.run_tokens
    monkeypatch.setattr(triton_recurrence, "run_tokens", lambda *args: (right(*args)[0] * 1.01, right(*args)[1]))
    assert "differs from its reference" in str(check.check_recurrence(like, device))
    monkeypatch.setattr(triton_recurrence, "run_tokens", right)
    monkeypatch.setattr(triton_recurrence, "advance_states", lambda states, *_: states.fill_(torch.nan))
    assert "differs from its reference by nan" in str(check.check_recurrence(like, device)), "states alone are wrong"


@pytest.mark.parametrize("by", [recurrence, triton_recurrence], ids=["pytorch", "triton"])
@pytest.mark.parametrize("shape", SHAPES, ids=IDS)
def test_a_token_in_a_round_has_the_bits_that_it_has_alone(
    by: ModuleType, shape: dict[str, int], device: torch.device
) -> None:
    tokens = random_tokens(device, **shape)  # type: ignore[arg-type]
    states = torch.randn(6, shape["H"], shape["K"], shape["V"], device=device)
    together, _ = by.run_tokens(states, StateRows(SLOTS, STARTS, COUNTS, device), tokens)
    for slot, start, count in zip(SLOTS, STARTS, COUNTS, strict=True):
        for t in range(start, start + count):
            one = StateRows((slot,), (t,), (1,), device)
            read, writes = by.run_tokens(states, one, tokens)
            assert torch.equal(read[t], together[t])
            by.advance_states(states, one, writes)
