"""Runs and samples as JSON: one shape for the API, `--json` and exports."""

from __future__ import annotations

import datetime as dt
from typing import Any

from app.leaderboard.service import Row
from app.runs.figures import in_budget_s
from app.runs.models import Run
from app.runs.schemas import DecodingSpec
from app.samples.models import Sample
from evaluation.failures import failure_of


def run_document(run: Run) -> dict[str, Any]:
    """`{"run": {id, name, state, configuration...}, "figures": {...}}`."""
    return {
        "run": {
            "id": str(run.id),
            "name": run.name,
            "kind": run.kind,
            "state": run.state,
            "error": run.error,
            "dataset": run.dataset.name,
            "dataset_sha256": run.dataset.sha256,
            "dataset_tasks": run.dataset.n_tasks,
            "n_tasks": run.n_tasks,
            "excluded": run.excluded,
            **{name: getattr(run, name) for name in DecodingSpec.model_fields},
            "prompt_mode_used": run.prompt_mode_used,
            "time_limit_s": run.time_limit_s,
            "command": run.command,
            "provenance": run.provenance,
            "created_at": _time(run.created_at),
            "started_at": _time(run.started_at),
            "finished_at": _time(run.finished_at),
        },
        "figures": run.figures or {},
    }


def sample_document(task_id: str, sample: Sample) -> dict[str, Any]:
    """One sample as `runs export --format samples` writes it; times in seconds since the engine took the task up."""
    return {
        "task_id": task_id,
        "index": sample.index,
        "seed": sample.seed,
        "raw": sample.raw,
        "program": sample.program,
        "extraction": sample.extraction,
        "extraction_version": sample.extraction_version,
        "finish_reason": sample.finish_reason,
        "n_tokens": sample.n_tokens,
        "mean_logprob": sample.mean_logprob,
        "first_token_s": sample.first_token_s,
        "finished_s": sample.finished_s,
        "n_rounds": sample.n_rounds,
        "n_drafted": sample.n_drafted,
        "n_accepted": sample.n_accepted,
        "verdict": sample.verdict,
        "failure": _failure(sample),
        "detail": sample.verdict_detail,
        "traceback": sample.traceback,
        "cpu_s": sample.cpu_s,
        "isolation": sample.isolation,
        "trust": sample.trust,
    }


def leaderboard_row(row: Row) -> dict[str, Any]:
    """A row of the board; `run` holds the id."""
    shown = {name: getattr(row, name) for name in Row.__slots__ if name != "run"}
    run = row.run
    return {
        "run": str(run.id),
        "name": run.name,
        "state": run.state,
        "target": run.target,
        "drafter": run.drafter,
        "n": run.n,
        "dataset": run.dataset.name,
        **shown,
        "created_at": _time(run.created_at),
    }


def _failure(sample: Sample) -> str | None:
    if sample.verdict is None:
        return None
    return failure_of(sample.verdict, sample.verdict_detail or "", in_budget_s(sample) is not None)


def _time(value: dt.datetime | None) -> str | None:
    return value.isoformat() if value else None
