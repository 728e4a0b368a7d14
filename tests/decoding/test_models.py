"""A model is loaded with everything the engine relies on, or refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, pre_tokenizers
from tokenizers.models import BPE
from transformers import (
    BertConfig,
    BertLMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from decoding.models import device, fetch, infilling, loading
from decoding.models.errors import ModelError
from tests.decoding.conftest import SaveModel

FIM = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"]
SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 96,
}


def byte_tokenizer(*added: str, eos: str = "<|endoftext|>", order: int = 1) -> PreTrainedTokenizerFast:
    """One token per byte in the given order, then the added tokens, `eos` first."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())[::order]
    inner = Tokenizer(BPE(vocab={character: i for i, character in enumerate(alphabet)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.add_special_tokens([AddedToken(token) for token in (eos, *added)])
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=eos)


def tiny(kind: type[PreTrainedModel] = Qwen2ForCausalLM, vocab_size: int = 300, **settings: Any) -> PreTrainedModel:
    torch.manual_seed(0)
    configs: dict[Any, type[PreTrainedConfig]] = {Qwen2ForCausalLM: Qwen2Config, LlamaForCausalLM: LlamaConfig}
    return kind(configs[kind](vocab_size=vocab_size, **(SHAPE | settings)))


@pytest.mark.parametrize("kind", [Qwen2ForCausalLM, LlamaForCausalLM])
def test_a_loaded_model_is_the_saved_one_ready_to_decode(save_model: SaveModel, kind: type[PreTrainedModel]) -> None:
    saved = tiny(kind)
    news: list[str] = []
    loaded = loading.load(save_model(saved, byte_tokenizer()), "float32", "cpu", news.append)
    ids = loaded.tokenizer("def f():", return_tensors="pt").input_ids
    with torch.inference_mode():
        assert torch.equal(loaded.model(ids).logits, saved.eval()(ids).logits)
    assert not loaded.model.training
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())
    assert loaded.model.config._attn_implementation == "sdpa"
    assert (loaded.name, loaded.context_length, loaded.dtype) == ("tiny", 96, torch.float32)
    assert loaded.n_parameters == saved.num_parameters()
    buffers, embedding = sum(b.nbytes for b in loaded.model.buffers()), loaded.model.get_input_embeddings().weight
    assert loaded.n_weight_bytes == 4 * loaded.n_parameters + buffers - embedding.nbytes, (
        "a forward reads a few of its rows"
    )
    assert loaded.sha256 == fetch.ensure(loaded.ref).sha256
    assert not loaded.has_chat_template
    assert news[-1] == "tiny: loading into memory (cpu, float32)"


def test_tied_weights_are_counted_once(save_model: SaveModel) -> None:
    loaded = loading.load(save_model(tiny(tie_word_embeddings=True), byte_tokenizer()), "bfloat16", "cpu")
    untied = tiny(tie_word_embeddings=False).num_parameters()
    assert loaded.n_parameters == untied - 300 * SHAPE["hidden_size"]
    assert loaded.n_weight_bytes == 2 * loaded.n_parameters + sum(buffer.nbytes for buffer in loaded.model.buffers())


def test_padding_rows_of_the_vocabulary_are_no_tokens(save_model: SaveModel) -> None:
    loaded = loading.load(save_model(tiny(vocab_size=512), byte_tokenizer()), "float32", "cpu")
    assert loaded.vocab_size == 257


def test_every_token_that_ends_an_answer_is_found(save_model: SaveModel) -> None:
    model, tokenizer = tiny(), byte_tokenizer("<|im_start|>", "<|im_end|>")
    model.generation_config.eos_token_id = [7, 256]
    model.config.eos_token_id = 8
    loaded = loading.load(save_model(model, tokenizer), "float32", "cpu")
    assert loaded.eos_token_ids == (7, 8, 256, 258)  # generation config, config, tokenizer, <|im_end|>


def test_infilling_markers_are_known_only_where_all_three_exist(save_model: SaveModel) -> None:
    some = loading.load(save_model(tiny(), byte_tokenizer(*FIM[:2]), "some"), "float32", "cpu")
    every = loading.load(save_model(tiny(), byte_tokenizer(*FIM), "every"), "float32", "cpu")
    assert some.infill_format is None
    assert every.infill_format == infilling.FORMATS[0]
    assert [infilling.may_have_markers(loaded.folder) for loaded in (some, every)] == [False, True]


@pytest.mark.parametrize("escape", [False, True])
def test_markers_are_found_in_the_files_however_json_writes_them(escape: bool, tmp_path: Path) -> None:
    assert infilling.may_have_markers(tmp_path), "another format of tokenizer may have any"
    for each in infilling.FORMATS:
        added = [{"content": token} for token in each.tokens]
        (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": added}, ensure_ascii=escape))
        assert infilling.may_have_markers(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    assert not infilling.may_have_markers(tmp_path)


def test_a_chat_template_is_noticed(save_model: SaveModel) -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = "{{ messages[0]['content'] }}"
    assert loading.load(save_model(tiny(), tokenizer), "float32", "cpu").has_chat_template


# Refusals


def test_an_encoder_decoder_is_refused(save_model: SaveModel) -> None:
    model = T5ForConditionalGeneration(T5Config(vocab_size=300, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2))
    with pytest.raises(ModelError, match=r"tiny is an encoder-decoder model \(t5\)"):
        loading.load(save_model(model, byte_tokenizer()))


def test_an_encoder_is_refused(save_model: SaveModel, tmp_path: Path) -> None:
    config = BertConfig(
        vocab_size=300, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    ref = save_model(BertLMHeadModel(config), byte_tokenizer())
    change_config(tmp_path / "tiny", architectures=["BertForMaskedLM"])
    with pytest.raises(ModelError, match=r"not a causal language model \(it is BertForMaskedLM\)"):
        loading.load(ref)


def test_a_type_that_transformers_does_not_know_is_refused(save_model: SaveModel, tmp_path: Path) -> None:
    ref = save_model(tiny(), byte_tokenizer())
    change_config(tmp_path / "tiny", model_type="from-the-future")
    with pytest.raises(ModelError, match="does not know its type"):
        loading.load(ref)


def test_missing_weights_are_an_error_and_not_random_numbers(save_model: SaveModel, tmp_path: Path) -> None:
    ref = save_model(tiny(tie_word_embeddings=False), byte_tokenizer())
    weights = load_file(tmp_path / "tiny" / "model.safetensors")
    del weights["model.layers.0.mlp.up_proj.weight"]
    save_file(weights, tmp_path / "tiny" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"1 weights are missing from .*, such as model\.layers\.0\.mlp\.up_proj"):
        loading.load(ref)


def test_a_folder_without_tokenizer_is_refused(save_model: SaveModel) -> None:
    with pytest.raises(ModelError, match="tiny has no tokenizer: put its tokenizer files into"):
        loading.load(save_model(tiny(), None))


def test_a_damaged_tokenizer_is_refused(save_model: SaveModel, tmp_path: Path) -> None:
    ref = save_model(tiny(), byte_tokenizer())
    (tmp_path / "tiny" / "tokenizer.json").write_text("{")
    with pytest.raises(ModelError, match="tiny has a tokenizer that cannot be loaded"):
        loading.load(ref)


def test_an_unknown_attention_is_refused(save_model: SaveModel) -> None:
    with pytest.raises(ModelError, match="cannot be loaded"):
        loading.load(save_model(tiny(), byte_tokenizer()), "float32", "cpu", attention="no-such-attention")


def change_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))


# Target and draft


def test_one_family_padded_to_different_sizes_is_one_tokenizer(save_model: SaveModel) -> None:
    target = loading.load(save_model(tiny(vocab_size=512), byte_tokenizer(), "target"), "float32", "cpu")
    padding = [f"[PAD{i}]" for i in range(257, 300)]
    draft = loading.load(save_model(tiny(vocab_size=300), byte_tokenizer(*padding), "draft"), "float32", "cpu")
    assert (target.vocab_size, draft.vocab_size) == (257, 300)
    loading.check_same_tokenizer(target, draft)
    loading.check_same_tokenizer(draft, target)


def test_other_tokens_under_the_same_ids_are_refused(save_model: SaveModel) -> None:
    target = loading.load(save_model(tiny(), byte_tokenizer(), "target"), "float32", "cpu")
    draft = loading.load(save_model(tiny(), byte_tokenizer(order=-1), "draft"), "float32", "cpu")
    with pytest.raises(ModelError, match=r"id 0 is '!' in the target and 'Ń' in the draft"):
        loading.check_same_tokenizer(target, draft)


def test_a_draft_that_cannot_read_all_the_target_writes_is_refused(save_model: SaveModel) -> None:
    target = loading.load(save_model(tiny(), byte_tokenizer("<|im_end|>"), "target"), "float32", "cpu")
    draft = loading.load(save_model(tiny(vocab_size=257), byte_tokenizer(), "draft"), "float32", "cpu")
    with pytest.raises(ModelError, match=r"draft does not know 1 tokens of target, such as '<\|im_end\|>'"):
        loading.check_same_tokenizer(target, draft)
    loading.check_same_tokenizer(draft, target)


# Device and dtype


def test_auto_takes_bfloat16_only_where_the_cpu_multiplies_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    for capability, dtype in ((True, torch.bfloat16), (False, torch.float32)):
        monkeypatch.setattr(device, "cpu_multiplies_bfloat16", lambda found=capability: found)
        assert device.pick_dtype("auto", cpu) is dtype
    assert device.pick_dtype("float16", cpu) is torch.float16


def test_the_capability_agrees_with_the_system_s_list() -> None:
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists():
        pytest.skip("no /proc/cpuinfo on this system")
    listed = set(cpuinfo.read_text().split()) & {"avx512_bf16", "amx_bf16", "bf16"}
    assert device.cpu_multiplies_bfloat16() == bool(listed)


def test_unknown_devices_and_formats_are_named() -> None:
    with pytest.raises(ModelError, match="dtype 'int8' is not known: give auto, float32, bfloat16, float16"):
        device.pick_dtype("int8", torch.device("cpu"))
    with pytest.raises(ModelError, match="device 'tpu' is not known: give auto, cpu or cuda"):
        device.pick_device("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(ModelError, match="PyTorch finds no GPU"):
            device.pick_device("cuda")


# A real one


@pytest.mark.slow
@pytest.mark.model
def test_a_known_model_answers_sensibly() -> None:
    loaded = loading.load("smollm2-135m", "float32", "cpu")
    assert loaded.n_parameters == 134_515_008
    assert (loaded.context_length, loaded.vocab_size, loaded.has_chat_template) == (8192, 49152, True)
    assert {loaded.tokenizer.decode([token_id]) for token_id in loaded.eos_token_ids} == {"<|im_end|>", "<|endoftext|>"}
    text = "  10 + 200"
    ids = loaded.tokenizer(text).input_ids
    assert loaded.tokenizer.decode(ids) == text
    assert len([token for token in loaded.tokenizer.convert_ids_to_tokens(ids) if token.isdigit()]) == 5
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = loaded.tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    with torch.inference_mode():
        answer = loaded.model.generate(**prompt, max_new_tokens=12, do_sample=False)
    assert "Paris" in loaded.tokenizer.decode(answer[0, prompt["input_ids"].shape[1] :])
