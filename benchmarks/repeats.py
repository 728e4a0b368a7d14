"""Do repeats of a decoding give the same texts at any timing, and do all strategies give the same texts?

Every arm in turn decodes each HumanEval prompt in chat form with the same seed. An arm may be named twice: its rounds
may differ, since draft lengths follow measured times, but its texts should not. The table counts the samples whose
text differs from the first arm's.

    bassline bench repeats --target smollm2-135m --tasks 20
    bassline bench repeats --arms sibling/goodput,sibling/goodput,none --temperature 0.8 --json repeats.json

Load the machine meanwhile: the counts should not change.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch

from benchmarks._arms import PLAIN, Arms, attention_on, dtype_on
from benchmarks._report import Report, print_table
from decoding.models.device import DTYPES, device_name

DEFAULT_ARMS = ("sibling/goodput", "sibling/goodput", PLAIN)


def main(argv: list[str] | None = None) -> int:
    """Decode all prompts with all arms, print the number of texts that differ, write JSON if asked; return 0."""
    options = _options(argv)
    options.dtype = dtype_on(options.device, options.dtype)
    settings = {**vars(options), "attention": attention_on(options.device)}
    report = Report("repeats", device_name(torch.device(options.device)), settings)
    names = options.arms.split(",")
    arms = Arms(options.target, list(dict.fromkeys(names)), options.dtype, options.device, options.max_tokens)
    different = [0] * len(names)
    rounds_differ = [0] * len(names)
    n_samples = 0
    started = time.monotonic()
    for task, prompt in enumerate(arms.prompts(options.tasks), start=1):
        texts, shapes = [], []
        for name in names:
            speed = arms.run(name, prompt, options.n, options.temperature)
            assert speed.completion is not None
            texts.append([sample.text for sample in speed.completion.samples])
            shapes.append([round_.n_verified for round_ in speed.completion.rounds])
        n_samples += options.n
        for i in range(1, len(names)):
            different[i] += sum(a != b for a, b in zip(texts[0], texts[i], strict=True))
            rounds_differ[i] += shapes[0] != shapes[i]
        left = (time.monotonic() - started) / task * (options.tasks - task)
        found = f"{sum(different)} of {n_samples * (len(names) - 1)} texts differ"
        print(f"task {task} of {options.tasks} done, {found}, {left:.0f} s left", file=sys.stderr)
    report.rows = [
        {
            "arm": name,
            "against": names[0],
            "samples": n_samples,
            "texts that differ": different[i],
            "tasks whose rounds differ": rounds_differ[i],
        }
        for i, name in enumerate(names)
        if i
    ]
    for i, name in enumerate(names[1:], start=1):
        report.figures[f"{i}.{name}.texts_that_differ"] = float(different[i])
    print_table(report.rows)
    report.write(options.json)
    return 0


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bassline bench repeats", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default="qwen2.5-coder-0.5b", help="a model's key, hf:owner/name or a folder")
    parser.add_argument("--tasks", type=int, default=164, help="prompts of HumanEval (default 164)")
    parser.add_argument("--n", type=int, default=8, help="samples a prompt (default 8)")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--max-tokens", type=int, default=128, help="tokens a sample at most (default 128)")
    parser.add_argument("--arms", default=",".join(DEFAULT_ARMS), help="the others are compared with the first")
    parser.add_argument("--dtype", default="auto", choices=["auto", *DTYPES])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--json", help="write the figures to this file, - for standard output")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
