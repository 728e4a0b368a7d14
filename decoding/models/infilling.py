"""The markers of infilling: those that a tokenizer has, and whether a model's files can hold any. No torch here."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

Markers = tuple[str, str, str]
# (prefix, suffix, middle): Qwen and CodeGemma, StarCoder, DeepSeek Coder.
FIM_TOKENS: tuple[Markers, ...] = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
)
_TOKENIZER = "tokenizer.json"
_FILES = (_TOKENIZER, "tokenizer_config.json", "added_tokens.json", "special_tokens_map.json")


def markers_among(added_tokens: Collection[str]) -> Markers | None:
    """Return the markers that a tokenizer with these added tokens has, or None."""
    return next((triple for triple in FIM_TOKENS if all(token in added_tokens for token in triple)), None)


def may_have_markers(folder: Path) -> bool:
    """Return whether the tokenizer in a model's folder may have markers: False only where its files name none.

    Reads text and makes no tokenizer, so it costs milliseconds.
    """
    if not (folder / _TOKENIZER).is_file():
        return True  # another format, which transformers converts
    files = [folder / name for name in _FILES]
    text = "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())
    return any(all(token in text or json.dumps(token)[1:-1] in text for token in triple) for triple in FIM_TOKENS)
