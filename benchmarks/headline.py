"""Is every speed that README and docs promise still true? All of them in one run, as ratios within the run.

All arms of a cell decode the same HumanEval prompts in turn, mostly to their end; the verdicts of the sandbox and the
prefix cache are measured beside them. Nothing else may run on the machine: the report has the load that was seen.
benchmarks/_headline_plan.py declares what is measured. llama.cpp takes part where llama-cpp-python is installed.

    make headline                                              # measure, store in docs/results, renew the table there
    bassline bench headline --json new.json --against docs/results/headline*.json
    bassline bench headline --device cuda --json gpu.json

With --against the exit status is 1 if a ratio fell by more than its noise, and fell again when its prompts were
measured a second time: of 32 ratios one falls by chance. It is 2 where nothing can be compared or measured. The noise
of a ratio is the interquartile range of the changes of each prompt, at least 5 %, and at least its largest change
between two runs of the same decoding/ (without training/) and kernels/, as far as FILE knows one: a run of the code
that FILE was measured with stores it. Of several files the first comparable one counts. What is stored is
always the first measurement.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from app.core.provenance import get_process_provenance
from benchmarks import _headline_rows, _llamacpp
from benchmarks._arms import choose_dtype
from benchmarks._decode_figures import LLAMA_CPP
from benchmarks._headline_plan import CELLS, MAX_TOKENS, PREFIX, VERDICTS
from benchmarks._headline_rows import IncomparableError, MeasuredPrompt, RowComparison
from benchmarks._headline_run import HeadlineRun
from benchmarks._report import Report, build_parser, compute_quartiles, print_table
from decoding.attention.choice import pick_attention
from decoding.models import fetch, trained_heads
from decoding.models.device import get_device_name, pick_device
from decoding.models.errors import ModelError
from decoding.models.weight_formats import FORMATS

INTERRUPTED = 130
QUIET_SHARE = 0.05
"""Of the CPU: other programs that take more disturb the figures."""


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, write JSON if asked; return 1 if a ratio fell. Exits with 2 as above, 130 on Ctrl-C."""
    parser, options = _parse_options(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # its processes must not outlive it
    try:
        device = get_device_name(pick_device(options.device))
        report = Report("headline", device, _collect_settings(options))
        before, engine = (
            _headline_rows.load_stored_rows(options.against, device, report.settings) if options.against else ([], None)
        )
        run = HeadlineRun(report.settings)
        run.measure_parts()
        report.rows = _build_rows(run, report.settings)
        comparisons = _headline_rows.compare_rows(report.rows, before)
        fallen = _confirm_fallen_rows(comparisons, before, report.settings)
    except (IncomparableError, ModelError, _llamacpp.EngineError, subprocess.CalledProcessError) as error:
        parser.exit(2, f"{error}\n")
    except KeyboardInterrupt:
        parser.exit(INTERRUPTED, "interrupted: nothing is stored\n")
    _add_figures(report, run)
    report.rows = _headline_rows.add_noise(report.rows, before, engine == report.settings[_headline_rows.ENGINE])
    _print(report, sys.stderr if options.json == "-" else sys.stdout)
    report.write(options.json)
    return _print_comparison(comparisons, fallen, {row["row"] for row in before} - {row["row"] for row in report.rows})


def _collect_settings(options: argparse.Namespace) -> dict[str, Any]:
    """What decides the figures. Fetches models that are not in the cache. Raises ModelError."""
    models = dict.fromkeys(cell.model for cell in CELLS)
    heads = {model: head.sha256 for model in models if (head := trained_heads.find(model))}
    reasons = {f"trained drafter of {model}": "none is trained here" for model in models if model not in heads}
    if missing := _llamacpp.find_obstacle(options.device):
        reasons[LLAMA_CPP] = missing
    if missing := FORMATS["int8"].find_obstacle(torch.device(options.device)):
        reasons["8-bit weights"] = missing
    return {
        "tasks": options.tasks,
        "max_tokens": options.max_tokens,
        "device": options.device,
        "dtype": choose_dtype(options.device),
        "attention": pick_attention("auto", torch.device(options.device)),
        _headline_rows.ENGINE: hash_engine(Path(__file__).parents[1]),
        "processor": _describe_processor(),
        "models": {model: fetch.ensure(model).sha256 for model in models},
        "heads": heads,
        "not_run": reasons,
        **get_process_provenance(),
    }


def hash_engine(root: Path) -> str:
    """Return the hash of the code that decodes, in the checkout `root`: without training, which no run measures."""
    found = hashlib.sha256()
    sources = (path for package in ("decoding", "kernels") for path in (root / package).rglob("*"))
    for file in sorted(path.relative_to(root) for path in sources if path.suffix in (".py", ".c")):
        if not file.is_relative_to("decoding/training"):
            found.update(f"{file}\0".encode() + (root / file).read_bytes())
    return found.hexdigest()


def _describe_processor() -> str:
    """Return family and model of the CPU: virtual machines give processors of several generations one name."""
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists():
        return platform.processor()
    facts = dict(re.findall(r"^(cpu family|model)\s*: (\d+)$", cpuinfo.read_text(), re.MULTILINE))
    return ", ".join(f"{name} {value}" for name, value in facts.items()) or platform.machine()


def _add_figures(report: Report, run: HeadlineRun) -> None:
    """Add figures and the load to the report, and why there are no verdicts if there are none."""
    cells = run.get_prompts_by_cell()
    if not run.get_result(VERDICTS)["ours"]:
        report.settings["not_run"][VERDICTS] = "the sandbox does not work here: see bassline sandbox selftest"
    report.figures = _headline_rows.flatten_figures(CELLS, cells, report.rows)
    every = [prompt for prompts in cells.values() for prompt in prompts]
    report.figures["others_share"] = _compute_others_share(every)
    reading = [prompt.read_gb_per_s for prompt in every]
    report.figures |= dict(
        zip(("read_gb_per_s.q1", "read_gb_per_s", "read_gb_per_s.q3"), compute_quartiles(reading), strict=True)
    )


def _build_rows(run: HeadlineRun, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of what a run measured."""
    found = [*_headline_rows.build_decoding_rows(CELLS, run.get_prompts_by_cell(), settings["dtype"])]
    if ratios := run.get_result(PREFIX):
        found.append(_headline_rows.build_prefix_row(ratios))
    judged = run.get_result(VERDICTS)
    if judged and judged["ours"]:
        found.append(_headline_rows.build_verdicts_row(judged["ours"], judged["theirs"]))
    return found


def _confirm_fallen_rows(
    comparisons: Sequence[RowComparison], before: Sequence[dict[str, Any]], settings: Mapping[str, Any]
) -> list[RowComparison]:
    """Measure the parts with fallen rows a second time; return the rows that fell again. Raises as `measure_parts`."""
    once = {each.row for each in comparisons if each.fell}
    if not once:
        return []
    print(f"{len(once)} of {len(comparisons)} ratios fell, so their prompts are measured again:", file=sys.stderr)
    second = HeadlineRun(settings, {_headline_rows.get_part(row) for row in once})
    second.measure_parts()
    return [
        each
        for each in _headline_rows.compare_rows(_build_rows(second, settings), before)
        if each.row in once and each.fell
    ]


def _compute_others_share(prompts: Sequence[MeasuredPrompt]) -> float:
    """Return the share of the CPU that other programs took while ours decoded."""
    return sum(prompt.others_s for prompt in prompts) / max(sum(prompt.capacity_s for prompt in prompts), 1e-9)


def _print(report: Report, to: Any) -> None:
    share = report.figures["others_share"]
    print(f"{report.device}; other programs used {share:.0%} of the CPU", file=to)
    for name, reason in report.settings["not_run"].items():
        print(f"not run: {name}: {reason}", file=to)
    if to is sys.stdout:
        columns = ("row", "arm", "median", "q1", "q3")
        print_table([{column: row[column] or "" for column in columns} for row in report.rows])
    if share > QUIET_SHARE:
        print("the machine was not quiet: these figures are indicative only", file=sys.stderr)


def _print_comparison(
    comparisons: Sequence[RowComparison], twice: Sequence[RowComparison], missing: Collection[str]
) -> int:
    """Print the rows that fell once and twice, and the ones that were not measured now; return 1 if one fell twice."""
    if missing:
        print(f"not measured now, so not compared: {', '.join(sorted(missing))}", file=sys.stderr)
    again = {each.row: each for each in twice}
    for each in comparisons:
        if each.row in again:
            print(f"fell: {each}; measured again {again[each.row].change - 1:+.0%}", file=sys.stderr)
        elif each.fell:
            print(f"fell once, and not when it was measured again: {each}", file=sys.stderr)
    if comparisons and not twice:
        print(f"none of {len(comparisons)} ratios fell by more than its noise", file=sys.stderr)
    return int(bool(twice))


def _parse_options(argv: list[str] | None) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = build_parser("headline", __doc__)
    parser.add_argument("--tasks", type=int, default=6, help="HumanEval prompts, and rounds of verdicts (default 6)")
    parser.add_argument(
        "--max-tokens", type=int, default=MAX_TOKENS, help=f"tokens of an answer at most (default {MAX_TOKENS})"
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    against = "earlier reports: exit with 1 if a ratio fell below the first of them that is comparable"
    parser.add_argument("--against", metavar="FILE", nargs="+", type=Path, default=[], help=against)
    return parser, parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
