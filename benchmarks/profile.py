"""Which draft length is best at which batch size? Makes the table for `--draft-length table`.

Decodes the same HumanEval prompts in chat form at each batch size with each fixed draft length, fits the model of
Su et al. (arXiv 2310.18813) and stores the result in the cache, keyed by model hashes, drafter and device.

    bassline bench profile --target qwen2.5-coder-0.5b --drafter sibling
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import asdict

from benchmarks._report import Report, build_parser, print_table
from decoding.config import ACCEPTANCES, EngineConfig
from decoding.draft_length.profiles import LengthMeasurement, Profile
from decoding.engine import Engine
from decoding.request import Request, SamplingParams
from evaluation import dataset_files, prompting


def main(argv: list[str] | None = None) -> int:
    """Measure, fit, store and print; return 0."""
    options = _parse_options(argv)
    config = EngineConfig(
        target=options.target,
        drafter=options.drafter,
        draft_length="fixed:0",
        acceptance=options.acceptance,
        dtype=options.dtype,
        device=options.device,
        max_batch=64,
    )
    engine = Engine.load(config, lambda line: print(line, file=sys.stderr))
    measured = [
        _measure(engine, options, batch, length)
        for batch in map(int, options.batches.split(","))
        for length in map(int, options.lengths.split(","))
    ]
    profile = Profile.fit(engine.profile_key, measured)
    file = profile.save()
    report = Report("profile", engine.profile_key["device"], {**vars(options), "key": profile.key})
    report.figures = {"c": profile.c, "g": profile.g, **{f"b{fit.batch}.best": float(fit.best) for fit in profile.fits}}
    report.rows = [asdict(m) for m in measured]
    print(f"{report.device}; accepted tokens of s drafted: {profile.c:.2f} * s^{profile.g:.2f}")
    print_table(
        [
            {
                "batch": fit.batch,
                "best length": fit.best,
                "verify ms": 1000 * fit.verify_s,
                "+ ms per draft token": 1000 * fit.slope_s,
                "draft ms per token": 1000 * fit.step_s,
            }
            for fit in profile.fits
        ]
    )
    print(f"stored for --draft-length table: {file.name}")
    report.write(options.json)
    return 0


def _measure(engine: Engine, options: argparse.Namespace, batch: int, length: int) -> LengthMeasurement:
    """Decode the prompts at one batch size and draft length."""
    fixed = EngineConfig(**{**asdict(engine.config), "draft_length": f"fixed:{length}"})
    worker = Engine(fixed, engine.target, engine.draft, engine.head)
    accepted, draft_s, verify_s = [], [], []
    for task in dataset_files.load_bundled_dataset("humaneval").tasks[: options.tasks]:
        prompt = prompting.build_prompt(task, "chat")
        done = worker.generate(
            Request(
                engine.render_chat(prompt.messages or [], prompt.reply_prefix),
                n=batch,
                sampling=SamplingParams(temperature=options.temperature, top_p=0.95),
                max_new_tokens=options.max_tokens,
                stop=prompt.stop,
            )
        )
        for r in done.rounds:
            accepted.append(statistics.fmean(r.accepted))
            draft_s.append(r.draft_s)
            verify_s.append(r.verify_s + r.other_s)
    print(f"batch {batch}, length {length}: {statistics.fmean(accepted):.2f} accepted per round", file=sys.stderr)
    return LengthMeasurement(
        batch, length, statistics.fmean(accepted), statistics.fmean(draft_s), statistics.fmean(verify_s)
    )


def _parse_options(argv: list[str] | None) -> argparse.Namespace:
    parser = build_parser("profile", __doc__)
    parser.add_argument("--target", default="qwen2.5-coder-0.5b")
    parser.add_argument("--drafter", default="sibling")
    parser.add_argument("--batches", default="1,2,4,8,16", help="samples per prompt, comma-separated")
    parser.add_argument(
        "--lengths", default="0,1,2,4,8", help="draft lengths, comma-separated; 0 and two others at least"
    )
    parser.add_argument("--tasks", type=int, default=2, help="HumanEval prompts")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--temperature", type=float, default=0.2)
    parser.add_argument("--acceptance", default="coupled", choices=list(ACCEPTANCES))
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device", default="auto")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
