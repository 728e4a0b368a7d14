"""The leaderboard as comma-separated values."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

from app.leaderboard.service import Row

COLUMNS: dict[str, Callable[[Row], object]] = {
    "run": lambda r: r.run.name,
    "id": lambda r: r.run.id,
    "label": lambda r: r.run.label or "",
    "rank": lambda r: r.rank,
    "dataset": lambda r: r.run.dataset,
    "tasks": lambda r: r.run.n_tasks,
    "dataset_tasks": lambda r: r.run.dataset_tasks,
    "device": lambda r: r.run.device,
    "target": lambda r: r.run.target,
    "drafter": lambda r: r.run.drafter,
    "draft_length": lambda r: r.run.draft_length,
    "n": lambda r: r.run.n,
    "temperature": lambda r: r.run.temperature,
    "top_p": lambda r: r.run.top_p,
    "budget_s": lambda r: r.budget_s,
    "pass_first": lambda r: r.pass_first,
    "pass_first_low": lambda r: r.pass_first_interval[0],
    "pass_first_high": lambda r: r.pass_first_interval[1],
    "pass_all": lambda r: r.pass_all,
    "pass_all_low": lambda r: r.pass_all_interval[0],
    "pass_all_high": lambda r: r.pass_all_interval[1],
    "ranking_loss": lambda r: r.ranking_loss,
    "in_guest_tasks": lambda r: r.run.in_guest_tasks,
    "in_guest_samples": lambda r: r.run.in_guest_samples,
    "in_guest_passed": lambda r: r.run.in_guest_passed,
    "first_finished_p50_s": lambda r: r.run.first_finished_p50_s,
    "first_finished_p95_s": lambda r: r.run.first_finished_p95_s,
    "ms_per_token": lambda r: r.run.ms_per_token,
    "mean_acceptance_length": lambda r: r.run.mean_acceptance_length,
    "fingerprint": lambda r: r.run.fingerprint,
}


def as_csv(rows: Sequence[Row]) -> str:
    """All rows, unranked ones with their label; shares from 0 to 1, times in seconds."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    writer.writerows([_cell(value(row)) for value in COLUMNS.values()] for row in rows)
    return out.getvalue()


def _cell(value: object) -> object:
    """Text that a spreadsheet does not take for a formula."""
    return "'" + value if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
