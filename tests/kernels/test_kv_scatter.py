"""New keys and values land in their own rows' slots and nowhere else."""

import pytest
import torch

from kernels import reference
from kernels.kv_scatter import kv_scatter


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("n_heads", "D"), [(1, 64), (2, 80), (8, 128)])
def test_each_token_goes_to_its_slot_and_none_past_the_end(n_heads, D, dtype, device) -> None:
    row = torch.tensor([0, 0, 2, 2, 2, 3], device=device)
    position = torch.tensor([0, 1, 9, 10, 11, 4], device=device)  # the last two of row 2 have no slot
    cache = torch.randn(2, 4, n_heads, 10, D, device=device).to(dtype)
    # As the model computes them: [1, Hkv, N, D], seen by token.
    new = torch.randn(2, n_heads, 6, D, device=device).to(dtype).transpose(1, 2)
    expected = cache.clone()
    reference.kv_scatter(*expected, *new, row, position)
    kv_scatter(*cache, *new, row, position)
    assert torch.equal(cache, expected)
