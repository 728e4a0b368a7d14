"""How good a head is: on text that its target has just written, and in tokens per second of whole answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from decoding.config import EngineConfig
from decoding.engine import Engine
from decoding.models.dflash import DFlash
from decoding.models.errors import ModelError
from decoding.models.loaded import LoadedModel
from decoding.models.trained_heads import LoadedHead
from decoding.request import Request, SamplingParams
from decoding.training.documents import DocumentBatch
from decoding.training.initial import read_output_rows
from decoding.training.objective import Objective
from decoding.training.text_recorder import RecordedText

DRAFTERS = ("none", "trained", "sibling", "sibling+trained")
BATCHES = (1, 8)
TEMPERATURE = 0.2
LONGEST = 160
"""Tokens of an answer whose speed is measured."""


@torch.inference_mode()
def measure_match(head: DFlash, target: LoadedModel, recordings: Sequence[RecordedText]) -> list[float]:
    """Return the share of positions whose top token the head has right, at each position of a block.

    `target` has its weights as PyTorch loads them, `head` runs in float32; the recordings have the head's taps. Raises
    ModelError where its logits are not numbers.
    """
    embedding = target.model.get_input_embeddings()
    objective = Objective(head, lambda ids: embedding(ids).float(), read_output_rows(target, head.token_ids))
    matched, total = [0] * head.n_proposed, [0] * head.n_proposed
    for recording in recordings:
        for j, position in enumerate(objective.compute_positions(DocumentBatch.pad_recordings([recording]))):
            if position.n_known and not bool(position.divergence.isfinite()):
                raise ModelError(f"the head computes logits that are not numbers on {target.name}: choose another.")
            matched[j] += position.n_matched
            total[j] += position.n
    return [m / max(n, 1) for m, n in zip(matched, total, strict=True)]


def measure_speeds(
    target: LoadedModel, head: LoadedHead, prompts: Sequence[str], on_done: Callable[[], None] = lambda: None
) -> list[dict[str, Any]]:
    """Return tokens per second of answers to `prompts`: {drafter, batch, temperature, tokens_per_s} each.

    The drafters take turns on each prompt, so that a machine that becomes slower is slower for all.
    """
    engines = {
        name: Engine(EngineConfig(target.ref, name), target, None, head if "trained" in name else None)
        for name in DRAFTERS
    }
    for engine in engines.values():
        engine.warm_up()
    rows = []
    for batch in BATCHES:
        tokens, seconds = dict.fromkeys(DRAFTERS, 0), dict.fromkeys(DRAFTERS, 0.0)
        for seed, prompt in enumerate(prompts):
            for name, engine in engines.items():
                request = Request(prompt, batch, SamplingParams(TEMPERATURE), seed, max_new_tokens=LONGEST)
                started = time.perf_counter()
                done = engine.generate(request)
                seconds[name] += time.perf_counter() - started
                tokens[name] += sum(sample.n_tokens for sample in done.samples)
                on_done()
        rows += [
            {"drafter": name, "batch": batch, "temperature": TEMPERATURE, "tokens_per_s": tokens[name] / seconds[name]}
            for name in DRAFTERS
        ]
    return rows
