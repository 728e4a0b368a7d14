"""8-bit floating-point weights: nearly the same product, in the format that a GPU's tensor cores take."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from decoding.models import fp8
from decoding.models.errors import ModelError
from decoding.models.fp8 import Fp8Linear
from decoding.models.loaded import ModelSpec
from decoding.models.memory import count_weight_bytes
from decoding.prepare import load_model
from tests.decoding.conftest import tiny_qwen2


def multiplies_here() -> bool:
    layer = nn.Linear(32, 32)
    try:
        Fp8Linear(layer)(torch.zeros(1, 1, 32))
    except RuntimeError:
        return False
    return True


needs_product = pytest.mark.skipif(not multiplies_here(), reason="this PyTorch scales no rows of a product on a CPU")


@needs_product
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [False, True])
def test_it_is_close_to_the_dense_product(dtype, bias):
    torch.manual_seed(0)
    layer, x = nn.Linear(896, 512, bias=bias).to(dtype), torch.randn(1, 7, 896).to(dtype) * 3
    x[0, 2] = 0
    with torch.inference_mode():
        got, want = Fp8Linear(layer)(x), layer(x)
    assert (got.shape, got.dtype) == (want.shape, dtype)
    assert (got - want).float().norm() / want.float().norm() < 0.05
    if bias:
        assert torch.equal(got[0, 2], layer.bias)


@needs_product
def test_layers_of_other_sizes_stay_dense_and_the_model_still_runs():
    model = tiny_qwen2()
    before, ids = count_weight_bytes(model), torch.arange(20)[None]
    with torch.inference_mode():
        dense = model(ids).logits
        fp8.quantize(model)
        assert isinstance(model.model.layers[0].mlp.down_proj, Fp8Linear)
        assert type(model.lm_head) is nn.Linear, "its 260 outputs are no multiple of 16"
        wrong = (model(ids).logits - dense).norm() / dense.norm()
    assert wrong < 0.1
    assert count_weight_bytes(model) < before


def test_a_cpu_is_refused():
    with pytest.raises(ModelError, match="weights fp8 need a GPU that multiplies them"):
        load_model(ModelSpec("tiny", device="cpu", weights="fp8"))
