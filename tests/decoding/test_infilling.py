"""The formats of infilling: each family is known by its tokens, and its prompt has them as single tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import AddedToken
from transformers import CodeLlamaTokenizer

from decoding.models.infilling import FORMATS, InfillFormat, find_format
from tests.decoding.conftest import byte_tokenizer

FAMILIES = [pytest.param(each, id=each.family) for each in FORMATS]
PREFIX, SUFFIX = "def f(x):\n    y = {x}\n", "\n    return y\n"
PROMPTS = {
    "Qwen": f"<|fim_prefix|>{PREFIX}<|fim_suffix|>{SUFFIX}<|fim_middle|>",
    "StarCoder": f"<fim_prefix>{PREFIX}<fim_suffix>{SUFFIX}<fim_middle>",
    "DeepSeek": f"<｜fim▁begin｜>{PREFIX}<｜fim▁hole｜>{SUFFIX}<｜fim▁end｜>",
    "Seed-Coder": f"<[fim-suffix]>{SUFFIX}<[fim-prefix]>{PREFIX}<[fim-middle]>",
    "CodeLlama": f"▁<PRE> {PREFIX}▁<SUF>{SUFFIX}▁<MID>",
    "Codestral": f"[SUFFIX]{SUFFIX}[PREFIX]{PREFIX}",
    "GLM": f"<|code_prefix|>{PREFIX}<|code_suffix|>{SUFFIX}<|code_middle|>",
    "CodeGeeX4": f"<|user|>\n<|code_suffix|>{SUFFIX}<|code_prefix|>{PREFIX}<|code_middle|><|assistant|>\n",
}


def tokenizer_with(*tokens: str):
    """One token per byte, and these."""
    made = byte_tokenizer()
    made.add_special_tokens({"additional_special_tokens": [AddedToken(token, normalized=False) for token in tokens]})
    return made


@pytest.mark.parametrize("family", PROMPTS)
def test_each_family_has_its_order_and_markers(family: str) -> None:
    (found,) = [each for each in FORMATS if each.family.startswith(family)]
    assert found.render(PREFIX, SUFFIX) == PROMPTS[family]
    assert len(FORMATS) == len(PROMPTS)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_known_by_its_tokens_which_are_single_ones_in_its_prompt(family: InfillFormat) -> None:
    made = tokenizer_with(*family.tokens)
    assert find_format(made, len(made)) is family
    ids = made(family.render(PREFIX, SUFFIX), add_special_tokens=False)["input_ids"]
    markers = [made.convert_tokens_to_ids(marker) for marker in family.markers]
    assert [token for token in ids if token in markers] == [*markers]
    assert made.decode(ids) == family.render(PREFIX, SUFFIX)
    for missing in family.tokens:
        rest = tokenizer_with(*(token for token in family.tokens if token != missing))
        assert find_format(rest, len(rest)) is None


def test_tokens_that_the_model_does_not_know_are_no_markers() -> None:
    made = tokenizer_with(*FORMATS[0].markers)
    assert find_format(made, len(made) - 1) is None


def test_a_marker_that_is_cut_into_pieces_is_none() -> None:
    made = tokenizer_with("<|fim", *FORMATS[0].markers[1:])
    made.add_tokens(["_prefix|>"])
    assert find_format(made, len(made)) is None


def test_the_tokenizer_of_codellama_gives_the_ids_of_its_own_infilling(tmp_path: Path) -> None:
    pieces = ["<unk>", "<s>", "</s>", "▁", *"abcdefxy(){}:=\n", "▁def", "▁<PRE>", "▁<SUF>", "▁<MID>", "▁<EOT>"]
    merges = [("d", "e"), ("de", "f"), ("▁", "def")]
    vocab = {piece: i for i, piece in enumerate([*pieces, "de", "def"])}
    made = CodeLlamaTokenizer(vocab=vocab, merges=merges)
    found = find_format(made, len(made))
    assert found is not None
    assert found.family == "CodeLlama"
    ids = made(found.render("def f", "b"), add_special_tokens=False)["input_ids"]
    assert [made.convert_ids_to_tokens(token) for token in ids] == [
        *("▁<PRE>", "▁def", "▁", "f", "▁<SUF>", "b", "▁<MID>")
    ]


def test_the_documentation_lists_every_family() -> None:
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    for each in FORMATS:
        row = f"| {each.family} | `{each.template}` |".replace("|>", "\\|>").replace("<|", "<\\|").replace("\n", "\\n")
        assert row in page, row
