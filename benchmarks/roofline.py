"""The shortest time that attention and a round can take on a GPU, on paper: by memory bandwidth and by arithmetic.

Nothing is measured. Peaks are the vendor's figures for dense bf16, so a real time is longer.

    bassline bench roofline
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from benchmarks._report import Report, print_table

ACCEPTANCE, STEP = 0.8, 0.05
"""Assumed in the tables: a draft token's chance, and a head's step as a share of a plain round."""
BYTES = 2  # of a number in bf16


@dataclass(frozen=True)
class Gpu:
    """Peaks of a device: bytes a second of its memory, bf16 operations a second of its tensor cores, dense."""

    name: str
    bandwidth: float
    flops: float


@dataclass(frozen=True)
class Model:
    """A target: parameters that a round reads (the output layer included, the embedding not), layers and heads."""

    name: str
    parameters: float
    layers: int
    heads: int
    kv_heads: int
    D: int

    @property
    def kv_bytes(self) -> int:
        """Bytes of one token's keys and values, all layers."""
        return 2 * self.layers * self.kv_heads * self.D * BYTES


@dataclass(frozen=True)
class Work:
    """Bytes to move and operations to compute."""

    bytes: float
    flops: float

    def seconds(self, gpu: Gpu) -> float:
        """Return the longer of both, as if they overlapped perfectly."""
        return max(self.bytes / gpu.bandwidth, self.flops / gpu.flops)

    def bound(self, gpu: Gpu) -> str:
        """Return what limits it: memory or arithmetic."""
        return "memory" if self.bytes / gpu.bandwidth >= self.flops / gpu.flops else "arithmetic"


GPUS = (
    Gpu("A100", 2.04e12, 312e12),
    Gpu("H100", 3.35e12, 989e12),
    Gpu("B200", 8.0e12, 2250e12),
)
"""SXM modules; A100 with 80 GB."""
_NAMES = " / ".join(gpu.name for gpu in GPUS)
MODELS = (
    Model("qwen2.5-coder-0.5b", 0.494e9, 24, 14, 2, 64),
    Model("7.8B shape", 7.59e9, 32, 32, 8, 128),
)


def attention(model: Model, batch: int, context: int, tokens: int) -> Work:
    """Return the work of one layer's attention of a verify with `tokens` = k + 1 in each row."""
    slots = context + tokens
    moved = BYTES * batch * model.D * (2 * slots * model.kv_heads + 2 * tokens * model.heads)
    return Work(moved, 4 * batch * tokens * slots * model.heads * model.D)


def verify(model: Model, batch: int, context: int, tokens: int) -> Work:
    """Return the work of the target in a round: all weights once, and attention in every layer."""
    attend = attention(model, batch, context, tokens)
    flops = 2 * model.parameters * batch * tokens + model.layers * attend.flops
    return Work(BYTES * model.parameters + model.layers * attend.bytes, flops)


def free_tokens(gpu: Gpu, model: Model, batch: int, context: int) -> int:
    """Return the most tokens in each row, k + 1, for which memory still limits a verify; 0 if not even one."""
    tokens = 0
    while verify(model, batch, context, tokens + 1).bound(gpu) == "memory":
        tokens += 1
    return tokens


def best_length(gpu: Gpu, model: Model, batch: int, context: int, acceptance: float, step: float) -> tuple[int, float]:
    """Return the draft length with the most tokens a second, and its gain over plain decoding.

    A draft token is accepted with probability `acceptance` if all before it are. A draft step takes the share `step` of
    a plain round.
    """
    plain = verify(model, batch, context, 1).seconds(gpu)

    def gain(k: int) -> float:
        expected = sum(acceptance**i for i in range(k + 1))
        return expected * plain / (verify(model, batch, context, k + 1).seconds(gpu) + k * step * plain)

    best = max(range(65), key=gain)
    return best, gain(best)


def attention_rows() -> Iterator[dict[str, Any]]:
    """Yield a line for each context and number of tokens: a layer of the 7.8B shape, batch 8."""
    for context, tokens in product((512, 2048, 8192), (1, 5, 17, 65)):
        work = attention(MODELS[-1], 8, context, tokens)
        yield {
            "context": context,
            "k + 1": tokens,
            "MB": f"{work.bytes / 1e6:.1f}",
            "GFLOP": f"{work.flops / 1e9:.2f}",
            "FLOP/byte": f"{work.flops / work.bytes:.0f}",
            f"us, {_NAMES}": _each(f"{1e6 * work.seconds(gpu):.1f}" for gpu in GPUS),
            "limit": _each(work.bound(gpu) for gpu in GPUS),
        }


def round_rows() -> Iterator[dict[str, Any]]:
    """Yield a line for each model, batch and context."""
    for model, batch, context in product(MODELS, (1, 8, 32), (512, 8192)):
        plain = verify(model, batch, context, 1)
        looked_up, headed = (
            [best_length(gpu, model, batch, context, ACCEPTANCE, step) for gpu in GPUS] for step in (0.0, STEP)
        )
        yield {
            "target": model.name,
            "batch": batch,
            "context": context,
            f"plain, ms: {_NAMES}": _each(f"{1000 * plain.seconds(gpu):.2f}" for gpu in GPUS),
            "free k + 1": _each(str(free_tokens(gpu, model, batch, context)) for gpu in GPUS),
            "best k, lookup": _each(str(k) for k, _ in looked_up),
            "gain": _each(f"{gain:.1f}" for _, gain in looked_up),
            "best k, head": _each(str(k) for k, _ in headed),
            "its gain": _each(f"{gain:.1f}" for _, gain in headed),
        }


def _each(values: Iterable[str]) -> str:
    """Return the values of the devices beside each other, or the one that they share."""
    listed = list(values)
    return listed[0] if len(set(listed)) == 1 else " / ".join(listed)


def main(argv: list[str] | None = None) -> int:
    """Print the tables, write JSON if asked; return 0."""
    parser = argparse.ArgumentParser(
        prog="bassline bench roofline", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", metavar="FILE", help="also write the report as JSON; - for standard output")
    options = parser.parse_args(argv)
    tables = [list(attention_rows()), list(round_rows())]
    report = Report("roofline", "on paper", vars(options), rows=[row for rows in tables for row in rows])
    for model, gpu, batch, context in product(MODELS, GPUS, (1, 8, 32), (512, 8192)):
        at = f"{gpu.name}.{model.name}.b{batch}.c{context}"
        report.figures[f"{at}.plain_ms"] = 1000 * verify(model, batch, context, 1).seconds(gpu)
        report.figures[f"{at}.free_tokens"] = free_tokens(gpu, model, batch, context)
    for rows in tables:
        if options.json != "-":
            print_table(rows)
            print()
    report.write(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
