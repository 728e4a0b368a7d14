"""The kernels of a flat forward compute what their references do, whatever the sizes, and write nowhere else."""

from __future__ import annotations

import pytest
import torch

from kernels import check, reference
from kernels.rms_norm import add_and_norm
from kernels.rotary import rotate_and_write
from kernels.silu_mul import silu_mul

DTYPES = (torch.float32, torch.bfloat16)
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 0.04}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [48, 576])
@pytest.mark.parametrize("has_added", [False, True])
def test_the_norm_is_of_the_sum_as_it_was_rounded(width, has_added, dtype, device) -> None:
    x, added = torch.randn(2, 3, width, device=device).to(dtype)
    weight = torch.randn(width, device=device).to(dtype)
    total, normed = add_and_norm(x, added if has_added else None, weight, 1e-5)
    expected, right = reference.add_and_norm(x, added if has_added else None, weight, 1e-5)
    torch.testing.assert_close(total, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    torch.testing.assert_close(normed, right, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    assert (total.data_ptr() == x.data_ptr()) is not has_added, "what taps have seen must not change"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n_kv", "group", "D"), [(1, 1, 64), (2, 3, 16), (2, 2, 80)])
def test_heads_are_rotated_and_each_token_goes_to_its_slot(n_kv, group, D, dtype, device) -> None:
    slot = torch.tensor([48, 17, 47, -1, 79, 16 * 6], device=device)
    heads = torch.randn(6, n_kv * (group + 2) * D, device=device).to(dtype)
    cos, sin = (angle.repeat(1, 2).to(dtype) for angle in torch.rand(2, 6, D // 2, device=device))
    pools = torch.randn(2, 6, n_kv, 16, D, device=device).to(dtype)
    expected = pools.clone()
    right = reference.rotate_and_write(heads, cos, sin, *expected, slot)
    queries = rotate_and_write(heads, cos, sin, *pools, slot)
    torch.testing.assert_close(queries, right, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    torch.testing.assert_close(pools, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    assert torch.equal(pools[1], expected[1]), "values are copied"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [40, 1500])
def test_the_activation_multiplies_the_second_half(size, dtype, device) -> None:
    both = torch.randn(3, 2 * size, device=device).to(dtype)
    torch.testing.assert_close(silu_mul(both), reference.silu_mul(both), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("name", "module", "function"),
    [("rms_norm", "rms_norm", "add_and_norm"), ("rotary", "rotary", "rotate_and_write"), ("silu_mul",) * 3],
)
def test_a_wrong_kernel_is_found_before_it_is_used(name, module, function, device, monkeypatch) -> None:
    right = getattr(getattr(check, module), function)

    def compute_wrongly(*arguments):
        found = right(*arguments)
        return (found[0], found[1] * 1.1) if isinstance(found, tuple) else found * 1.1

    monkeypatch.setattr(getattr(check, module), function, compute_wrongly)
    failures = check.find_failures(check.AttentionShape(1, 2, 16, torch.float32), "reference", device)
    assert set(failures) == {name}
    assert failures[name].startswith("differs from its reference by ")
