"""Tiny hybrid models of every family: attention beside recurrent layers, with random weights."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from transformers import CONFIG_MAPPING

from decoding.drafters.base import Drafter
from decoding.state.proposal import Match, Proposal
from decoding.state.row import Row

N_TOKENS = 256
SIZE = {"vocab_size": N_TOKENS, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
        "max_position_embeddings": 512}  # fmt: skip
SMALL = {**SIZE, "intermediate_size": 96, "num_key_value_heads": 2}
CONV = {"layer_types": ["conv", "full_attention", "conv"]}
DELTA = {"layer_types": ["linear_attention", "full_attention", "linear_attention"], "head_dim": 16,
         "linear_num_value_heads": 32, "linear_num_key_heads": 4, "linear_key_head_dim": 8,
         "linear_value_head_dim": 8}  # fmt: skip
MAMBA2 = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 2, "mamba_d_state": 16, "mamba_expand": 2,
          "mamba_d_conv": 4, "mamba_chunk_size": 16}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
SHARED = {**EXPERTS, "shared_expert_intermediate_size": 32}

DENSE: dict[str, dict[str, Any]] = {
    "lfm2": {"model_type": "lfm2", **SMALL, **CONV},
    "qwen3_5": {"model_type": "qwen3_5_text", **SMALL, **DELTA},
    "olmo_hybrid": {"model_type": "olmo_hybrid", **SMALL, **DELTA},
    "bamba": {"model_type": "bamba", **SMALL, **MAMBA2, "attn_layer_indices": [1]},
    "falcon_h1": {"model_type": "falcon_h1", **SMALL, **MAMBA2, "mamba_d_ssm": 128, "head_dim": 16},
}
"""Of these a token's bits do not depend on its batch."""

OTHERS: dict[str, dict[str, Any]] = {
    "lfm2_moe": {"model_type": "lfm2_moe", **SMALL, **CONV, **EXPERTS, "num_dense_layers": 1},
    "lfm3": {"model_type": "lfm3", **SMALL, **CONV},
    "bailing_hybrid": {
        "model_type": "bailing_hybrid", **SMALL, "layer_types": DELTA["layer_types"], "num_key_value_heads": 4,
        "head_dim": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "qk_nope_head_dim": 16,
    },
    "qwen3_next": {"model_type": "qwen3_next", **SMALL, **DELTA, **SHARED},
    "qwen3_5_moe": {"model_type": "qwen3_5_moe_text", **SMALL, **DELTA, **SHARED},
    "kimi_linear": {
        "model_type": "kimi_linear", **SMALL, **EXPERTS, "layer_types": DELTA["layer_types"], "num_key_value_heads": 4,
        "linear_num_heads": 4, "linear_head_dim": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
        "qk_nope_head_dim": 16, "num_experts_per_token": 2,
    },
    "granitemoehybrid": {
        "model_type": "granitemoehybrid", **SMALL, **MAMBA2, "layer_types": ["mamba", "attention", "mamba"],
        "num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 32,
    },
    "nemotron_h": {
        "model_type": "nemotron_h", **SMALL, "layers_block_type": ["mamba", "attention", "moe"], "mamba_num_heads": 8,
        "mamba_head_dim": 16, "n_groups": 2, "ssm_state_size": 16, "conv_kernel": 4, "expand": 2, "chunk_size": 16,
        "head_dim": 16, "n_routed_experts": 4, "moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 32,
        "num_experts_per_tok": 2,
    },
    "jamba": {
        "model_type": "jamba", **SMALL, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2,
        "expert_layer_offset": 1, "num_experts": 4, "mamba_d_state": 8, "mamba_d_conv": 4, "mamba_expand": 2,
        "mamba_dt_rank": 8,
    },
    "zamba": {"model_type": "zamba", **SMALL},
    "zamba2": {
        "model_type": "zamba2", **SMALL, "num_key_value_heads": 4, "layers_block_type": ["mamba", "hybrid", "mamba"],
        "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_ngroups": 2, "n_mamba_heads": 8,
        "mamba_headdim": 16, "chunk_size": 16, "num_mem_blocks": 1, "use_mem_rope": True,
    },
}  # fmt: skip

HYBRIDS = {name: settings for name, settings in (DENSE | OTHERS).items() if settings["model_type"] in CONFIG_MAPPING}
"""The families that this transformers has: 5.17 has no LFM3 and no Bailing."""
KINDS = ["lfm2", "qwen3_5", "bamba", "jamba"]
"""One of each kind of recurrent layer."""


class HalfWrong(Drafter):
    """Knows what each sample will write, and proposes another token at positions that are drawn for each sample.

    `outcomes` says of which drafts of several tokens none, some and all were accepted.
    """

    def __init__(self, texts: Sequence[Sequence[int]]) -> None:
        draws = [random.Random(index) for index in range(len(texts))]
        self._drafts = [
            [(t + (draw.random() < 0.3)) % N_TOKENS for t in text] for text, draw in zip(texts, draws, strict=True)
        ]
        self._last: dict[int, tuple[int, int]] = {}
        self.outcomes: set[str] = set()

    def propose(self, rows: Sequence[Row], lengths: Sequence[int]) -> Proposal:
        tokens = []
        for row, k in zip(rows, lengths, strict=True):
            index = row.samples[0].index
            begun, n_drafted = self._last.get(index, (0, 0))
            if n_drafted > 1:
                n_accepted = row.n_new - begun - 1
                self.outcomes.add("none" if not n_accepted else "all" if n_accepted == n_drafted else "some")
            tokens.append(self._drafts[index][row.n_new : row.n_new + k])
            self._last[index] = row.n_new, len(tokens[-1])
        return Proposal(tokens, [[Match(1, 1.0)] * len(row) for row in tokens])
