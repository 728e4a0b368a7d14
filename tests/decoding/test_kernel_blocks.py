"""The flat forward of a GPU computes what the model does, in few launches, and is given up where it does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from decoding.attention.backends import NAMES
from decoding.attention.flat_forward import FlatForward, get_flat_failure
from decoding.attention.graphs import forward
from decoding.attention.runner import ModelRunner
from decoding.attention.taps import TAPS
from decoding.checks import self_check
from decoding.checks.compatibility import select_attention
from decoding.engine import Engine
from decoding.models import fp8
from decoding.models.blocks import DenseBlocks, KernelBlocks
from decoding.models.fusion import fuse
from decoding.models.loaded import LoadedModel
from decoding.request import Request, SamplingParams
from kernels import byte_matmul, check, rms_norm, rotary, silu_mul, verify_attention
from tests.decoding.conftest import tiny_qwen2
from tests.thorough import thorough

KERNELS = (
    *((rms_norm, "_add_and_norm"), (rotary, "_rotate_and_write"), (silu_mul, "_silu_mul")),
    *((verify_attention, "_attend"), (verify_attention, "_merge"), (byte_matmul, "_byte_matmul")),
)
MAX_LAUNCHES = 10
TEXTS = ([*range(40, 52)], [*range(70, 75)])


def build_model(kind: str, n_layers: int = 2) -> PreTrainedModel:
    torch.manual_seed(3)
    sizes = {
        *(("vocab_size", 64), ("hidden_size", 32), ("intermediate_size", 48), ("num_hidden_layers", n_layers)),
        *(("num_attention_heads", 2), ("num_key_value_heads", 1), ("max_position_embeddings", 256)),
    }
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(**dict(sizes))).eval()
    return Qwen2ForCausalLM(Qwen2Config(**dict(sizes))).eval()


def use_kernels(model: PreTrainedModel) -> PreTrainedModel:
    """Let the model compute as on a GPU, in Triton's interpreter where there is none."""
    FlatForward.use_blocks(model, KernelBlocks(model))
    return model


@pytest.mark.parametrize(
    ("is_fused", "kind"),
    [(True, "llama"), (False, "qwen2"), thorough(True, "qwen2"), thorough(False, "llama")],
)
@torch.inference_mode()
def test_logits_and_taps_are_the_models_own(kind: str, is_fused: bool, device: torch.device) -> None:
    model = build_model(kind).to(device)
    texts = [[token % 64 for token in text] for text in TEXTS]
    own = [model(torch.tensor([text], device=device), output_hidden_states=True) for text in texts]
    if is_fused:
        fuse(model)
    model.set_attn_implementation(NAMES["sdpa"])
    runner = ModelRunner(use_kernels(model), 64, 2, taps=(0, 1))
    for row, text in enumerate(texts):
        runner.start(row, text[:3], 100).finish(row)
    found = torch.split(runner.forward([text[3:] for text in texts]), [len(text) - 3 for text in texts])
    runner.cache.commit([len(text) - 3 for text in texts])
    for row, (text, mine, theirs) in enumerate(zip(texts, found, own, strict=True)):
        torch.testing.assert_close(mine, theirs.logits[0, 3:], atol=1e-5, rtol=1e-4)
        states = torch.cat([theirs.hidden_states[tap][0] for tap in (0, 1)], dim=1)
        torch.testing.assert_close(
            runner.cache.read_recorded(TAPS, [(row, 0, len(text))]), states, atol=1e-5, rtol=1e-4
        )


class _CountedLaunches(TorchDispatchMode):
    """Counts operations of PyTorch that start a kernel on a GPU, and launches of Triton, which it does not run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()
        for module, name in KERNELS:
            monkeypatch.setattr(module, name, self._count(name))

    def _count(self, name: str) -> object:
        counted = self.seen

        class Kernel:
            def __getitem__(self, grid: object) -> Callable[..., None]:
                return lambda *_arguments, **_options: counted.update([name])

        return Kernel()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        is_view = any(a.alias_info is not None and not a.alias_info.is_write for a in function._schema.returns)
        if not is_view and "empty" not in function.__name__:
            self.seen[function.__name__] += 1
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("has_bytes", [False, True])
@torch.inference_mode()
def test_a_layer_is_at_most_ten_launches(
    has_bytes: bool, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fp8, "require_gain", lambda *_: None)
    by_depth = []
    for n_layers in (2, 3):
        model = build_model("qwen2", n_layers).to(device)
        fuse(model)
        if has_bytes:
            fp8.quantize(model)
        model.set_attn_implementation(NAMES["ragged"])
        runner = ModelRunner(use_kernels(model), 64, 4)
        for row in range(4):
            runner.cache.start(row, 100)
        runner.cache.prepare([5] * 4)
        with monkeypatch.context() as patched, _CountedLaunches(patched) as launches:
            nothing = torch.zeros(4, 5, dtype=torch.int64, device=device)
            forward(runner, nothing, nothing[:, 0])
        by_depth.append(launches.seen)
    layer = by_depth[1] - by_depth[0]
    assert layer["_add_and_norm"] == 2
    assert layer["_byte_matmul"] == 4 * has_bytes
    assert layer["_attend"] == layer["_rotate_and_write"] == layer["_silu_mul"] == 1
    assert layer.total() <= MAX_LAUNCHES, layer


@pytest.fixture
def by_kernels(loaded: Callable[..., LoadedModel]) -> LoadedModel:
    return loaded(use_kernels(tiny_qwen2()))


def test_texts_are_those_of_the_models_own_forward(
    by_kernels: LoadedModel, engine: Callable[..., Engine], target: LoadedModel
) -> None:
    request = Request("def f(x):\n", n=2, sampling=SamplingParams(temperature=0.8), max_new_tokens=6, seed=4)
    expected = [sample.token_ids for sample in engine().generate(request).samples]
    for drafter in ("none", "sibling"):
        mine = Engine(engine(drafter=drafter).config, by_kernels, None).generate(request)
        assert [sample.token_ids for sample in mine.samples] == expected


def test_a_model_keeps_its_own_forward_where_the_flat_one_is_wrong(
    loaded: Callable[..., LoadedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> object:
        raise RuntimeError("a compiler's error")

    model = loaded(tiny_qwen2())
    for is_right in (True, False):
        model.model.set_attn_implementation("eager")
        if not is_right:
            monkeypatch.setattr(DenseBlocks, "steps", fail)
        said: list[str] = []
        select_attention(model, "sdpa", said.append)
        assert [("own forward" in line, "a compiler's error" in line) for line in said] == [(True, True)] * (
            not is_right
        )
        assert (get_flat_failure(model.model) is None) is is_right
        assert (FlatForward.find_for(model.model) is not None) is is_right
    assert "a compiler's error" in str(get_flat_failure(model.model))


def test_a_wrong_kernel_of_a_layer_is_named_and_not_used(
    loaded: Callable[..., LoadedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded(use_kernels(tiny_qwen2()))
    model.model.set_attn_implementation(NAMES["ragged"])
    monkeypatch.setattr(check, "find_failures", lambda *_: {"rotary": "writes elsewhere"})
    assert FlatForward.find_for(model.model) is not None
    assert self_check.check_kernels(model) == {"rotary": "writes elsewhere"}
    assert FlatForward.find_for(model.model) is None
    assert get_flat_failure(model.model) == "writes elsewhere"
