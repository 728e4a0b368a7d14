"""8-bit weights: nearly the same model, and the same bits for a token in every batch."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections import defaultdict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from decoding.attention import flat_forward
from decoding.attention.backends import NAMES
from decoding.attention.flat_forward import FlatForward
from decoding.attention.runner import ModelRunner
from decoding.config import EngineConfig
from decoding.engine import Engine
from decoding.models import int8 as int8_module
from decoding.models.errors import ModelError
from decoding.models.fusion import FusedPart, fuse
from decoding.models.int8 import Int8Linear, quantize
from decoding.models.int8_blocks import Int8Blocks
from decoding.models.loaded import ModelSpec
from decoding.models.memory import count_weight_bytes
from decoding.models.packing import PackedLinear, replace_linears
from decoding.prepare import load_model
from decoding.request import Request, RequestError, SamplingParams
from tests.decoding.conftest import tiny_qwen2
from tests.thorough import thorough

DTYPES = [torch.float32, torch.bfloat16]


def reference(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    """The product in Python integers' arithmetic (int64), scaled as the layer scales it."""
    weights, channel = quantize(layer.weight)
    values, token = quantize(x)
    exact = (values.long() @ weights.long().T).float() * channel.flatten() * token
    return (exact if layer.bias is None else exact + layer.bias.float()).to(x.dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("size", "out"), [(64, 33), (896, 1152), (4864, 128), (100, 16400)])
def test_the_product_is_that_of_the_integers(dtype, size, out):
    torch.manual_seed(0)
    layer = nn.Linear(size, out, bias=out % 2 == 1).to(dtype)
    with torch.inference_mode():
        for n in (1, 2, 5, 40):
            x = torch.randn(1, n, size).to(dtype) * 3
            torch.testing.assert_close(Int8Linear(layer)(x), reference(layer, x), atol=1e-4, rtol=1e-2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_it_is_close_to_the_dense_product(dtype):
    torch.manual_seed(0)
    layer, x = nn.Linear(896, 512).to(dtype), torch.randn(1, 16, 896).to(dtype)
    with torch.inference_mode():
        wrong = (Int8Linear(layer)(x) - layer(x)).float().norm() / layer(x).float().norm()
    assert wrong < 0.02


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_token_has_the_same_bits_however_many_there_are(dtype):
    torch.manual_seed(0)
    layer = Int8Linear(nn.Linear(1536, 576).to(dtype))
    x = torch.randn(1, 60, 1536).to(dtype)
    with torch.inference_mode():
        together = layer(x)
        for n in (1, 2, 3, 7, 20, 33):
            apart = torch.cat([layer(x[:, i : i + n]) for i in range(0, 60 - n + 1, n)], dim=1)
            assert torch.equal(apart, together[:, : apart.shape[1]]), n


def test_a_row_of_zeros_gives_the_bias():
    layer = nn.Linear(64, 40)
    x = torch.randn(1, 3, 64)
    x[0, 1] = 0
    out = Int8Linear(layer)(x)
    assert torch.equal(out[0, 1], layer.bias)
    assert out.isfinite().all()


@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=40), st.sampled_from(DTYPES))
def test_a_quantized_row_is_off_by_at_most_half_a_step(row, dtype):
    x = torch.tensor([row]).to(dtype)
    values, scale = quantize(x)
    assert (values.float() * scale - x.float()).abs().max() <= scale.item() * 0.5001
    assert values.abs().max() <= 127


@pytest.mark.parametrize("pack", [PackedLinear, Int8Linear])
def test_fused_layers_compute_what_they_did_apart(pack):
    apart, fused = tiny_qwen2(), tiny_qwen2()
    replace_linears(apart, pack)
    fuse(fused)
    replace_linears(fused, pack)
    attention = fused.model.layers[0].self_attn
    assert all(isinstance(part, FusedPart) for part in (attention.q_proj, attention.k_proj, attention.v_proj))
    assert attention.q_proj.fused is attention.v_proj.fused
    ids = torch.arange(20)[None]
    with torch.inference_mode():
        torch.testing.assert_close(fused(ids).logits, apart(ids).logits, atol=1e-5, rtol=1e-5)
    assert count_weight_bytes(fused) == pytest.approx(count_weight_bytes(apart), rel=0.01)
    assert attention.q_proj.fused._computed is None, "results of the last forward are not kept"


def test_fused_layers_that_are_called_with_different_inputs_answer_each_with_its_own():
    model = tiny_qwen2()
    query, key = (copy.deepcopy(getattr(model.model.layers[0].self_attn, name)) for name in ("q_proj", "k_proj"))
    fuse(model)
    attention = model.model.layers[0].self_attn
    x, y = torch.randn(2, 1, 3, 64)
    with torch.inference_mode():
        for a, b in ((x, y), (y, x), (x, x)):
            torch.testing.assert_close(attention.q_proj(a), query(a))
            torch.testing.assert_close(attention.k_proj(b), key(b))


