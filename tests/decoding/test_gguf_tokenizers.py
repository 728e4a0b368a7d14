"""A tokenizer that went through a GGUF file gives the ids of the original, whatever the text."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import gguf
import pytest
from gguf import GGUFWriter, TokenType
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from decoding.models import conversion
from tests.thorough import scale_examples

CORPUS = [
    "café naïve größe é ñ 😀 👨‍👩‍👧 日本語 한국어 привет",
    "def f(x1, y_2):\n    return 12345 + x1  # don't, I'LL",
] * 9
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)

QWEN2 = LLAMA3.replace("{1,3}", "")
SEED = LLAMA3.replace("{1,3}", "{1}").replace(r"[^\s\p{L}\p{N}]+[\r\n]*", r"[^\s\p{L}\p{N}\r\n]+")
ORIGINALS = {
    "qwen2": (normalizers.NFC(), (QWEN2,)),
    "llama-bpe": (None, (LLAMA3,)),
    "seed-coder": (None, (SEED,)),
    "deepseek-coder": (None, (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\ud7ff]+", r"\p{N}")),
    "smollm": (None, ()),
    "starcoder": (None, ()),
}
SPECIAL = ["<|endoftext|>", "<｜fim▁hole｜>", "<think>"]
FIRST = ["café", "cafe\u0301", "e\u0301\u0301", "naïve größe", "Å\u212b", "😀 👨‍👩‍👧", "日本語 1234", "don't I'LL \r\n"]


def original(family: str) -> Tokenizer:
    """A small tokenizer with the rules of a family."""
    normalizer, splits = ORIGINALS[family]
    made = Tokenizer(BPE(ignore_merges=family == "llama-bpe"))
    if normalizer is not None:
        made.normalizer = normalizer
    first = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in splits]
    digits = [] if splits else [pre_tokenizers.Digits(individual_digits=True)]
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not splits)
    made.pre_tokenizer = pre_tokenizers.Sequence([*first, *digits, bytes_])
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(CORPUS, BpeTrainer(vocab_size=600, initial_alphabet=alphabet, special_tokens=SPECIAL))
    return made


def write(tokenizer: Tokenizer, family: str, path: Path) -> None:
    """The tokenizer as llama.cpp's converter writes it."""
    spec = json.loads(tokenizer.to_str())
    tokens = sorted(spec["model"]["vocab"], key=spec["model"]["vocab"].get)
    kinds = [TokenType.NORMAL] * len(tokens)
    kinds[:3] = [TokenType.CONTROL, TokenType.CONTROL, TokenType.USER_DEFINED]
    writer = GGUFWriter(path, "qwen2" if family == "qwen2" else "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(family)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(merge) for merge in spec["model"]["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module", params=ORIGINALS)
def pair(request, tmp_path_factory):
    """(a family's tokenizer, the same through a GGUF file)."""
    folder, theirs = tmp_path_factory.mktemp(request.param), original(request.param)
    write(theirs, request.param, folder / "model.gguf")
    names = ("GGUFReader", "dequantize", "get_tensor_name_map")
    before = {name: getattr(gguf, name) for name in names}
    try:
        conversion._convert_tokenizer(folder / "model.gguf", folder)
    finally:
        vars(gguf).update(before)
        gc.enable()
    return theirs, Tokenizer.from_file(str(folder / "tokenizer.json"))


TEXTS = st.lists(
    st.one_of(
        st.sampled_from(
            [*FIRST, *SPECIAL, " ", "  ", "\n", "\t", "12", "'s", "\u0301", "_x", "==", "\u2003", "\u200d"]
        ),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    ),
    max_size=8,
).map("".join)


def test_accents_emoji_and_a_decomposed_accent_have_the_originals_ids(pair):
    theirs, ours = pair
    for text in FIRST:
        assert ours.encode(text, add_special_tokens=False).ids == theirs.encode(text, add_special_tokens=False).ids


@settings(max_examples=scale_examples(300), deadline=None)
@given(text=TEXTS)
def test_every_text_has_the_originals_ids_and_comes_back(pair, text):
    theirs, ours = pair
    ids = ours.encode(text, add_special_tokens=False).ids
    assert ids == theirs.encode(text, add_special_tokens=False).ids
    plain = text if ours.normalizer is None else ours.normalizer.normalize_str(text)
    if not any(token in plain for token in SPECIAL):
        assert ours.decode(ids, skip_special_tokens=False) == plain


def test_marked_tokens_are_whole_and_no_others_are_added(pair):
    theirs, ours = pair
    assert ours.get_vocab() == theirs.get_vocab()
    for i, token in enumerate(SPECIAL):
        assert ours.encode(token, add_special_tokens=False).ids == [i]
