"""Every attention decodes the same tokens, and one that does not run here is refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import (
    AttentionInterface,
    AutoModelForCausalLM,
    DeepseekV2Config,
    Gemma2Config,
    GptOssConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedModel,
)

from decoding.attention.backends import NAMES, get_backend
from decoding.attention.choice import pick_attention
from decoding.checks import compatibility
from decoding.checks.compatibility import select_attention
from decoding.config import EngineConfig
from decoding.engine import Engine
from decoding.limits import MAX_DRAFT_LENGTH
from decoding.models.errors import ModelError
from decoding.models.loaded import LoadedModel
from decoding.request import Request, RequestError, SamplingParams
from kernels import availability, native_attention
from kernels.registry import BACKENDS
from kernels.rows import RaggedRows

pytest.importorskip("triton")
SMALL = {"vocab_size": 260, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
         "tie_word_embeddings": False}  # fmt: skip
MIXED = {"head_dim": 16, "sliding_window": 12, "layer_types": ["sliding_attention", "full_attention"]}
CONFIGS = {
    "llama": LlamaConfig(**SMALL),
    "mistral (sliding window)": MistralConfig(**SMALL, sliding_window=12),
    "gemma2 (soft caps)": Gemma2Config(**SMALL, **MIXED, attn_logit_softcapping=0.5),
    "gpt_oss (sinks)": GptOssConfig(**SMALL, **MIXED, num_local_experts=2, num_experts_per_tok=1),
}


@pytest.mark.parametrize(
    "name", ["llama", *(pytest.param(n, marks=pytest.mark.thorough) for n in CONFIGS if n != "llama")]
)
def test_every_attention_decodes_the_same_tokens(name: str, loaded: Callable[[PreTrainedModel], LoadedModel]) -> None:
    torch.manual_seed(0)
    target = loaded(AutoModelForCausalLM.from_config(CONFIGS[name]).eval())
    config = EngineConfig(target="tiny", drafter="sibling", draft_length="fixed:3")
    request = Request("def add(a, b):", n=2, sampling=SamplingParams(temperature=0.8), max_new_tokens=4)
    written = {}
    for variant, implementation in NAMES.items():
        target.model.set_attn_implementation(implementation)
        engine = Engine(config, target, None)
        written[variant] = [sample.token_ids for sample in engine.generate(request).samples]
        assert engine.get_provenance()["attention"] == variant
    assert written == dict.fromkeys(NAMES, written["sdpa"])


def test_a_kernel_that_a_model_is_too_much_for_gives_way_to_pytorch(
    loaded: Callable[[PreTrainedModel], LoadedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = DeepseekV2Config(
        **SMALL | {"num_key_value_heads": 4}, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=16,
        v_head_dim=16, first_k_dense_replace=2,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config).eval()
    own = model.config._attn_implementation
    target = loaded(model)
    monkeypatch.setattr(compatibility, "pick_attention", lambda *_: "ragged")
    model.set_attn_implementation(own)
    news: list[str] = []
    select_attention(target, "auto", news.append)
    assert get_backend(model) == BACKENDS["sdpa"]
    why = "with attention 'ragged' it fails (its keys and values differ in size)"
    assert news == [f"tiny: runs with attention 'sdpa' ({why})"]
    model.set_attn_implementation(own)
    with pytest.raises(ModelError, match=r"keys and values differ in size.*use attention auto instead of 'ragged'"):
        select_attention(target, "ragged")


def test_a_cpu_takes_native_and_without_a_compiler_sdpa(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cpu = torch.device("cpu")
    assert pick_attention("auto", cpu) == "native"
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    native_attention.load_library.cache_clear()
    assert pick_attention("auto", cpu) == "sdpa"
    with pytest.raises(ModelError, match=r"attention 'native' does not run here.*needs a C compiler: install gcc"):
        pick_attention("native", cpu)


def test_a_cpu_refuses_triton_without_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    monkeypatch.setattr(availability, "INTERPRETED", True)
    assert pick_attention("split", cpu) == "split"
    monkeypatch.setattr(availability, "INTERPRETED", False)
    with pytest.raises(ModelError, match=r"attention 'ragged' does not run here. Triton kernels need a GPU"):
        pick_attention("ragged", cpu)


def test_a_gpu_takes_the_ragged_kernel_where_triton_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = torch.device("cuda")
    assert pick_attention("auto", gpu) == "ragged"
    monkeypatch.setattr(availability, "triton", None)
    assert pick_attention("auto", gpu) == "sdpa"


def test_an_unknown_attention_is_refused_by_name() -> None:
    with pytest.raises(RequestError, match="attention is 'flash': use one of auto, sdpa, native, ragged"):
        EngineConfig(target="x", attention="flash")


@pytest.mark.parametrize("name", BACKENDS)
def test_every_declared_backend_can_be_named_and_is_registered(name: str) -> None:
    assert EngineConfig(target="x", attention=name).attention == name
    assert NAMES[name] in AttentionInterface().valid_keys()


def test_each_backend_runs_with_what_it_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend that wrongly claims to do without Triton would fail in a run instead of at its start."""
    monkeypatch.setattr(availability, "triton", None)
    R, T, heads = 2, 3, 2
    q, (k, v) = torch.randn(R * T, heads, 16), torch.randn(2, R + 1, heads, 16, 16)
    page_table = torch.tensor([[2], [1]], dtype=torch.int32)
    rows = RaggedRows.build([4, 1], [T] * R, torch.device("cpu"), page_table, 16)
    for backend in BACKENDS.values():
        if backend.needs_triton:
            with pytest.raises(availability.KernelError):
                backend.load()(q, k, v, rows, 0.25)
        elif backend.function:
            assert backend.load()(q, k, v, rows, 0.25).shape == q.shape


def test_a_kernel_reads_the_longest_draft_and_the_token_after_it():
    limits = [backend.max_tokens for backend in BACKENDS.values() if backend.max_tokens is not None]
    assert limits
    assert min(limits) > MAX_DRAFT_LENGTH
