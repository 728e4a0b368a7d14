"""What quality is left when many people type at once: right answers in time, by requests per second.

Requests arrive at random at each rate, whether the ones before are answered or not, and each has the budget from the
moment it is due. After each window the answers are judged in the sandbox as `bassline eval` judges them. Every rate
asks for the same prompts; first the idle service answers them one by one. docs/capacity.md defines every figure.

    bassline bench load --target qwen2.5-coder-0.5b --rates 0.1,0.2,0.5,1,2 --budget 5 --n 4 --duration 60
    bassline bench load --target smollm2-135m --rates 0.5,1 --drafter ngram --json load.json
    bassline bench load --target qwen2.5-coder-7b --rates 1,2,4 --url http://gpu7:8000 --token "$TOKEN" --name gpu7
    bassline bench load --target openai:Qwen/Qwen2.5-Coder-7B@http://gpu7:8000/v1 --rates 1,2,4

The intervals are wide with few requests: use --duration 300 (5 minutes per rate) for decisions. Ctrl-C
reports what is done.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import math
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from app.cli.common import open_context
from app.core.errors import BasslineError
from app.core.remote.target import is_remote, parse_target
from app.datasets.service import require_dataset, to_evaluation_task
from app.runs.schemas import MAX_N
from benchmarks._load_client import count_prompts, shuffle_tasks
from benchmarks._load_figures import build_row, build_sentences, compute_figures
from benchmarks._load_grading import Judge
from benchmarks._load_run import LoadRefusedError, LoadTest
from benchmarks._load_service import ServiceError, serve_own
from benchmarks._report import Report, build_parser, print_table
from evaluation import dataset_files
from evaluation.datasets import Dataset, DatasetError
from evaluation.prompting import MODES
from evaluation.sandbox import SandboxUnavailableError

BUILTIN = "humaneval"
LARGEST_BUDGET_S = 600.0


@dataclass
class LoadReport(Report):
    """With all points, and when it was measured."""

    measured_at: str = field(default_factory=lambda: dt.datetime.now(dt.UTC).isoformat(timespec="seconds"))
    points: list[dict[str, Any]] = field(default_factory=list)


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, write JSON if asked. Return 0, or 1 after Ctrl-C."""
    parser, options = _parse_options(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # its services must not outlive it
    try:
        dataset = _load_dataset(options.dataset)
        judge = Judge()
    except (DatasetError, SandboxUnavailableError, BasslineError) as error:
        parser.exit(2, f"{error}\n")
    wanted = count_prompts(options.rates, options.duration, options.budget)
    prompts = judge.select_valid_tasks(shuffle_tasks(dataset.tasks, options.seed), wanted)
    load = LoadTest(options, prompts, judge)
    interrupted = False
    try:
        with contextlib.ExitStack() as services:
            is_elsewhere = options.url is not None or is_remote(options.target)
            load.run(options.url or "" if is_elsewhere else services.enter_context(serve_own()))
    except KeyboardInterrupt:
        interrupted = True
        print("interrupted: finished rates are reported, the current one is not", file=sys.stderr)
    except LoadRefusedError as error:
        parser.exit(2, f"{error}\n")
    except ServiceError as error:
        parser.exit(1, f"{error}\n")
    finally:
        judge.close()
    report = _build_report(options, load, dataset)
    _print_report(options, load, report)
    report.write(options.json)
    return int(interrupted)


def _load_dataset(name: str) -> Dataset:
    """The built-in dataset, or one that was imported into the database. Raises BasslineError and DatasetError."""
    if name == BUILTIN:
        return dataset_files.load_bundled_dataset(name)
    stored = require_dataset(open_context(), name)
    return Dataset(stored.name, tuple(to_evaluation_task(task) for task in stored.tasks), stored.sha256)


def _build_report(options: argparse.Namespace, load: LoadTest, dataset: Dataset) -> LoadReport:
    settings = {key: value for key, value in vars(options).items() if key != "token"}
    settings |= {"dataset_sha256": dataset.sha256, "prompts": len(load.prompts), "provenance": load.provenance}
    report, measured = LoadReport("load", load.device, settings), load.measured
    report.points = [asdict(point) for point in measured.points.values()]
    report.rows = [build_row(point) for point in measured.points.values()]
    report.figures = compute_figures(measured)
    return report


def _print_report(options: argparse.Namespace, load: LoadTest, report: LoadReport) -> None:
    """Print the table and the conclusions; to stderr if the report itself goes to stdout."""
    out = sys.stderr if options.json == "-" else sys.stdout
    with contextlib.redirect_stdout(out):
        print(
            f"{report.device}; {options.target}, n = {options.n}, budget {options.budget:g} s, prompts: "
            f"{len(load.prompts)}, {options.duration:g} s per rate; shares with 95 % intervals, times in seconds"
        )
        print_table(report.rows)
        for line in (*build_sentences(load.measured), *load.faults):
            print(line)


def _parse_options(argv: list[str] | None) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = build_parser("load", __doc__)
    parser.add_argument("--target", required=True, help="the model that the service decodes with, or openai:MODEL@URL")
    parser.add_argument(
        "--rates", type=_parse_rates, default="0.1,0.2,0.5,1,2", help="requests per second, comma-separated"
    )
    parser.add_argument(
        "--budget", type=_make_number_parser(0, LARGEST_BUDGET_S), default=5.0, help="seconds for each request"
    )
    parser.add_argument("--n", type=_make_integer_parser(1, MAX_N), default=4, help="samples of each request")
    parser.add_argument(
        "--duration", type=_make_number_parser(0, 86400), default=60.0, help="seconds for which requests arrive"
    )
    parser.add_argument("--dataset", default=BUILTIN, help="name of a dataset")
    parser.add_argument("--drafter", default="", help="source of proposed tokens; by default the service's")
    parser.add_argument("--temperature", type=float, default=0.2)
    parser.add_argument("--max-tokens", type=_make_integer_parser(1, 10_000), default=256)
    parser.add_argument(
        "--prompt-mode", choices=("auto", *MODES), default="auto", help="how a task becomes a prompt; auto: as in eval"
    )
    parser.add_argument(
        "--seed", type=_make_integer_parser(0, 2**62), default=0, help="of arrivals, prompts and samples"
    )
    parser.add_argument(
        "--url", type=_parse_url, help="a running service, such as http://HOST:8000; default: one of its own"
    )
    parser.add_argument("--token", default="", help="for --url: an API token of the scope submit")
    options = parser.parse_args(argv)
    if options.token and options.url is None:
        parser.exit(2, "--token is for a running service: give its address with --url\n")
    if is_remote(options.target):
        try:
            parse_target(options.target)
        except BasslineError as error:
            parser.exit(2, f"{error}\n")
        if options.url is not None or options.drafter:
            name = "--drafter" if options.drafter else "--url"
            parser.exit(2, f"{name} is for a service of ours: leave it out, the target names the server\n")
    return parser, options


def _parse_rates(text: str) -> list[float]:
    remedy = f"{text!r}: give different rates, comma-separated, each above 0 and at most 1000, such as 0.1,0.5,1"
    try:
        rates = sorted(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(remedy) from None
    if len(set(rates)) < len(rates) or not all(0 < rate <= 1000 for rate in rates):
        raise argparse.ArgumentTypeError(remedy)
    return rates


def _make_number_parser(above: float, most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not above < value <= most:
            raise argparse.ArgumentTypeError(f"{text!r}: give seconds above {above:g}, at most {most:g}")
        return value

    return parse


def _make_integer_parser(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isdecimal() and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text!r}: give a whole number from {least} to {most}")
        return int(text)

    return parse


def _parse_url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r}: give the address of the service, such as http://127.0.0.1:8000")
    return text.rstrip("/")


if __name__ == "__main__":
    sys.exit(main())
