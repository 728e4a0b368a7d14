"""Prepacked linear layers compute what the plain ones do, and only where they can."""

import torch
from torch import nn

from decoding.prepack import PackedLinear, prepack


def network(dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(48, 20, bias=False), nn.Tanh())
    return nn.Sequential(nn.Linear(32, 48), inner).to(dtype)


def test_the_product_is_the_same() -> None:
    plain, packed = network(torch.bfloat16), network(torch.bfloat16)
    prepack(packed)
    with torch.inference_mode():
        for n in (1, 7, 64):
            x = torch.randn(1, n, 32, dtype=torch.bfloat16)
            torch.testing.assert_close(packed(x), plain(x), atol=2e-2, rtol=2e-2)
    assert isinstance(packed[0], PackedLinear)
    assert isinstance(packed[1][0], PackedLinear)


def test_float32_is_left_alone() -> None:
    model = network(torch.float32)
    prepack(model)
    assert not any(isinstance(module, PackedLinear) for module in model.modules())
