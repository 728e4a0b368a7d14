"""Every architecture decodes what transformers computes with it alone, or is refused with the reason.

Tiny models with random weights, large enough that attention matters; they differ in norm, position scheme, heads,
windows, biases, caps and sinks, and in whether their attention can be exchanged.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    __version__,
)

from decoding.attention.backends import OWN, get_backend
from decoding.attention.choice import pick_attention
from decoding.checks import compatibility
from decoding.checks.compatibility import select_attention
from decoding.config import EngineConfig
from decoding.engine import Engine
from decoding.models import loading
from decoding.models.errors import ModelError
from decoding.models.loaded import LoadedModel
from decoding.models.loading import find_exact_attention
from decoding.request import Completion, Request, SamplingParams
from kernels.registry import BACKENDS
from tests.decoding.conftest import SaveModel, disturbed
from tests.thorough import quick_first

N_TOKENS = 256  # one per byte: none of them ends a text
PROMPTS = [
    "def add(a, b):\n    return a + b\n\ndef add(a, b):",
    "x = 1\nx = ",
    "for line in lines:\n    print(line)\nfor",
]
SIZE = {"vocab_size": N_TOKENS, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
SMALL = {**SIZE, "intermediate_size": 96, "num_key_value_heads": 2, "max_position_embeddings": 512}
GPT = {"vocab_size": N_TOKENS, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 512}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
WINDOWS = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": 12}

PACKED: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", **SMALL},
    "qwen2": {"model_type": "qwen2", **SMALL},
    "qwen3 (query and key norms)": {"model_type": "qwen3", **SMALL, "head_dim": 24},
    "mistral (sliding window)": {"model_type": "mistral", **SMALL, "sliding_window": 16},
    "starcoder2 (layer norm, biases, window)": {"model_type": "starcoder2", **SMALL, "sliding_window": 24},
    "gemma2 (soft caps)": {"model_type": "gemma2", **SMALL, **WINDOWS, "head_dim": 16, "attn_logit_softcapping": 0.5},
    "gemma3 (mixed windows, scaled embeddings)": {"model_type": "gemma3_text", **SMALL, **WINDOWS, "head_dim": 16},
    "gpt_oss (sinks, experts)": {"model_type": "gpt_oss", **SMALL, **EXPERTS, **WINDOWS, "head_dim": 16},
    "llama4 (chunks)": {
        "model_type": "llama4_text", **SMALL, **EXPERTS, "intermediate_size_mlp": 96, "head_dim": 16,
        "attention_chunk_size": 128,
    },
    "deepseek_v2 (keys and values of two sizes)": {
        "model_type": "deepseek_v2", **SMALL, "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16,
        "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16, "first_k_dense_replace": 3,
    },
    "gpt-neox (partial rotary, parallel residual)": {
        "model_type": "gpt_neox", **SIZE, "intermediate_size": 96, "max_position_embeddings": 512
    },
    "gpt2 (learned positions)": {"model_type": "gpt2", **GPT},
}  # fmt: skip

ROW_BY_ROW: dict[str, dict[str, Any]] = {
    "codegen": {"model_type": "codegen", **GPT, "n_ctx": 512, "rotary_dim": 8},
    "gptj": {"model_type": "gptj", **GPT, "rotary_dim": 8},
    "gpt_neo (local attention)": {
        "model_type": "gpt_neo", "vocab_size": N_TOKENS, "hidden_size": 64, "num_layers": 2, "num_heads": 4,
        "window_size": 8, "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 512,
    },
    "falcon": {"model_type": "falcon", **SIZE},
    "falcon (ALiBi)": {"model_type": "falcon", **SIZE, "alibi": True, "multi_query": False},
    "stablelm": {"model_type": "stablelm", **SMALL},
    "bloom": {"model_type": "bloom", "vocab_size": N_TOKENS, "hidden_size": 64, "n_layer": 2, "n_head": 4},
    "mpt": {"model_type": "mpt", "vocab_size": N_TOKENS, "d_model": 64, "n_layers": 2, "n_heads": 4},
    "nemotron": {"model_type": "nemotron", **SMALL},
    "phimoe (a window that its attention is not told)": {
        "model_type": "phimoe", **SMALL, **EXPERTS, "sliding_window": 12
    },
}  # fmt: skip

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "recurrent_gemma": ({"model_type": "recurrent_gemma", **SMALL}, "keeps a state other than keys and values"),
    "mamba": ({"model_type": "mamba", **SIZE}, "keeps a state other than keys and values"),
    "mamba2": (
        {"model_type": "mamba2", **SIZE, "num_heads": 8, "head_dim": 16, "n_groups": 2, "state_size": 16},
        "keeps a state other than keys and values",
    ),
    "minimax": ({"model_type": "minimax", **SMALL}, "layers of type linear_attention"),
    "bert as an encoder": (
        {"model_type": "bert", **SIZE, "intermediate_size": 96},
        "see those behind them, so it is an encoder",
    ),
    "openai-gpt (no cache)": ({"model_type": "openai-gpt", **GPT}, "does not decode here as it does alone"),
}

FEW = ("qwen2", "gemma2 (soft caps)", "gpt_oss (sinks, experts)", "gpt_neo (local attention)", "falcon (ALiBi)")
"""Of each way to attend one; a thorough run has the others too."""

Load = Callable[[PreTrainedModel], LoadedModel]


def few_of(names: Iterable[str]) -> list[Any]:
    return [name if name in FEW else pytest.param(name, marks=pytest.mark.thorough) for name in names]


def random_model(settings: dict[str, Any]) -> PreTrainedModel:
    """A model whose next token depends on what its attention sees."""
    torch.manual_seed(0)
    nobody = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None, "tie_word_embeddings": False}
    config: PreTrainedConfig = AutoConfig.for_model(**settings, **nobody)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=find_exact_attention(config)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(5)
        for sinks in (weight for name, weight in model.named_parameters() if name.endswith("sinks")):
            sinks.normal_(0, 2)
        model.get_output_embeddings().weight.normal_(0, 0.4)
    return model


def fitted(load: Load, model: PreTrainedModel, attention: str = "auto") -> LoadedModel:
    own = model.config._attn_implementation
    loaded = replace(load(model), vocab_size=N_TOKENS)
    model.set_attn_implementation(own)
    select_attention(loaded, attention)
    return loaded


def alone(model: PreTrainedModel, prompt: torch.Tensor, n: int, *, use_cache: bool = False) -> list[int]:
    """What the model writes greedily by its own generate, with its own attention."""
    said = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=n, do_sample=False, use_cache=use_cache
    )
    ids: list[int] = said[0, prompt.shape[1] :].tolist()
    return ids


# One of each way to attend: without a window, with one, capped, mixed, with sinks, in chunks, of two sizes, row by row.
QUICK = [name for name in PACKED if not name.startswith(("qwen2", "mistral", "gpt"))] + [
    "codegen",
    "falcon (ALiBi)",
    "mpt",
]


@pytest.mark.parametrize("name", quick_first([*PACKED, *ROW_BY_ROW], [*QUICK, "gpt_oss (sinks, experts)"]))
def test_greedy_output_is_what_transformers_generates(name: str, loaded: Load) -> None:
    model = random_model((PACKED | ROW_BY_ROW)[name])
    tokenizer = loaded(random_model(PACKED["llama"])).tokenizer
    prompts = [torch.tensor([tokenizer(prompt)["input_ids"]]) for prompt in PROMPTS]
    want = [alone(model, prompt, 12) for prompt in prompts]
    target = fitted(loaded, model)
    assert get_backend(model) == (OWN if name in ROW_BY_ROW else BACKENDS[pick_attention("auto", model.device)])
    requests = [Request(p, n=2, sampling=SamplingParams(temperature=0), max_new_tokens=12) for p in PROMPTS]
    for drafter in ("none", "sibling"):
        # Three prompts of two samples in four places: rows part, end, and give their places to others.
        config = EngineConfig(target="tiny", drafter=drafter, draft_length="fixed:5", max_batch=4)
        for position, outcome in Engine(config, target, None).generate_many(requests):
            assert isinstance(outcome, Completion)
            assert [sample.token_ids for sample in outcome.samples] == [want[position]] * 2


@pytest.mark.parametrize("name", few_of([*PACKED, *ROW_BY_ROW]))
def test_a_prompt_from_the_prefix_cache_is_continued_in_the_same_way(name: str, loaded: Load) -> None:
    target = fitted(loaded, random_model((PACKED | ROW_BY_ROW)[name]))
    engine = Engine(EngineConfig(target="tiny", drafter="none"), target, None)
    first, second = PROMPTS[0] * 3, PROMPTS[0] * 3 + PROMPTS[1]
    for prompt, cached in ((first, 0), (second, 128), (second, 128)):
        asked = Request(prompt, n=2, seed=3, sampling=SamplingParams(temperature=0.8), max_new_tokens=6)
        plain, found = engine.generate(asked), engine.generate(replace(asked, prefix_cache=True))
        assert [s.token_ids for s in found.samples] == [s.token_ids for s in plain.samples]
        assert [s.logprobs for s in found.samples] == [s.logprobs for s in plain.samples]
        assert (plain.cached_tokens, found.cached_tokens) == (0, 0 if name in ROW_BY_ROW else cached)


@pytest.mark.parametrize("name", few_of([*PACKED, *ROW_BY_ROW]))
def test_a_prompt_scores_what_transformers_computes(name: str, loaded: Load) -> None:
    model = random_model((PACKED | ROW_BY_ROW)[name])
    target = fitted(loaded, copy.deepcopy(model))
    ids = target.tokenizer(PROMPTS[0] * 3)["input_ids"][:120]  # two pieces of a prefill, within any window of context
    with torch.inference_mode():
        want = model(torch.tensor([ids])).logits[0, :-1, : target.vocab_size].float().log_softmax(dim=1)
    engine = Engine(EngineConfig(target="tiny", drafter="none"), target, None)
    scored = engine.generate(Request(tuple(ids), max_new_tokens=1, prompt_logprobs=1)).prompt_logprobs
    assert scored is not None
    expected = want.gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    assert torch.allclose(torch.tensor([token.logprob for token in scored[1:]]), expected, atol=1e-4)
    assert torch.allclose(torch.tensor([token.top[0][1] for token in scored[1:]]), want.amax(dim=1), atol=1e-4)


@pytest.mark.parametrize("name", few_of(ROW_BY_ROW))
def test_row_by_row_every_drafter_writes_the_same_samples(name: str, loaded: Load) -> None:
    model = random_model(ROW_BY_ROW[name])
    target, draft = fitted(loaded, model), fitted(loaded, disturbed(random_model(ROW_BY_ROW[name]), 0.05))
    sampling = SamplingParams(temperature=0.8)
    requests = [Request(p, n=3, seed=7, sampling=sampling, max_new_tokens=10) for p in PROMPTS]
    written: dict[str, list[list[list[int]]]] = {}
    accepted = {}
    # How tokens are proposed does not depend on the architecture: one model meets every drafter.
    alone = ("ngram", "sibling") if name == "codegen" else ()
    for drafter in ("none", *alone, "./draft", "sibling+./draft"):
        config = EngineConfig(target="tiny", drafter=drafter, draft_length="fixed:3", max_batch=6)
        engine = Engine(config, target, draft if "draft" in drafter else None)
        outcomes = dict(engine.generate_many(requests))
        samples = [list(outcomes[i].samples) for i in range(len(requests))]  # type: ignore[union-attr]
        written[drafter] = [[sample.token_ids for sample in each] for each in samples]
        accepted[drafter] = sum(sample.n_accepted for each in samples for sample in each)
        assert engine.get_provenance()["attention"] == OWN.name
        if drafter == "./draft":
            one = engine.generate(requests[1])
            assert [sample.token_ids for sample in one.samples] == written["./draft"][1]
    assert all(texts == written["none"] for texts in written.values())
    assert accepted["./draft"] > 0
    assert len({tuple(tokens) for tokens in written["none"][0]}) > 1


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_decoded_is_refused_with_the_reason(name: str, loaded: Load) -> None:
    settings, reason = REFUSED[name]
    with pytest.raises(ModelError, match=f"tiny cannot be used: .*{reason}.*: choose a"):
        fitted(loaded, random_model(settings))


def test_state_outside_the_cache_is_found_without_being_declared(loaded: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compatibility, "_require_known_states", lambda _, is_known: None)
    with pytest.raises(ModelError, match="does not decode here as it does alone"):
        fitted(loaded, random_model(REFUSED["recurrent_gemma"][0]))


def test_tokens_that_see_the_one_before_them_in_the_pack_are_found(loaded: Load) -> None:
    """As with a convolution: the pack of a ragged batch puts another row's token before a row's first."""
    model = random_model(PACKED["llama"])
    model.model.layers[0].mlp.register_forward_hook(lambda _, __, out: out + 0.3 * F.pad(out, (0, 0, 1, -1)))
    with pytest.raises(ModelError, match=r"with attention 'sdpa' its logits are off by \d+"):
        fitted(loaded, model)


def test_a_mask_of_the_models_own_is_not_ignored(loaded: Load) -> None:
    """Doge masks out keys by their content, and tells its attention so by the mask alone."""
    if __version__.startswith("5.17."):
        pytest.skip("without a mask the tokens of this Doge see those behind them, so it is refused as an encoder")
    with pytest.raises(ModelError, match=r"takes a mask, which ours does not.*use attention auto instead of 'sdpa'"):
        fitted(loaded, random_model({"model_type": "doge", **SMALL}), "sdpa")
    assert get_backend(fitted(loaded, random_model({"model_type": "doge", **SMALL})).model) == OWN


def test_running_row_by_row_is_said_once_with_the_reason(loaded: Load, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "decoding"):
        fitted(loaded, random_model(ROW_BY_ROW["codegen"]))
        fitted(loaded, random_model(PACKED["llama"]))
    said = [record.getMessage() for record in caplog.records if record.name.startswith("decoding")]
    assert said == ["tiny: runs one row after the other, more slowly (its attention cannot be exchanged)"]


def test_the_models_own_windows_are_as_before_after_the_check(loaded: Load) -> None:
    model = fitted(loaded, random_model(PACKED["gemma3 (mixed windows, scaled embeddings)"])).model
    assert model.config.sliding_window == 12
    assert [layer.self_attn.sliding_window for layer in model.model.layers] == [12, None, 12]


@pytest.mark.parametrize(
    ("changes", "length"),
    [
        ({}, 512),
        ({"model_type": "llama4_text", "attention_chunk_size": 64, **EXPERTS}, 64),
        ({"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0,
                              "original_max_position_embeddings": 128}}, 128),
    ],
    ids=["llama", "chunks", "stretched rotary embedding"],
)  # fmt: skip
def test_a_context_ends_where_rows_would_no_longer_be_alone(
    changes: dict[str, Any], length: int, save_model: SaveModel
) -> None:
    folder = save_model(random_model({"model_type": "llama", **SMALL, **changes}))
    assert loading.load(folder, "float32", "cpu").context_length == length


def test_a_model_with_its_own_attention_loads_and_decodes(save_model: SaveModel) -> None:
    folder, news = save_model(random_model({**ROW_BY_ROW["codegen"], "vocab_size": 260})), list[str]()
    engine = Engine.load(EngineConfig(folder, dtype="float32", device="cpu"), news.append)
    assert news[-1] == "tiny: runs one row after the other, more slowly (its attention cannot be exchanged)"
    completion = engine.generate(Request(PROMPTS[0], n=4, max_new_tokens=6))
    assert all(sample.token_ids for sample in completion.samples)
