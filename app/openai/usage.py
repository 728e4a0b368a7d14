"""The usage of an answer, in OpenAI's terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.runs.models import Run, RunTask


def usage(tasks: Sequence[RunTask]) -> dict[str, Any]:
    """Tokens of prompts and samples, and how many proposed tokens were accepted."""
    samples = [sample for task in tasks for sample in task.samples]
    prompt = sum(task.n_prompt_tokens or 0 for task in tasks)
    completion = sum(sample.n_tokens for sample in samples)
    drafted, accepted = (sum(getattr(sample, name) for sample in samples) for name in ("n_drafted", "n_accepted"))
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": sum(task.cached_tokens or 0 for task in tasks)},
        "completion_tokens_details": {
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": drafted - accepted,
            "drafted_tokens": drafted,
        },
    }


def timing(run: Run, tasks: Sequence[RunTask]) -> dict[str, Any]:
    """The id of the run, and for each prompt the seconds of waiting and of decoding."""
    return {"run": str(run.id), "queue_s": [t.queue_s for t in tasks], "wall_s": [t.wall_s for t in tasks]}
