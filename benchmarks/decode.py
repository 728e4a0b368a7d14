"""How fast is decoding, against transformers' generate and against our own plain decoding?

All arms decode the same HumanEval prompts in chat form, in one dtype and one process, taking turns on each prompt. A
speed is tokens per second over all samples of a prompt, prefill included. Ratios are computed per prompt; the table
shows their median and quartiles. Samples run to their end-of-sequence token or --max-tokens.

    bassline bench decode --json decode.json
    bassline bench decode --models smollm2-135m --batches 1,2,4,8,16,32 --arms none,sibling/goodput,sibling/fixed:4
    bassline bench decode --models qwen2.5-coder-0.5b --arms none,sibling/goodput,sibling/goodput/maximal
    bassline bench decode --models smollm2-135m --arms none,trained/goodput,sibling/goodput,sibling+trained/goodput

An arm is none, DRAFTER/LENGTH[/RULE], either with int8: in front for 8-bit weights, or generate. Other engines take
part as --endpoint and --openvino (docs/decoding-speed.md); what does not run is named with the reason. Beside the
speeds, the report has how many texts of an arm differ from plain decoding with the same weights, and by how much the
prefix cache brings the first token forward.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import defaultdict
from itertools import product

import torch

from benchmarks._arms import (
    GENERATE,
    INT8,
    PLAIN,
    SIBLING_TRAINED,
    TRAINED,
    Arms,
    Peer,
    Speed,
    choose_dtype,
    is_ours,
    parse_weights,
)
from benchmarks._decode_figures import build_rows, compute_figures, compute_round_over_weight_read
from benchmarks._headline_plan import PREFIX
from benchmarks._report import Report, build_parser, parse_numbers, print_table
from benchmarks._timing import measure_first_token_ratios, measure_read_bandwidth
from decoding.attention.choice import pick_attention
from decoding.models import trained_heads
from decoding.models.device import DTYPES, get_device_name

MODELS = ("qwen2.5-coder-0.5b", "smollm2-135m", "qwen2.5-coder-1.5b")
LOOKUP_ARMS = (
    GENERATE,
    PLAIN,
    "ngram/goodput",
    "sibling/goodput",
    "sibling/bass",
    "sibling/fixed:4",
    f"{INT8}{PLAIN}",
    f"{INT8}sibling/goodput",
)
# Drafts in the arms of the 1.5B target, which leave out generate: it is too slow there.
DRAFT_MODEL = "qwen2.5-coder-0.5b"
ARMS = {
    "qwen2.5-coder-1.5b": (
        PLAIN,
        "sibling/goodput",
        f"{DRAFT_MODEL}/goodput",
        f"sibling+{DRAFT_MODEL}/goodput",
        f"{DRAFT_MODEL}/bass",
        f"{INT8}{PLAIN}",
    )
}


def main(argv: list[str] | None = None) -> int:
    """Run the arms, print the table, write JSON if asked; return 0."""
    options = _parse_options(argv)
    device = torch.device(options.device)
    options.dtype = choose_dtype(options.device, options.dtype)
    report = Report("decode", get_device_name(device), {**vars(options), "attention": pick_attention("auto", device)})
    bandwidth = measure_read_bandwidth(device)
    report.settings["read_bandwidth_gb_per_s"] = bandwidth / 1e9
    peers: dict[str, Peer] = {}
    report.settings["not_run"] = {}
    if options.endpoint or options.openvino:  # only then, so that the benchmark runs where the service is not installed
        from benchmarks._peers import find_peers  # noqa: PLC0415

        peers, report.settings["not_run"] = find_peers(options.endpoint, options.openvino)
    batches = parse_numbers(options.batches, int)
    cells = list(product(batches, parse_numbers(options.temperatures, float)))
    for name in options.models.split(","):
        names = options.arms.split(",") if options.arms else _choose_usual_arms(name, options.device)
        arms = Arms(name, [*names, *peers], options.dtype, options.device, options.max_tokens, max(batches), peers)
        started = time.monotonic()
        for i, (n, temperature) in enumerate(cells):
            speeds = _measure(arms, options.tasks, n, temperature)
            report.rows += build_rows(name, n, temperature, speeds)
            report.figures |= compute_figures(name, n, temperature, speeds, report.figures)
            for arm in filter(is_ours, speeds):
                at = f"{name}.b{n}.t{temperature:g}.{arm}"
                target = arms.targets[parse_weights(arm)]
                report.figures[f"{at}.round_vs_weight_read"] = compute_round_over_weight_read(
                    target, speeds[arm], bandwidth
                )
            left = (time.monotonic() - started) / (i + 1) * (len(cells) - i - 1)
            print(f"{name}: batch {n} at temperature {temperature:g} done, {left:.0f} s left", file=sys.stderr)
        if PLAIN in names and PREFIX not in report.figures:
            report.figures[PREFIX] = statistics.median(measure_first_token_ratios(arms.get_engine(PLAIN)))
    settings = f"{options.tasks} prompts, at most {options.max_tokens} tokens, {options.dtype}"
    print(f"{report.device}; {settings}; memory read at {bandwidth / 1e9:.1f} GB/s")
    for name, reason in report.settings["not_run"].items():
        print(f"{name} was not run: {reason}")
    print_table(report.rows)
    print()
    print_table([{"figure": figure, "value": value} for figure, value in sorted(report.figures.items())])
    report.write(options.json)
    return 0


def _parse_endpoint(text: str) -> tuple[str, str, str]:
    """(name, model, address) of NAME=MODEL@URL."""
    name, _, address = text.partition("=")
    model, _, url = address.rpartition("@")
    if not (name and model and url.startswith("http")):
        raise argparse.ArgumentTypeError(f"{text!r} is not an endpoint: write NAME=MODEL@http://HOST:PORT/v1")
    return name, model, url


def _choose_usual_arms(model: str, device: str) -> list[str]:
    """The arms that suit a model: int8 weights run on a CPU only, a trained drafter where there is one."""
    head = (TRAINED, SIBLING_TRAINED) if trained_heads.find(model) else ()
    return [arm for arm in (*ARMS.get(model, LOOKUP_ARMS), *head) if device == "cpu" or parse_weights(arm) == "dense"]


def _measure(arms: Arms, n_tasks: int, n: int, temperature: float) -> dict[str, list[Speed]]:
    speeds: dict[str, list[Speed]] = defaultdict(list)
    for prompt in arms.build_prompts(n_tasks):
        for arm in arms.names:
            speeds[arm].append(arms.run(arm, prompt, n, temperature))
    return speeds


def _parse_options(argv: list[str] | None) -> argparse.Namespace:
    parser = build_parser("decode", __doc__)
    parser.add_argument("--models", default=",".join(MODELS), help="targets, comma-separated")
    parser.add_argument("--arms", help="comma-separated; default: the arms that suit the model")
    parser.add_argument("--batches", default="1,8", help="samples per prompt, comma-separated")
    parser.add_argument("--temperatures", default="0.2,0.8", help="comma-separated")
    parser.add_argument("--tasks", type=int, default=3, help="HumanEval prompts")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--dtype", default="auto", choices=["auto", *DTYPES])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument(
        "--openvino",
        metavar="FOLDER",
        help="a model exported for OpenVINO, as an arm (needs openvino-genai)",
    )
    parser.add_argument(
        "--endpoint",
        action="append",
        type=_parse_endpoint,
        default=[],
        metavar="NAME=MODEL@URL",
        help="another server on this machine that speaks OpenAI's /v1/completions, as an arm (repeat for several)",
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
