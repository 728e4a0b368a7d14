"""How fast is decoding, against transformers' generate and against our own plain decoding?

The same HumanEval prompts in chat form, the same dtype, in one run, the arms taking turns on each prompt. A speed is
tokens per second over all samples of a prompt, prefill included; a ratio is taken prompt by prompt and its median
reported with quartiles. Samples run to their end-of-sequence token or --max-tokens.

    bassline bench decode --models qwen2.5-coder-0.5b --batches 1,8 --json decode.json
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from benchmarks._report import Report, print_table, spread
from decoding import models
from decoding.attention import ATTENTION_NAME
from decoding.config import EngineConfig, parse_drafter
from decoding.device import device_name
from decoding.engine import Engine
from decoding.prepack import prepack
from decoding.request import Request, SamplingParams
from evaluation import datasets, prompting

ARMS = ("generate", "none", "ngram/goodput", "sibling/goodput", "sibling/bass", "sibling/fixed:4")


@dataclass(frozen=True)
class Speed:
    """One prompt decoded by one arm."""

    tokens: int
    seconds: float
    acceptance: float | None
    finished_ms: tuple[float, float, float] | None

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds


def main(argv: list[str] | None = None) -> int:
    """Run the arms, print the table, write JSON if asked to; return 0."""
    options = _options(argv)
    report = Report("decode", device_name(torch.device(options.device)), vars(options))
    for name in options.models.split(","):
        bench = _Model(name, options)
        for n, temperature in product(
            map(int, options.batches.split(",")), map(float, options.temperatures.split(","))
        ):
            speeds: dict[str, list[Speed]] = defaultdict(list)
            for prompt in bench.prompts(options.tasks):
                for arm in bench.arms:
                    speeds[arm].append(bench.run(arm, prompt, n, temperature))
                    print(f"{name} n={n} T={temperature} {arm}: {speeds[arm][-1].rate:.1f} tokens/s", file=sys.stderr)
            report.rows += list(_rows(name, n, temperature, speeds))
    report.figures = _figures(report.rows)
    print(f"{report.device}; {options.tasks} prompts, at most {options.max_tokens} tokens, {options.dtype}")
    print_table(report.rows)
    print()
    print_table([{"figure": figure, "ratio": ratio} for figure, ratio in report.figures.items()])
    report.write(options.json)
    return 0


class _Model:
    """A target in two copies, ours with prepacked weights and transformers' own, and the drafters asked for."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.options = options
        self.arms = tuple(options.arms.split(","))
        self.target = models.load(name, options.dtype, options.device, attention=ATTENTION_NAME)
        prepack(self.target.model)
        self.stock = None
        if "generate" in self.arms:
            self.stock = models.load(name, options.dtype, options.device, attention="sdpa").model
        self.engines = {arm: self._engine(arm) for arm in self.arms if arm != "generate"}

    def _engine(self, arm: str) -> Engine:
        drafter, _, length = arm.partition("/")
        config = EngineConfig(
            target=self.target.ref,
            drafter=drafter,
            draft_length=length or "fixed:0",
            acceptance=self.options.acceptance,
            max_batch=64,
        )
        draft = None
        if (ref := parse_drafter(drafter).model) is not None:
            draft = models.load(ref, self.options.dtype, self.options.device, attention=ATTENTION_NAME)
            prepack(draft.model)
        engine = Engine(config, self.target, draft)
        engine.generate(Request("def f(x):\n    return x\n" * 4, n=2, max_new_tokens=8))
        return engine

    def prompts(self, n_tasks: int) -> Iterator[str]:
        """Yield HumanEval prompts as the chat mode shows them."""
        any_engine = next(iter(self.engines.values()))
        for task in datasets.load("humaneval").tasks[:n_tasks]:
            prompt = prompting.build(task, "chat")
            yield any_engine.render_chat(prompt.messages or [], prompt.reply_prefix)

    def run(self, arm: str, prompt: str, n: int, temperature: float) -> Speed:
        """Decode one prompt."""
        if arm == "generate":
            return self._generate(prompt, n, temperature)
        sampling = SamplingParams(temperature=temperature, top_p=0.95)
        request = Request(prompt, n=n, sampling=sampling, max_new_tokens=self.options.max_tokens)
        done = self.engines[arm].generate(request)
        rounds = sum(s.n_rounds for s in done.samples)
        each = sorted((s.finished_s or 0.0, 1000 * (s.finished_s or 0.0) / max(s.n_tokens, 1)) for s in done.samples)
        return Speed(
            tokens=sum(s.n_tokens for s in done.samples),
            seconds=done.wall_s,
            acceptance=1 + sum(s.n_accepted for s in done.samples) / rounds,
            finished_ms=(each[0][1], each[-1][1], sum(ms for _, ms in each) / len(each)),
        )

    @torch.inference_mode()
    def _generate(self, prompt: str, n: int, temperature: float) -> Speed:
        assert self.stock is not None
        tokenizer, eos = self.target.tokenizer, list(self.target.eos_token_ids)
        torch.manual_seed(0)
        started = time.perf_counter()
        ids = tokenizer(prompt, return_tensors="pt").to(self.target.device)
        out = self.stock.generate(
            **ids,
            do_sample=True,
            temperature=temperature,
            top_p=0.95,
            top_k=0,
            num_return_sequences=n,
            max_new_tokens=self.options.max_tokens,
            eos_token_id=eos,
            pad_token_id=eos[0],
        )
        seconds = time.perf_counter() - started
        new = out[:, ids["input_ids"].shape[1] :]
        ended = torch.isin(new, torch.tensor(eos, device=new.device))
        # Tokens before the first end-of-sequence token of each row; the rest is padding.
        tokens = int((ended.cumsum(dim=1) == 0).sum())
        return Speed(tokens, seconds, None, None)


