"""Reading GGUF files faster changes none of their numbers."""

from __future__ import annotations

import gc
from pathlib import Path

import gguf
import numpy as np
import pytest

from decoding.models import conversion

KINDS = [gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q5_0, gguf.GGMLQuantizationType.F32]


@pytest.fixture
def plain(monkeypatch):
    """What gguf does by itself; at the end the library is as it was."""
    before = {name: getattr(gguf, name) for name in ("GGUFReader", "dequantize", "get_tensor_name_map")}
    for name, function in before.items():
        monkeypatch.setattr(gguf, name, function)
    yield before
    gc.enable()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("shape", [(64,), (3, 64), (2 * conversion._ROWS + 7, 96)])
def test_weights_dequantized_in_pieces_are_the_same(plain, kind, shape):
    weights = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    packed = gguf.quantize(weights, kind)
    wanted = plain["dequantize"](packed, kind)
    conversion._speed_up_gguf()
    assert np.array_equal(gguf.dequantize(packed, kind), wanted)
    assert gguf.dequantize(packed, kind).shape == wanted.shape == shape


def test_all_readers_of_a_file_are_one_and_read_what_gguf_reads(plain, tmp_path: Path):
    file = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(file, "qwen2")
    writer.add_array("tokenizer.ggml.tokens", ["a", "größer", "\x00"])
    writer.add_uint32("qwen2.block_count", 3)
    writer.add_tensor("token_embd.weight", np.arange(96, dtype=np.float32).reshape(3, 32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    own = plain["GGUFReader"](file)
    conversion._speed_up_gguf()
    reader = gguf.GGUFReader(file)
    assert gguf.GGUFReader(str(file)) is reader
    assert {k: f.contents() for k, f in reader.fields.items()} == {k: f.contents() for k, f in own.fields.items()}
    assert np.array_equal(reader.tensors[0].data, own.tensors[0].data)
