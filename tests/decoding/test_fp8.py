"""8-bit floating-point weights: nearly the same product, in two forms, of which rounds always have the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from decoding.attention.backends import NAMES
from decoding.attention.runner import ModelRunner
from decoding.engine import Engine
from decoding.models import fp8
from decoding.models.errors import ModelError
from decoding.models.fp8 import Fp8Linear, read_prompt, require_gain
from decoding.models.fusion import fuse
from decoding.models.loaded import LoadedModel, ModelSpec
from decoding.models.memory import count_weight_bytes
from decoding.prepare import load_model
from decoding.request import Request, SamplingParams
from kernels import availability, reference
from tests.decoding.conftest import CUDA, tiny_qwen2
from tests.thorough import thorough

pytestmark = pytest.mark.skipif(availability.triton is None, reason="Triton is not installed")


def multiplies_here() -> bool:
    values, scale = reference.quantize_rows(torch.ones(32, 32, device="cuda" if CUDA else "cpu"))
    try:
        torch._scaled_mm(values, values.T, scale_a=scale, scale_b=scale.T, out_dtype=torch.bfloat16)
    except RuntimeError:
        return False
    return True


PROMPT = pytest.param(True, marks=pytest.mark.skipif(not multiplies_here(), reason="no product of rows with scales"))


def apply(layer: nn.Module, x: torch.Tensor, is_prompt: bool) -> torch.Tensor:
    if not is_prompt:
        return layer(x)
    with read_prompt():
        return layer(x)


@pytest.fixture(autouse=True)
def _accept_any_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny products are no faster on any GPU."""
    monkeypatch.setattr(fp8, "require_gain", lambda *_: None)


@pytest.fixture
def quantized(device: torch.device) -> PreTrainedModel:
    model = tiny_qwen2().to(device)
    fuse(model)
    fp8.quantize(model)
    model.set_attn_implementation(NAMES["sdpa"])
    return model


@pytest.mark.parametrize("is_prompt", [False, PROMPT])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [False, True])
@torch.inference_mode()
def test_it_is_close_to_the_dense_product(dtype, bias, is_prompt, device):
    torch.manual_seed(0)
    layer, x = nn.Linear(896, 64, bias=bias).to(device, dtype), torch.randn(1, 7, 896).to(device, dtype) * 3
    x[0, 2] = 0
    got, want = apply(Fp8Linear(layer), x, is_prompt), layer(x)
    assert (got.shape, got.dtype) == (want.shape, dtype)
    assert (got - want).float().norm() / want.float().norm() < 0.05
    if bias:
        assert torch.equal(got[0, 2], layer.bias)


@pytest.mark.parametrize("is_prompt", [False, PROMPT])
@torch.inference_mode()
def test_layers_of_other_sizes_stay_dense_and_the_model_still_runs(is_prompt, device):
    model = tiny_qwen2().to(device)
    before, ids = count_weight_bytes(model), torch.arange(20, device=device)[None]
    dense = model(ids).logits
    fp8.quantize(model)
    assert isinstance(model.model.layers[0].mlp.down_proj, Fp8Linear)
    assert type(model.lm_head) is nn.Linear, "its 260 outputs are no multiple of 16"
    assert (apply(lambda tokens: model(tokens).logits, ids, is_prompt) - dense).norm() / dense.norm() < 0.1
    assert count_weight_bytes(model) < before


@pytest.mark.parametrize("length", [thorough(5), 40])
@torch.inference_mode()
def test_only_a_prompt_quantizes_its_tokens_however_many_a_round_has(length, quantized, monkeypatch):
    """Else a text would depend on its batch, and on what is known of its prompt already."""
    seen: list[int] = []
    monkeypatch.setattr(Fp8Linear, "_multiply_bytes", lambda self, x: (seen.append(len(x)), self._multiply(x))[1])
    runner = ModelRunner(quantized, 256, 1)
    runner.start(0, range(length), 100).finish(0)
    assert set(seen) == {length}
    seen.clear()
    runner.forward([range(length)])
    assert not seen


@pytest.mark.thorough
def test_drafts_change_no_text(
    quantized: PreTrainedModel, loaded: Callable[..., LoadedModel], engine: Callable[..., Engine]
) -> None:
    request = Request("def f(x):\n", n=2, sampling=SamplingParams(temperature=0.8), max_new_tokens=6, seed=4)
    model = loaded(quantized)
    plain, drafted = (
        Engine(engine(drafter=drafter, draft_length="fixed:3").config, model, None).generate(request).samples
        for drafter in ("none", "sibling")
    )
    for one, other in zip(plain, drafted, strict=True):
        assert one.token_ids == other.token_ids
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_a_gpu_on_which_it_is_no_faster_is_refused_with_what_was_measured(device):
    layer, took = nn.Linear(4096, 64, dtype=torch.bfloat16, device=device), {Fp8Linear: 33.4, nn.Linear: 41.2}
    seen = []

    def time(of, x):
        seen.append(x.shape)
        return took[type(of)]

    require_gain(layer, time)
    took[Fp8Linear] = 41.2
    said = (
        r"no faster than bfloat16 on this GPU \(41 against 41 us for a product of 8 x 4,096 x 64\): give weights dense"
    )
    with pytest.raises(ModelError, match=said):
        require_gain(layer, time)
    assert set(seen) == {(8, 4096)}


@pytest.mark.gpu
def test_a_gpu_times_the_largest_product(device, monkeypatch):
    monkeypatch.setattr(fp8, "require_gain", lambda layer, time: timed.append((layer.out_features, time(layer, x))))
    timed: list[tuple[int, float]] = []
    model, x = nn.Sequential(nn.Linear(1024, 64), nn.Linear(1024, 4096)).to(device), torch.ones(8, 1024, device=device)
    fp8.quantize(model)
    ((size, microseconds),) = timed
    assert size == 4096
    assert 0 < microseconds < 1e6


def test_a_gpu_on_which_a_kernel_is_wrong_is_refused(monkeypatch):
    monkeypatch.setattr(fp8, "check_bytes", lambda *_: "differs from its reference by 2")
    with pytest.raises(ModelError, match=r"kernels that do not work here \(differs from its reference by 2\)"):
        fp8.quantize(tiny_qwen2())


def test_a_cpu_is_refused():
    with pytest.raises(ModelError, match="weights fp8 need a GPU that multiplies them"):
        load_model(ModelSpec("tiny", device="cpu", weights="fp8"))
