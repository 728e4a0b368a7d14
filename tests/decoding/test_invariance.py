"""On a CPU a token's logits are the same bits in whatever batch it is verified, so that timing cannot change a text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from decoding.acceptance import sampling
from decoding.attention.backends import NAMES
from decoding.attention.runner import ModelRunner
from decoding.checks.invariance import MIN_ROWS, is_batch_invariant
from decoding.config import EngineConfig
from decoding.costs import RoundCost
from decoding.engine import Engine
from decoding.memory.layout import round_up_slots
from decoding.models.loaded import LoadedModel
from decoding.models.packing import list_packed_dtypes, prepack
from decoding.request import Request, SamplingParams
from tests.decoding.conftest import (
    skip_where_attention_depends_on_the_slots,
    skip_where_products_depend_on_the_batch,
)

DTYPES = [torch.bfloat16, torch.float32]


def model(dtype: torch.dtype) -> PreTrainedModel:
    """Wide enough that oneDNN, MKL and PyTorch's attention choose their order of summation by the batch."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=260,
        hidden_size=256,
        intermediate_size=1536,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=False,
    )
    made = Qwen2ForCausalLM(config).eval()
    with torch.no_grad():
        made.lm_head.weight.normal_(0, 0.2)
    made = made.to(dtype)
    made.set_attn_implementation(NAMES["sdpa"])
    return made


@pytest.mark.parametrize("dtype", list_packed_dtypes())
def test_packed_models_do_not_depend_on_the_batch(dtype: torch.dtype) -> None:
    skip_where_products_depend_on_the_batch(dtype)
    packed = model(dtype)
    prepack(packed)
    assert is_batch_invariant(ModelRunner(packed, 260, MIN_ROWS))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("position", [60, 200, 300, 500, 700, 1000])
def test_attention_does_not_depend_on_the_number_of_slots_that_are_read(position: int, dtype: torch.dtype) -> None:
    """A draft that ends beyond a multiple of 128 makes its first tokens read more slots than they would alone."""
    skip_where_attention_depends_on_the_slots(dtype)
    torch.manual_seed(position)
    max_tokens = 2048
    keys, values = torch.randn(2, 8, 2, max_tokens, 64, dtype=dtype)
    queries = torch.randn(8, 2, 8, 64, dtype=dtype)
    mask = torch.zeros(max_tokens, dtype=dtype).masked_fill_(torch.arange(max_tokens) > position, float("-inf"))
    attended = [
        F.scaled_dot_product_attention(
            queries,
            keys[:, :, :slots],
            values[:, :, :slots],
            attn_mask=mask[:slots].expand(8, 1, 8, slots).contiguous(),
        )
        for slots in sorted({round_up_slots(n) for n in range(position + 1, max_tokens)})
    ]
    assert all(torch.equal(attended[0], other) for other in attended[1:])


@pytest.mark.parametrize("dtype", list_packed_dtypes())
def test_a_draft_s_tokens_get_the_logits_that_they_get_one_by_one(dtype: torch.dtype) -> None:
    skip_where_products_depend_on_the_batch(dtype)
    packed = model(dtype)
    prepack(packed)
    text = [(31 * t) % 260 for t in range(140)]
    for drafted in (1, 2, 16, 32):  # two queries a key head and token: 33 tokens end in a block of two
        runner = ModelRunner(packed, 260, 1)
        runner.cache.start(0, len(text))
        runner.forward([text[:90]], n_last=[1])
        runner.cache.commit([90])
        together = runner.forward([text[90 : 91 + drafted]]).clone()
        for t in range(1 + drafted):
            assert torch.equal(runner.forward([text[90 + t : 91 + t]])[0], together[t]), (drafted, t)
            runner.cache.commit([1])


def test_a_model_whose_products_depend_on_the_batch_is_told() -> None:
    class ByNumber(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * (1 + x.shape[-2] * 1e-6)

    other = model(torch.float32)
    prepack(other)
    other.lm_head = ByNumber(256, 260)
    assert not is_batch_invariant(ModelRunner(other, 260, MIN_ROWS))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("V", [260, 49152])
def test_the_mass_of_a_vocabulary_does_not_depend_on_how_many_are_summed(dtype: torch.dtype, V: int) -> None:
    torch.manual_seed(0)
    logits = (torch.randn(24, V) * 3).to(dtype)
    tokens = torch.arange(24)
    together = sampling.compute_raw_logprobs(logits, torch.arange(24), tokens)
    for n in (1, 2, 7):
        apart = [
            sampling.compute_raw_logprobs(logits[i : i + n], torch.arange(len(logits[i : i + n])), tokens[i : i + n])
            for i in range(0, 24, n)
        ]
        assert torch.equal(torch.cat(apart), together), n


@pytest.mark.parametrize("dtype", list_packed_dtypes())
def test_texts_and_logprobs_do_not_depend_on_the_clock(
    loaded: Callable[[PreTrainedModel], LoadedModel], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_where_products_depend_on_the_batch(dtype)
    if dtype is torch.bfloat16 and torch.cpu.get_capabilities().get("amx_bf16"):
        pytest.skip("with AMX, bf16 products depend on the number of tokens beyond 32 (docs/decoding-texts.md)")
    packed = model(dtype)
    prepack(packed)
    target = loaded(packed, torch.device("cpu"))
    noise = torch.Generator().manual_seed(0)
    observe = RoundCost.observe

    def disturbed(self: RoundCost, n_rows: int, n_tokens: int, longest: int, seconds: float) -> None:
        observe(self, n_rows, n_tokens, longest, seconds * 10 ** float(torch.randn((), generator=noise)))

    monkeypatch.setattr(RoundCost, "observe", disturbed)
    seen, shapes = set(), set()
    for company in (0, 0, 2):
        engine = Engine(EngineConfig(target="tiny", drafter="sibling", draft_length="goodput"), target, None)
        prompts = ["def add(a, b):\n    return a + b\n" * 2, "x = 1\n" * 9, "print(2)\n" * 5]
        requests = [
            Request(prompt, n=4, sampling=SamplingParams(temperature=0.8, top_p=0.95), seed=3, max_new_tokens=40)
            for prompt in prompts[: 1 + company]
        ]
        done = dict(engine.generate_many(requests))[0]
        seen.add(tuple((s.text, s.mean_logprob) for s in done.samples))
        shapes.add(tuple(r.n_verified for r in done.rounds))
    assert len(shapes) > 1, "the clock did not change the rounds: nothing was tested"
    assert len(seen) == 1
