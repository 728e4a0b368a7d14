"""What a GGUF file and its family say of a tokenizer, and transformers' reader leaves out.

The file has the vocabulary, the merges and the kinds of tokens. How text is normalized and cut before the merges it
only names (`tokenizer.ggml.pre`). The rules are llama.cpp's (llama-vocab.cpp). They were compared with the
family's own tokenizer.json for Qwen, Llama 3, and DeepSeek V3 and V4 alone. A name that is not here keeps the reader's
rules.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NFC = {"qwen2", "qwen35"}
"""Families whose tokenizer normalizes to NFC: an accent that follows its letter becomes one character with it."""
WHOLE_TOKENS = {"llama3", "llama-v3", "llama-bpe", "tekken"}
"""Families whose tokenizer takes a piece that is a token as it is, even where no merges lead to it."""
SINGLE_DIGITS = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum"}
"""Families whose tokenizer splits numbers into digits, and then the text as GPT-2 does."""
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITS: dict[str, tuple[str, ...]] = {
    "stablelm2": (rf"{_WORDS}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}",),
    "chatglm-bpe": (rf"{_WORDS}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}",),
    "seed-coder": (rf"{_WORDS}|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACES}",),
    "deepseek-coder": (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\ud7ff]+", r"\p{N}"),
    "deepseek-v3": (
        r"\p{N}{1,3}",
        "[一-龥\u3040-\u309f\u30a0-\u30ff]+",
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
        rf"|{_SPACES}",
    ),
}
"""The expressions that cut a text before the merges, each within the pieces of the one before."""
_ROLES = ("bos_token", "eos_token", "unk_token", "pad_token")


def complete_tokenizer(tokenizer: Any, gguf: Path) -> None:
    """Add to a tokenizer read from GGUF the settings of the file or its family that the reader ignores."""
    from gguf import GGUFReader, TokenType  # noqa: PLC0415
    from tokenizers import AddedToken, Regex, decoders, normalizers, pre_tokenizers  # noqa: PLC0415

    reader = GGUFReader(gguf)

    def setting(key: str) -> Any:
        field = reader.get_field(f"tokenizer.ggml.{key}")
        return field.contents() if field else None

    kinds = setting("token_type") or []
    marked = [i for i, kind in enumerate(kinds) if kind in (TokenType.CONTROL, TokenType.USER_DEFINED)]
    if setting("model") == "gpt2":
        _restore_tokens(tokenizer, setting("tokens"), marked)
    for token_id in marked:
        if token_id not in tokenizer.added_tokens_decoder:
            special = kinds[token_id] == TokenType.CONTROL
            token = AddedToken(tokenizer.convert_ids_to_tokens(token_id), normalized=False, special=special)
            tokenizer.add_tokens([token], special_tokens=special)
    for role, key in (("eos_token", "eos_token_id"), ("pad_token", "padding_token_id")):
        token_id = setting(key)
        if token_id is not None:
            setattr(tokenizer, role, tokenizer.convert_ids_to_tokens(token_id))
    backend, family = tokenizer.backend_tokenizer, setting("pre")
    if setting("model") == "gpt2":
        backend.decoder = decoders.ByteLevel()
    if family in SINGLE_DIGITS:
        digits = pre_tokenizers.Digits(individual_digits=True)
        backend.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    elif family in SPLITS:
        splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in SPLITS[family]]
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )
    if family in NFC:
        backend.normalizer = normalizers.NFC()
    if family in WHOLE_TOKENS:
        backend.model.ignore_merges = True


def _restore_tokens(tokenizer: Any, tokens: list[str], marked: list[int]) -> None:
    """Give marked tokens their text again, and remove tokens that the file does not have.

    The reader spells the bytes of every token with a character that stands for no byte, such as <｜fim▁hole｜>, so no
    text matches it. It adds some of them a second time, behind the vocabulary.
    """
    from tokenizers import Tokenizer  # noqa: PLC0415

    for role in _ROLES:
        if (text := getattr(tokenizer, role)) is not None and text not in tokens:
            setattr(tokenizer, role, None)
    spec = json.loads(tokenizer.backend_tokenizer.to_str())
    names = {token_id: tokens[token_id] for token_id in marked}
    vocab = {names.get(i, token): i for token, i in spec["model"]["vocab"].items() if i < len(tokens)}
    spec["model"]["vocab"] = vocab
    spec["added_tokens"] = [
        {**token, "content": names.get(token["id"], token["content"])}
        for token in spec["added_tokens"]
        if token["id"] < len(tokens)
    ]
    for name, token in ((spec["post_processor"] or {}).get("special_tokens") or {}).items():
        if name in vocab:
            token["ids"] = [vocab[name]]
    tokenizer._tokenizer = Tokenizer.from_str(json.dumps(spec))
