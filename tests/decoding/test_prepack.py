"""Prepacked linear layers compute what the plain ones do, and only where they can."""

import pytest
import torch
from torch import nn

from decoding.models import packing
from decoding.models.packing import PackedLinear, list_packed_dtypes, prepack
from tests.decoding.conftest import skip_where_products_depend_on_the_batch


def network(dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(48, 20, bias=False), nn.Tanh())
    return nn.Sequential(nn.Linear(32, 48), inner).to(dtype)


@pytest.mark.parametrize("dtype", list_packed_dtypes())
def test_the_product_is_the_same(dtype: torch.dtype) -> None:
    plain, packed = network(dtype), network(dtype)
    prepack(packed)
    with torch.inference_mode():
        for n in (1, 7, 64):
            x = torch.randn(1, n, 32, dtype=dtype)
            torch.testing.assert_close(packed(x), plain(x), atol=2e-2, rtol=2e-2)
    assert isinstance(packed[0], PackedLinear)
    assert isinstance(packed[1][0], PackedLinear)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_formats_that_onednn_does_not_pack_here_are_left_alone(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "list_packed_dtypes", lambda: (torch.float32,))
    model = network(dtype)
    prepack(model)
    assert not any(isinstance(module, PackedLinear) for module in model.modules())


@pytest.mark.parametrize("dtype", list_packed_dtypes())
def test_a_token_s_product_does_not_depend_on_how_many_there_are(dtype: torch.dtype) -> None:
    skip_where_products_depend_on_the_batch(dtype)
    if dtype is torch.bfloat16 and torch.cpu.get_capabilities().get("amx_bf16"):
        pytest.skip(
            "with AMX, oneDNN sums bf16 in another order in the last tile of a large product (docs/decoding-texts.md)"
        )
    # Few products in bf16 differ visibly where sums differ in their order: many rows make it certain.
    torch.manual_seed(0)
    layer = PackedLinear(nn.Linear(1536, 576).to(dtype))
    x = torch.randn(1, 60, 1536).to(dtype)
    with torch.inference_mode():
        together = layer(x)
        for n in (1, 2, 3, 7, 20):
            apart = torch.cat([layer(x[:, i : i + n]) for i in range(0, 60 - n + 1, n)], dim=1)
            assert torch.equal(apart, together[:, : apart.shape[1]]), n
