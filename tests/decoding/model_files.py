"""Files of models, as small as can be: wheels that carry parts, folders in transformers format, GGUF."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np
from gguf import GGUFWriter, TokenType
from safetensors.numpy import save_file
from tokenizers import pre_tokenizers


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def put_wheel(folder: Path, number: int, content: bytes) -> None:
    """A data wheel that pip accepts, carrying one part."""
    name, info = f"tinyparts{number}", f"tinyparts{number}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/part.bin", content)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def put_trainable_model(folder: Path) -> Path:
    """A tiny model with random weights and a byte tokenizer in a folder."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from tests.decoding.conftest import EOS, byte_tokenizer

    model = folder / "model"
    byte_tokenizer().save_pretrained(model)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = Qwen2Config(
        vocab_size=EOS + 1, num_hidden_layers=4, max_position_embeddings=1024, eos_token_id=EOS, **sizes
    )
    Qwen2ForCausalLM(config).save_pretrained(model)
    return model


def put_model(folder: Path, **changes: object) -> None:
    """The files of a model in transformers format; only their names and the weights' header matter here."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({"weight": np.arange(6, dtype=np.float32).reshape(2, 3)}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **changes}))


def put_gguf(path: Path, pre: str = "smollm") -> None:
    """A one-layer Llama with a byte tokenizer in GGUF, as small as can be."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *alphabet, "ĠĠ"]
    kinds = [TokenType.CONTROL] * 3 + [TokenType.NORMAL] * (len(tokens) - 3)
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(["Ġ Ġ"])
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    rng = np.random.default_rng(0)
    shapes = {
        "token_embd.weight": (len(tokens), 32),
        "output_norm.weight": (32,),
        "blk.0.attn_norm.weight": (32,),
        "blk.0.attn_q.weight": (32, 32),
        "blk.0.attn_k.weight": (16, 32),
        "blk.0.attn_v.weight": (16, 32),
        "blk.0.attn_output.weight": (32, 32),
        "blk.0.ffn_norm.weight": (32,),
        "blk.0.ffn_gate.weight": (64, 32),
        "blk.0.ffn_up.weight": (64, 32),
        "blk.0.ffn_down.weight": (32, 64),
    }
    for name, shape in shapes.items():
        writer.add_tensor(name, rng.standard_normal(shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
