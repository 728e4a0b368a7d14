"""How fast is decoding, against transformers' generate and against our own plain decoding?

All arms decode the same HumanEval prompts in chat form, in one dtype and one process, taking turns on each prompt. A
speed is tokens per second over all samples of a prompt, prefill included. Ratios are computed per prompt; the table
shows their median and quartiles. Samples run to their end-of-sequence token or --max-tokens.

    bassline bench decode --json decode.json
    bassline bench decode --models smollm2-135m --batches 1,2,4,8,16,32 --arms none,sibling/goodput,sibling/fixed:4
    bassline bench decode --models qwen2.5-coder-0.5b --arms none,sibling/goodput,sibling/goodput/maximal

An arm is none, DRAFTER/LENGTH[/RULE], generate, or assisted (transformers' assisted generation, one sample only).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import torch

from benchmarks._arms import ASSISTED, GENERATE, PLAIN, STOCK, Arms, Speed
from benchmarks._report import Report, print_table, spread
from benchmarks._timing import copy_bandwidth, matmul_rate
from decoding.models.device import device_name

MODELS = ("qwen2.5-coder-0.5b", "smollm2-135m", "qwen2.5-coder-1.5b")
LOOKUP_ARMS = (GENERATE, ASSISTED, PLAIN, "ngram/goodput", "sibling/goodput", "sibling/bass", "sibling/fixed:4")
# Its generate is too slow for an interactive benchmark; it shows the gain of a draft model.
DRAFTED = "qwen2.5-coder-0.5b"
ARMS = {
    "qwen2.5-coder-1.5b": (
        PLAIN,
        "sibling/goodput",
        f"{DRAFTED}/goodput",
        f"sibling+{DRAFTED}/goodput",
        f"{DRAFTED}/bass",
    )
}

Speeds = dict[str, list[Speed]]


def main(argv: list[str] | None = None) -> int:
    """Run the arms, print the table, write JSON if asked; return 0."""
    options = _options(argv)
    device = torch.device(options.device)
    report = Report("decode", device_name(device), vars(options))
    bandwidth, flops = copy_bandwidth(device), matmul_rate(device, getattr(torch, options.dtype))
    report.settings |= {"copy_bandwidth_gb_per_s": bandwidth / 1e9, "peak_gflops": flops / 1e9}
    cells = list(product(_numbers(options.batches, int), _numbers(options.temperatures, float)))
    for name in options.models.split(","):
        names = options.arms.split(",") if options.arms else list(ARMS.get(name, LOOKUP_ARMS))
        arms = Arms(name, names, options.dtype, options.device, options.max_tokens)
        floor_s = arms.target.n_weight_bytes / bandwidth
        started = time.monotonic()
        for i, (n, temperature) in enumerate(cells):
            speeds = _measure(arms, options.tasks, n, temperature)
            report.rows += _rows(name, n, temperature, speeds)
            report.figures |= _figures(name, n, temperature, speeds, report.figures)
            for arm in speeds:
                report.figures |= _utilization(f"{name}.b{n}.t{temperature:g}.{arm}", arms, speeds[arm], flops, floor_s)
            left = (time.monotonic() - started) / (i + 1) * (len(cells) - i - 1)
            print(f"{name}: batch {n} at temperature {temperature:g} done, {left:.0f} s left", file=sys.stderr)
    settings = f"{options.tasks} prompts, at most {options.max_tokens} tokens, {options.dtype}"
    print(f"{report.device}; {settings}; copies at {bandwidth / 1e9:.1f} GB/s, products at {flops / 1e9:.0f} GFLOP/s")
    print_table(report.rows)
    print()
    print_table([{"figure": figure, "value": value} for figure, value in sorted(report.figures.items())])
    report.write(options.json)
    return 0


def _measure(arms: Arms, n_tasks: int, n: int, temperature: float) -> Speeds:
    speeds: Speeds = defaultdict(list)
    for prompt in arms.prompts(n_tasks):
        for arm in arms.names:
            if speed := arms.run(arm, prompt, n, temperature):
                speeds[arm].append(speed)
    return speeds


def _ratio(speeds: Speeds, arm: str, base: str) -> tuple[float, float, float] | None:
    """Quartiles of the ratio of two arms over the prompts."""
    if arm not in speeds or base not in speeds or arm == base:
        return None
    return spread([a.rate / b.rate for a, b in zip(speeds[arm], speeds[base], strict=True)])


def _rows(name: str, n: int, temperature: float, speeds: Speeds) -> Iterator[dict[str, Any]]:
    def show(ratio: tuple[float, float, float] | None) -> str:
        return f"{ratio[1]:.2f} ({ratio[0]:.2f} to {ratio[2]:.2f})" if ratio else "-"

    for arm, runs in speeds.items():
        low, middle, high = spread([run.rate for run in runs])
        samples = [s for run in runs if run.completion for s in run.completion.samples]
        rounds = sum(s.n_rounds for s in samples)
        drafted = sum(s.n_drafted for s in samples)
        accepted = sum(s.n_accepted for s in samples)
        first, last, mean = _latencies(runs)
        yield {
            "model": name,
            "n": n,
            "T": temperature,
            "arm": arm,
            "tokens/s": middle,
            "quartiles": f"{low:.0f} to {high:.0f}",
            "vs plain": show(_ratio(speeds, arm, PLAIN)),
            "vs generate": show(_ratio(speeds, arm, GENERATE)),
            "acceptance length": 1 + accepted / rounds if rounds else float("nan"),
            "acceptance rate": accepted / drafted if drafted else float("nan"),
            "first ms/token": first,
            "last": last,
            "all": mean,
        }


def _latencies(runs: Sequence[Speed]) -> tuple[float, float, float]:
    """Medians over the prompts of First, Last and All (BASS, section 4), ms per token."""
    timed = []
    for run in runs:
        done = sorted(
            (s.finished_s, s.ms_per_token)
            for s in (run.completion.samples if run.completion else ())
            if s.finished_s is not None and s.ms_per_token is not None
        )
        if done:
            timed.append((done[0][1], done[-1][1], sum(ms for _, ms in done) / len(done)))
    nothing = float("nan")
    first, last, mean = (spread([t[i] for t in timed])[1] if timed else nothing for i in range(3))
    return first, last, mean


def _figures(name: str, n: int, temperature: float, speeds: Speeds, known: dict[str, float]) -> dict[str, float]:
    """Ratios of the best speculative arm and of plain decoding, per temperature and for the best temperature."""
    ours = [arm for arm in speeds if arm not in (PLAIN, *STOCK)]
    fixed = [arm for arm in ours if "/fixed:" in arm]
    wanted = {
        "plain_vs_generate": ([PLAIN], GENERATE),
        "speculative_vs_plain": (ours, PLAIN),
        "speculative_vs_generate": (ours, GENERATE),
        "speculative_vs_assisted": (ours, ASSISTED),
    }
    found: dict[str, float] = {}
    for key, (arms, base) in wanted.items():
        ratios = [ratio[1] for arm in arms if (ratio := _ratio(speeds, arm, base))]
        if ratios:
            found[f"{name}.b{n}.t{temperature:g}.{key}"] = max(ratios)
            found[f"{name}.b{n}.{key}"] = max(*ratios, known.get(f"{name}.b{n}.{key}", 0.0))
    for arm in ours:
        at = f"{name}.b{n}.t{temperature:g}.{arm}"
        if ratio := _ratio(speeds, arm, PLAIN):
            found[f"{at}.vs_plain"] = ratio[1]
        if fixed and arm not in fixed:
            # The best fixed length, chosen afterwards, one for all prompts.
            found[f"{at}.vs_best_fixed"] = min(r[1] for f in fixed if (r := _ratio(speeds, arm, f)))
    return found


def _utilization(at: str, arms: Arms, runs: Sequence[Speed], flops: float, floor_s: float) -> dict[str, float]:
    """Shares of the machine's peak arithmetic (BASS, section 4): by tokens verified, and by tokens emitted.

    A token that several samples of a shared row emit counts for each of them, so the second may exceed the first.
    """
    rounds = [r for run in runs if run.completion for r in run.completion.rounds]
    if not rounds:
        return {}
    per_token = 2 * arms.target.n_parameters / flops
    seconds = sum(r.draft_s + r.verify_s + r.other_s for r in rounds)
    return {
        f"{at}.processed_utilization": per_token * sum(r.n_verified for r in rounds) / seconds,
        f"{at}.useful_utilization": per_token * sum(r.n_emitted for r in rounds) / seconds,
        f"{at}.round_vs_weight_read": seconds / len(rounds) / floor_s,
    }


def _numbers(text: str, kind: type) -> list[Any]:
    return [kind(part) for part in text.split(",")]


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bassline bench decode", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join(MODELS), help="targets, by comma")
    parser.add_argument("--arms", help="by comma; by default those that suit the model")
    parser.add_argument("--batches", default="1,8", help="samples per prompt, by comma")
    parser.add_argument("--temperatures", default="0.2,0.8", help="by comma")
    parser.add_argument("--tasks", type=int, default=3, help="HumanEval prompts")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--json", metavar="FILE", help="also write the report as JSON; - for standard output")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