def _rows(name: str, n: int, temperature: float, speeds: dict[str, list[Speed]]) -> Iterator[dict[str, Any]]:
    def ratios(arm: str, base: str) -> str:
        if base not in speeds or arm == base:
            return "-"
        low, middle, high = spread([a.rate / b.rate for a, b in zip(speeds[arm], speeds[base], strict=True)])
        return f"{middle:.2f} ({low:.2f} to {high:.2f})"

    for arm, runs in speeds.items():
        low, middle, high = spread([run.rate for run in runs])
        timed = [run.finished_ms for run in runs if run.finished_ms is not None]
        first, last, mean = (spread([t[i] for t in timed])[1] if timed else float("nan") for i in range(3))
        yield {
            "model": name,
            "n": n,
            "temperature": temperature,
            "arm": arm,
            "tokens/s": middle,
            "quartiles": f"{low:.0f} to {high:.0f}",
            "vs plain": ratios(arm, "none"),
            "vs generate": ratios(arm, "generate"),
            "acceptance length": spread([r.acceptance for r in runs if r.acceptance])[1] if timed else float("nan"),
            "first ms/token": first,
            "last": last,
            "all": mean,
        }


def _figures(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The best speculative arm's ratios per model, batch and temperature, and plain decoding's."""

    def ratio(text: str) -> float:
        return float(text.split(maxsplit=1)[0])

    figures: dict[str, float] = {}
    for row in rows:
        at = f"{row['model']}.b{row['n']}"
        names = {f"{at}.t{row['temperature']}", at}
        for prefix in names:
            if row["arm"] == "none" and row["vs generate"] != "-":
                key = f"{prefix}.plain_vs_generate"
                figures[key] = max(figures.get(key, 0.0), ratio(row["vs generate"]))
            if row["arm"] not in ("none", "generate"):
                for base in ("plain", "generate"):
                    if row[f"vs {base}"] != "-":
                        key = f"{prefix}.speculative_vs_{base}"
                        figures[key] = max(figures.get(key, 0.0), ratio(row[f"vs {base}"]))
    return dict(sorted(figures.items()))


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bassline bench decode", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="qwen2.5-coder-0.5b,smollm2-135m", help="targets, by comma")
    parser.add_argument("--arms", default=",".join(ARMS), help="generate, none, or DRAFTER/DRAFT_LENGTH, by comma")
    parser.add_argument("--batches", default="1,8", help="samples per prompt, by comma")
    parser.add_argument("--temperatures", default="0.2,0.8", help="by comma")
    parser.add_argument("--tasks", type=int, default=5, help="HumanEval prompts")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--acceptance", default="coupled", choices=["coupled", "maximal"])
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--json", metavar="FILE", help="also write the report as JSON; - for standard output")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
