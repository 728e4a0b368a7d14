"""The states that a trained drafter reads are the inputs of the target's layers, and follow their rows everywhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel

from decoding.attention.backends import NAMES
from decoding.attention.flat_forward import FlatForward
from decoding.attention.runner import ModelRunner
from decoding.attention.taps import TAPS, get_decoder_layers, record_taps
from decoding.memory.pages import PagePool
from decoding.models.errors import ModelError
from decoding.models.fusion import fuse
from decoding.models.int8_blocks import Int8Blocks
from decoding.models.loaded import LoadedModel
from tests.decoding.conftest import tiny_qwen2

TOKENS = list(range(40, 60))
TAPPED = (0, 1)


def reference(model: PreTrainedModel, tokens: list[int]) -> torch.Tensor:
    """[N, 2 H]: the inputs of both layers, as transformers reports them."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        states = model(torch.tensor([tokens], device=model.device), output_hidden_states=True).hidden_states
    model.set_attn_implementation(before)
    return torch.cat([states[tap][0] for tap in TAPPED], dim=1)


def runner_of(target: LoadedModel, **options: object) -> ModelRunner:
    return ModelRunner(target.model, target.vocab_size, 4, taps=TAPPED, **options)  # type: ignore[arg-type]


def states_of(runner: ModelRunner, row: int) -> torch.Tensor:
    cache = runner.cache
    return cache.read_recorded(TAPS, [(row, 0, len(cache.list_pages()[row]) * cache.pool.page_size)])


def prefill(runner: ModelRunner, row: int, tokens: list[int], **options: object) -> None:
    runner.start(row, tokens, 400, **options).finish(row)  # type: ignore[arg-type]


@pytest.mark.parametrize("flat", [True, False], ids=["flat forward", "transformers' forward"])
def test_the_inputs_of_the_layers_are_recorded(target: LoadedModel, flat: bool) -> None:
    runner = runner_of(target)
    if not flat:
        runner._flat = None
    prefill(runner, 0, TOKENS[:12])
    prefill(runner, 1, TOKENS[5:9])
    with torch.inference_mode():
        runner.forward([TOKENS[12:], TOKENS[9:10]])
    states = [states_of(runner, row) for row in (0, 1)]
    torch.testing.assert_close(states[0][: len(TOKENS)], reference(target.model, TOKENS), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(states[1][:5], reference(target.model, TOKENS[5:10]), atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_between_8_bit_products_they_have_the_type_that_a_head_reads() -> None:
    model = tiny_qwen2().to(torch.bfloat16)
    fuse(model)
    FlatForward.use_blocks(model, Int8Blocks(model))
    model.set_attn_implementation(NAMES["sdpa"])
    runner = ModelRunner(model, 260, 1, taps=TAPPED)
    prefill(runner, 0, TOKENS)
    assert states_of(runner, 0).dtype is torch.bfloat16


@torch.inference_mode()
def test_they_follow_their_rows_when_these_are_copied_forked_and_dropped(target: LoadedModel) -> None:
    runner = runner_of(target)
    prefill(runner, 0, TOKENS[:12])
    prefill(runner, 1, TOKENS[2:9])
    runner.start(2, TOKENS[:12], 400, source=0)
    runner.cache.fork(1)
    states = [states_of(runner, row).clone() for row in range(4)]
    assert torch.equal(states[2][:12], states[0][:12])
    assert torch.equal(states[3][:7], states[1][:7])
    runner.cache.drop(0)  # row 3 takes its number
    assert torch.equal(states_of(runner, 0)[:7], states[3][:7])
    prefill(runner, 3, TOKENS[:5])
    assert torch.equal(states_of(runner, 0)[:7], states[3][:7])


def test_a_prompt_from_the_prefix_cache_brings_its_states(target: LoadedModel) -> None:
    pool = PagePool(20, 4)
    first, second = (runner_of(target, pool=pool) for _ in range(2))
    prefill(first, 0, TOKENS[:12], prefix_cache=True)
    prefill(second, 0, TOKENS[:14], prefix_cache=True)
    assert second.cache.list_pages()[0][:3] == first.cache.list_pages()[0]
    torch.testing.assert_close(states_of(second, 0)[:14], reference(target.model, TOKENS[:14]), atol=1e-4, rtol=1e-4)
    assert TAPS in pool.buffers, "the bytes of a page count them"


def test_nothing_is_recorded_without_taps(target: LoadedModel) -> None:
    runner = ModelRunner(target.model, target.vocab_size, 2)
    prefill(runner, 0, TOKENS)
    assert all(name[0] in ("keys", "values") for name in runner.cache.pool.buffers)


def test_the_layers_of_other_architectures_are_found(loaded: Callable) -> None:
    config = GPT2Config(vocab_size=260, n_embd=32, n_layer=3, n_head=2, n_positions=64)
    model = GPT2LMHeadModel(config).eval()
    assert len(get_decoder_layers(model)) == 3
    with record_taps(model, [1]) as inputs, torch.inference_mode():
        states = model(torch.tensor([TOKENS]), output_hidden_states=True).hidden_states
    torch.testing.assert_close(inputs[1], states[1])
    model.transformer.h = model.transformer.h[:2]
    with pytest.raises(ModelError, match="no list of layers"):
        get_decoder_layers(model)


def test_hooks_do_not_stay_in_the_model() -> None:
    model = tiny_qwen2()
    with record_taps(model, TAPPED):
        pass
    assert not any(module._forward_pre_hooks for module in model.modules())
