"""What every benchmark shares: its parser, and its report as a table for people and as JSON for programs."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Report:
    """The result of a benchmark. `figures` maps flat names to numbers, `rows` are the lines of the table."""

    bench: str
    device: str
    settings: dict[str, Any]
    figures: dict[str, float] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def write(self, file: str | None) -> None:
        """Write the report as JSON to `file` (`-` is standard output), if one is named."""
        if file is None:
            return
        text = json.dumps(asdict(self), indent=1) + "\n"
        if file == "-":
            sys.stdout.write(text)
        else:
            Path(file).write_text(text)


def compute_quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return (first quartile, median, third quartile); with fewer than two values all are the same."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """Print the rows in columns named by their keys."""
    if not rows:
        return
    lines = [[*rows[0]], *[[_format_cell(value) for value in row.values()] for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _format_cell(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def build_parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """Return the parser of a benchmark, with --json: a file that cannot be written is refused before it measures."""
    parser = argparse.ArgumentParser(
        prog=f"bassline bench {name}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    saved = "also write the report as JSON; - for standard output"
    parser.add_argument("--json", metavar="FILE", type=_check_writable, help=saved)
    return parser


def parse_numbers(text: str, kind: type = int) -> list[Any]:
    """Return the comma-separated numbers of an option."""
    return [kind(part) for part in text.split(",")]


def _check_writable(text: str) -> str:
    folder = Path(text).parent
    if text != "-" and (Path(text).is_dir() or not os.access(text if Path(text).exists() else folder, os.W_OK)):
        raise argparse.ArgumentTypeError(f"{text} cannot be written: give a file in a folder that exists, or -")
    return text


def describe_machine() -> str:
    """Return the number of CPUs, their kind and the system."""
    return f"{os.cpu_count()} CPUs, {platform.machine()}, {platform.system()} {platform.release()}"
