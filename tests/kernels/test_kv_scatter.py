"""New keys and values land in their own slots and nowhere else."""

import pytest
import torch

from kernels import reference
from kernels.kv_scatter import write_kv
from kernels.rows import find_slots


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("n_heads", "D"), [(1, 64), (2, 80), (8, 128)])
@pytest.mark.parametrize("by_token", [True, False])
def test_each_token_goes_to_its_slot_and_none_past_the_table(n_heads, D, dtype, by_token, device) -> None:
    page_table = torch.tensor([[3, 1], [2, 4], [5, 2]], dtype=torch.int32, device=device)
    row = torch.tensor([0, 0, 2, 2, 2, 1], device=device)
    position = torch.tensor([0, 17, 31, 32, 100, 31], device=device)  # two of row 2 have no slot
    slot = find_slots(page_table, row, position, 16)
    assert slot.tolist() == [48, 17, 47, -1, -1, 79]
    cache = torch.randn(2, 6, *((16, n_heads) if by_token else (n_heads, 16)), D, device=device).to(dtype)
    cache = cache.transpose(2, 3) if by_token else cache
    # As the model computes them: [1, Hkv, N, D], seen by token.
    new = torch.randn(2, n_heads, 6, D, device=device).to(dtype).transpose(1, 2)
    expected = cache.clone()
    reference.write_kv(*expected, *new, slot)
    write_kv(*cache, *new, slot)
    assert torch.equal(cache, expected)