@pytest.mark.parametrize("dtype", DTYPES)
def test_graphs_compute_what_quantized_layers_compute_apart(dtype):
    """Over several forwards: a prompt, a ragged batch, and the last tokens alone."""
    apart, graphs = tiny_qwen2().to(dtype), tiny_qwen2().to(dtype)
    replace_linears(apart, Int8Linear)
    fuse(graphs)
    FlatForward.use_blocks(graphs, Int8Blocks(graphs))
    logits = []
    for model in (apart, graphs):
        model.set_attn_implementation(NAMES["sdpa"])
        runner = ModelRunner(model, 260, 2)
        for row, n in enumerate((20, 9)):
            runner.cache.start(row, 64)
            first = runner.forward([list(range(n))], n_last=[1], first_row=row)
            runner.cache.commit([n], first_row=row)
        ragged = runner.forward([[1, 2, 3], [4]])
        last = runner.forward([[5, 6], [7, 8, 9]], n_last=[1, 1])
        logits.append(torch.cat([first, ragged, last]))
    assert logits[0].shape == (1 + 4 + 2, 260)
    wrong = (logits[1] - logits[0]).float().norm() / logits[0].float().norm()
    assert wrong < (0.03 if dtype is torch.bfloat16 else 1e-4)


def test_graphs_take_the_place_of_the_weights():
    model = tiny_qwen2()
    dense, embedding = count_weight_bytes(model), model.get_input_embeddings().weight.nbytes
    fuse(model)
    FlatForward.use_blocks(model, Int8Blocks(model))
    assert not any(type(module) is nn.Linear for module in model.modules())
    assert count_weight_bytes(model) - embedding == pytest.approx((dense - embedding) / 4, rel=0.2)


@pytest.fixture
def int8(loaded, monkeypatch):
    """The tiny target as `load_model` makes it with 8-bit weights."""
    monkeypatch.setattr("decoding.prepare.load", lambda *_: loaded(tiny_qwen2(), torch.device("cpu")))
    monkeypatch.setattr("decoding.prepare.select_attention", lambda *_: None)  # its attention is ours already
    return load_model(ModelSpec("tiny", "float32", "cpu", "auto", "int8"))


def test_plain_and_speculative_texts_are_the_same_and_the_model_has_a_name_of_its_own(int8, target):
    request = Request("def add(a, b):\n" * 3, n=4, seed=3, max_new_tokens=24, sampling=SamplingParams(0.8, 0.95))
    written = {}
    for drafter, length in (("none", "goodput"), ("sibling", "goodput"), ("sibling", "fixed:7"), ("ngram", "bass")):
        engine = Engine(EngineConfig("tiny", drafter, length, weights="int8"), int8, None)
        assert engine.batch_invariant
        written[drafter, length] = [(s.token_ids, s.logprobs) for s in engine.generate(request).samples]
    assert len({str(texts) for texts in written.values()}) == 1
    told = engine.get_provenance()
    assert (told["target"], told["weights"]) == (f"{target.name} (int8)", "int8")
    assert told["target_sha256"] != target.sha256


def test_other_words_are_refused_and_so_is_a_gpu(monkeypatch):
    with pytest.raises(RequestError, match="weights is 'int9'"):
        EngineConfig("tiny", weights="int9")
    for weights, device in (("int8", "cuda"), ("fp8", "cpu")):
        with pytest.raises(RequestError, match=f"device is '{device}': {weights} weights are for"):
            EngineConfig("tiny", weights=weights, device=device)
    assert EngineConfig("tiny", weights="fp8", device="cuda").weights == "fp8"
    monkeypatch.setattr("decoding.prepare.pick_device", lambda _: torch.device("cuda"))
    monkeypatch.setattr("decoding.prepare.pick_attention", lambda *_: "sdpa")
    with pytest.raises(ModelError, match="weights int8 are for a CPU, and the device is cuda: give weights dense"):
        load_model(ModelSpec("tiny", weights="int8"))


def test_a_cpu_whose_products_overflow_is_refused(monkeypatch):
    assert int8_module.is_exact()
    monkeypatch.setattr(Int8Linear, "forward", lambda self, x: torch.full((3, 3), 32767 / 127**2))
    with pytest.raises(ModelError, match="this CPU's overflow"):
        load_model(ModelSpec("tiny", device="cpu", weights="int8"))


