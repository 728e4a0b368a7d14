"""One code path for every architecture: greedy output is what transformers computes, eagerly and without a cache.

Tiny models with random weights; they differ in norm, position scheme, heads, windows and biases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, PreTrainedConfig, PreTrainedModel
from transformers import Gemma3TextConfig as Gemma3
from transformers import GPTNeoXConfig as GPTNeoX
from transformers import LlamaConfig as Llama
from transformers import MistralConfig as Mistral
from transformers import Qwen2Config as Qwen2
from transformers import Qwen3Config as Qwen3
from transformers import Starcoder2Config as Starcoder2

from decoding.config import EngineConfig
from decoding.engine import Engine
from decoding.models import LoadedModel
from decoding.request import Request, SamplingParams

EOS = 256
PROMPT = "def add(a, b):\n    return a + b\n\ndef add(a, b):"
SHAPE = {"vocab_size": 260, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512}
SMALL = {**SHAPE, **HEADS, "tie_word_embeddings": False}

CONFIGS: dict[str, PreTrainedConfig] = {
    "llama": Llama(**SMALL),
    "qwen2": Qwen2(**SMALL),
    "qwen3 (query and key norms)": Qwen3(**SMALL, head_dim=24),
    "mistral (sliding window)": Mistral(**SMALL, sliding_window=16),
    "starcoder2 (layer norm, biases, window)": Starcoder2(**SMALL, sliding_window=24),
    "gemma3 (mixed windows, scaled embeddings)": Gemma3(**SMALL, head_dim=16, sliding_window=12),
    "gpt-neox (partial rotary, parallel residual)": GPTNeoX(
        **SHAPE, num_attention_heads=4, max_position_embeddings=512
    ),
    "gpt2 (learned positions)": GPT2Config(vocab_size=260, n_embd=64, n_layer=2, n_head=4, n_positions=512),
}


def random_model(config: PreTrainedConfig) -> PreTrainedModel:
    torch.manual_seed(0)
    config.bos_token_id = config.eos_token_id = config.pad_token_id = None
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        model.get_output_embeddings().weight.normal_(0, 0.4)
    return model


@pytest.mark.parametrize("name", CONFIGS)
def test_greedy_output_is_what_transformers_computes(
    name: str, loaded: Callable[[PreTrainedModel], LoadedModel]
) -> None:
    model = random_model(CONFIGS[name])
    target = replace(loaded(model), vocab_size=EOS)
    prompt = torch.tensor([target.tokenizer(PROMPT)["input_ids"]])
    model.set_attn_implementation("eager")
    never = torch.ones(260, dtype=torch.bool)
    never[:EOS] = False
    with torch.inference_mode():
        ids = prompt
        for _ in range(40):
            logits = model(ids, use_cache=False).logits[0, -1].masked_fill(never, float("-inf"))
            ids = torch.cat([ids, logits.argmax().view(1, 1)], dim=1)
    model.set_attn_implementation("ragged_cache")
    for drafter in ("none", "sibling"):
        engine = Engine(EngineConfig(target="tiny", drafter=drafter, draft_length="fixed:5"), target, None)
        greedy = Request(PROMPT, n=2, sampling=SamplingParams(temperature=0), max_new_tokens=40)
        for sample in engine.generate(greedy).samples:
            assert sample.token_ids == ids[0, prompt.shape[1] :].tolist()
