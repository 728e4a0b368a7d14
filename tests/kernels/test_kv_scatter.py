"""New keys and values land in their own slots of the pool and nowhere else."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import reference
from kernels.kv_scatter import kv_scatter
from kernels.native_attention import scatter
from kernels.rows import find_slots


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("n_heads", "D"), [(1, 64), (2, 80), (8, 128)])
def test_each_token_goes_to_its_slot_and_none_outside_the_pool(n_heads, D, dtype, device) -> None:
    slot = torch.tensor([16, 17, 57, -1, 63, 64], device=device)  # the fourth has none, the last lies past the end
    pool = torch.randn(2, 4, 16, n_heads, D, device=device).to(dtype).transpose(2, 3)
    # As the model computes them: [1, Hkv, N, D], seen by token.
    new = torch.randn(2, n_heads, 6, D, device=device).to(dtype).transpose(1, 2)
    expected = pool.clone()
    reference.kv_scatter(*expected, *new, slot)
    kv_scatter(*pool, *new, slot)
    assert torch.equal(pool, expected)
    assert torch.equal(pool[0, 3, :, 9], new[0, 2])


@settings(deadline=None, max_examples=40)
@given(
    slots=st.sets(st.integers(0, 4 * 32 - 1), max_size=40),
    missing=st.integers(0, 3),
    page_size=st.sampled_from([16, 32]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    by_token=st.booleans(),
)
def test_the_program_for_cpus_writes_what_the_reference_writes(
    slots: set[int], missing: int, page_size: int, dtype: torch.dtype, by_token: bool
) -> None:
    slot = torch.tensor([*slots, *[-1] * missing], dtype=torch.int64)
    pool = torch.randn(2, 4, page_size, 2, 24).to(dtype).transpose(2, 3)
    pool = pool if by_token else pool.contiguous()
    new = torch.randn(2, 2, len(slot), 24).to(dtype).transpose(1, 2)
    expected = pool.clone()
    reference.kv_scatter(*expected, *new, slot)
    scatter(*pool, *new, slot)
    assert torch.equal(pool, expected)


def test_a_token_s_slot_is_found_in_its_row_s_pages_and_none_past_the_table(device: torch.device) -> None:
    blocks = torch.tensor([[3, 1], [2, 0]], dtype=torch.int32, device=device)
    row, position = torch.tensor([[0, 0, 0, 1, 0], [0, 15, 16, 3, 32]], device=device)
    slot = find_slots(blocks, row, position, 16)
    assert slot.dtype is torch.int64
    assert slot.tolist() == [48, 63, 16, 35, -1]