@pytest.mark.parametrize("has_vnni", [True, False])
def test_weights_are_unsigned_only_on_a_cpu_whose_products_of_bytes_overflow(monkeypatch, has_vnni):
    """Elsewhere they would lose the CPU's own instructions for such products."""
    seen, session = [], int8_module.onnxruntime.InferenceSession

    def made(model, options, **rest):
        seen.append(options)
        return session(model, options, **rest)

    monkeypatch.setattr(int8_module.onnxruntime, "InferenceSession", made)
    monkeypatch.setattr(int8_module, "cpu_multiplies_bytes", lambda: has_vnni)
    Int8Linear(nn.Linear(32, 32))
    (options,) = seen
    if has_vnni:
        with pytest.raises(RuntimeError):
            options.get_session_config_entry(int8_module.PRECISION_OPTION)
    else:
        assert options.get_session_config_entry(int8_module.PRECISION_OPTION) == "1"


class Observed(TorchDispatchMode):
    """Records the threads that PyTorch had for each operation, by the operation's name."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: defaultdict[int, set[str]] = defaultdict(set)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.threads[torch.get_num_threads()].add(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("drafter", [thorough("none"), "sibling"])
@pytest.mark.usefixtures("two_threads")
def test_no_operation_of_a_round_wakes_a_second_pool_and_callers_have_all_threads(int8, drafter):
    engine = Engine(EngineConfig("tiny", drafter, weights="int8"), int8, None)
    _ = engine.batch_invariant, engine.costs.round_cost
    requests = [Request("def add(a, b):\n" * 9, n=3, max_new_tokens=6, seed=seed) for seed in range(2)]
    between = []
    with Observed() as observed:
        for _ in engine.generate_many(requests):
            between.append(torch.get_num_threads())
    assert set(observed.threads) == {1}
    assert any("scaled_dot_product" in name for name in observed.threads[1])
    assert any("topk" in name for name in observed.threads[1]), "acceptance is part of a round"
    assert between == [2, 2]


IDLE = """
import time
import numpy as np
import torch
from torch import nn
from decoding.models import int8
from decoding.models.int8 import FLOAT, UINT8, Graph

torch.set_num_threads(2)
graph = Graph(x=(FLOAT, ["N", 512]), zero_points=(UINT8, ["N"]))
compiled = graph.compile(int8.add_linear(graph, "x", nn.Linear(512, 2048)))
feeds = {"x": np.ones((64, 512), np.float32), int8.ZERO_POINTS: int8.make_zero_points(64)}
idle = []
for _ in range(5):
    compiled(feeds)
    before = time.process_time()
    time.sleep(0.1)
    idle.append(time.process_time() - before)
print(sorted(idle)[2])
"""


def test_the_threads_of_a_graph_sleep_after_its_call():
    done = subprocess.run([sys.executable, "-c", IDLE], text=True, capture_output=True, check=True)
    assert float(done.stdout) < 0.005, "they spin on cores that grading and PyTorch need"


@pytest.mark.usefixtures("two_threads")
def test_a_long_attention_has_all_threads(int8, monkeypatch):
    monkeypatch.setattr(flat_forward, "_LONG_ATTENTION", 0)
    engine = Engine(EngineConfig("tiny", weights="int8"), int8, None)
    with Observed() as observed:
        engine.generate(Request("def add(a, b):\n" * 9, max_new_tokens=3))
    assert any("scaled_dot_product" in name for name in observed.threads[2])
    assert not any("topk" in name or "embedding" in name for name in observed.threads[2])


@pytest.mark.thorough
@pytest.mark.usefixtures("two_threads")
def test_a_measured_verify_has_the_threads_of_a_round(int8):
    engine = Engine(EngineConfig("tiny", "none", weights="int8"), int8, None)
    for measure in (engine.calibrate, lambda: engine.costs.round_cost.verify, lambda: engine.batch_invariant):
        with Observed() as observed:
            measure()
        attended = [n for n, names in observed.threads.items() if any("scaled_dot_product" in name for name in names)]
        assert attended == [1]
    assert torch.get_num_threads() == 2


@pytest.mark.thorough
@pytest.mark.usefixtures("two_threads")
def test_an_error_and_an_engine_of_dense_weights_inside_have_all_threads(int8, target):
    dense, quantized = (
        Engine(EngineConfig("tiny", weights=w), m, None) for w, m in (("dense", target), ("int8", int8))
    )
    request = Request("x = 1", max_new_tokens=3)
    inside = []

    def requests():
        yield request
        inside.append(torch.get_num_threads())
        with Observed() as observed:
            dense.generate(request)
        inside.append(set(observed.threads))
        raise OSError("the source of requests is gone")

    with pytest.raises(OSError, match="the source"):
        list(quantized.generate_many(requests()))
    assert inside == [1, {2}]
    assert torch.get_num_threads() == 2
