"""The formats of infilling: markers and their order in each family of models. No torch here.

This is the one list: engines find a model's format here by the tokens of its tokenizer, and docs/models.md shows it.
Files of a repository around the gap are left out: only the plain form of each family is used.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class InfillFormat:
    """How a family of models is asked for the text of a gap.

    `template` has the places {prefix} and {suffix}. A model whose tokenizer has all `markers` and `others`, each as a
    single token, is of this family. `source` is where the format is documented.
    """

    family: str
    template: str
    markers: tuple[str, ...]
    source: str
    others: tuple[str, ...] = ()  # tokens that tell it from another family with the same markers

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens by which it is known."""
        return self.markers + self.others

    def render(self, prefix: str, suffix: str) -> str:
        """The prompt for the gap between the two texts."""
        return self.template.format(prefix=prefix, suffix=suffix)


FORMATS: tuple[InfillFormat, ...] = (
    InfillFormat(
        "Qwen (with Zeta 1), CodeGemma, Granite 4",
        "<|fim_prefix|>{prefix}<|fim_suffix|>{suffix}<|fim_middle|>",
        ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
        "github.com/QwenLM/Qwen2.5-Coder, README, Fill in the middle",
    ),
    InfillFormat(
        "StarCoder, StarCoder2, Granite 3, Mellum",
        "<fim_prefix>{prefix}<fim_suffix>{suffix}<fim_middle>",
        ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
        "huggingface.co/bigcode/starcoder, model card, Fill-in-the-middle",
    ),
    InfillFormat(
        "DeepSeek Coder",
        "<｜fim▁begin｜>{prefix}<｜fim▁hole｜>{suffix}<｜fim▁end｜>",
        ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
        "github.com/deepseek-ai/DeepSeek-Coder, README, Code Insertion",
    ),
    InfillFormat(
        "Seed-Coder (with Zeta 2)",
        "<[fim-suffix]>{suffix}<[fim-prefix]>{prefix}<[fim-middle]>",
        ("<[fim-suffix]>", "<[fim-prefix]>", "<[fim-middle]>"),
        "arxiv.org/abs/2506.03524, section 2.2 (suffix first)",
    ),
    InfillFormat(
        # The blank behind the first marker is SentencePiece's own, which it puts before a text.
        "CodeLlama",
        "▁<PRE> {prefix}▁<SUF>{suffix}▁<MID>",
        ("▁<PRE>", "▁<SUF>", "▁<MID>"),
        "github.com/meta-llama/codellama, llama/generation.py, infilling_prompt_tokens",
    ),
    InfillFormat(
        "Codestral",
        "[SUFFIX]{suffix}[PREFIX]{prefix}",
        ("[SUFFIX]", "[PREFIX]"),
        "github.com/mistralai/mistral-common, tokens/tokenizers/instruct.py, encode_fim (no third marker)",
    ),
    InfillFormat(
        "GLM 4.5 and later",
        "<|code_prefix|>{prefix}<|code_suffix|>{suffix}<|code_middle|>",
        ("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"),
        "github.com/zed-industries/zed, crates/edit_prediction/src/fim.rs",
        ("<think>",),
    ),
    InfillFormat(
        "CodeGeeX4",
        "<|user|>\n<|code_suffix|>{suffix}<|code_prefix|>{prefix}<|code_middle|><|assistant|>\n",
        ("<|code_suffix|>", "<|code_prefix|>", "<|code_middle|>"),
        "github.com/THUDM/CodeGeeX4, guides/Infilling_guideline.md",
        ("<|user|>", "<|assistant|>"),
    ),
)


def find_format(tokenizer: Any, vocab_size: int) -> InfillFormat | None:
    """Return the format whose tokens this tokenizer has, each as a single one that the model knows, or None."""
    added: dict[str, int] = tokenizer.get_added_vocab()

    def is_known(token: str) -> bool:
        ids = tokenizer(token, add_special_tokens=False)["input_ids"] if token in added else []
        return ids == [added.get(token)] and ids[0] < vocab_size

    return next((each for each in FORMATS if all(map(is_known, each.tokens))), None)


_TOKENIZER = "tokenizer.json"
_FILES = (_TOKENIZER, "tokenizer_config.json", "added_tokens.json", "special_tokens_map.json")


def may_have_markers(folder: Path) -> bool:
    """Return whether the tokenizer in a model's folder may have markers: False only where its files name none.

    Reads text and makes no tokenizer, so it costs milliseconds.
    """
    if not (folder / _TOKENIZER).is_file():
        return True  # another format, which transformers converts
    files = [folder / name for name in _FILES]
    text = "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())
    return any(all(token in text or json.dumps(token)[1:-1] in text for token in each.tokens) for each in FORMATS)
