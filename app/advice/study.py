"""Plans the study behind an advice: its models, arms and tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from app.core.context import Context
from app.datasets import service as datasets
from app.datasets.models import Dataset
from app.language_models import cached
from app.runs.quiet import describe_quiet_wait
from app.studies.models import Study
from app.studies.progress import compute_remaining_s, compute_study_progress
from app.studies.schemas import StudySpec
from app.web.http.schemas import parse_spec
from app.web.ui.units import format_seconds

PER_TASK_S = 2.0
"""Seconds of a task besides its budget: its prompt, its verdicts, and turns of the models."""
MIN_TASKS = 20  # below this even a large difference between two models can be chance
MAX_TASKS = 164


def list_ready_models(ctx: Context) -> list[str]:
    """The models that can be loaded here, those with fewer parameters first."""
    ready = [model for model in cached.read_cache(ctx.settings.cache_dir).models if model.state == "ready"]
    return [model.ref for model in sorted(ready, key=lambda model: (model.n_parameters or 0, model.ref))]


def make_study_spec(
    dataset: Dataset, models: Sequence[str], budget_s: float, n: int, seconds: float, quiet_limit_s: float | None
) -> StudySpec:
    """The study of the models over as many tasks of the dataset as the seconds allow."""
    arms = make_arms(models, n)
    return parse_spec(
        StudySpec,
        {
            "dataset": dataset.name, "task_ids": choose_tasks(dataset, len(arms), budget_s, seconds),
            "budget_s": budget_s, "race": True, "arms": arms, "name": f"advice for {dataset.name}"[:200],
            "quiet_limit_s": quiet_limit_s,
        },
    )  # fmt: skip


def make_arms(models: Sequence[str], n: int) -> list[dict[str, Any]]:
    """An arm for each model; for a single model, two arms: one sample and `n`."""
    numbers = [n] if len(models) > 1 else [1, max(2, n)]
    return [
        {"target": model, "n": number, "drafter": "sibling", "prompt_mode": "completion", "name": name}
        for model in models
        for number in numbers
        for name in [model if len(models) > 1 else f"{model}, n = {number}"]
    ]


def choose_tasks(dataset: Dataset, n_arms: int, budget_s: float, seconds: float) -> list[str]:
    """The ids of the tasks that the seconds allow, at least MIN_TASKS: those with tests that notice faults, spread over
    the project by a hash of their ids."""
    strong = [task.task_id for task in dataset.tasks if not datasets.is_excluded_by_default(task)]
    every = strong or [task.task_id for task in dataset.tasks]
    fitting = int(seconds / (n_arms * (budget_s + PER_TASK_S)))
    number = min(MAX_TASKS, max(MIN_TASKS, fitting))
    chosen = set(sorted(every, key=lambda each: hashlib.sha256(each.encode()).digest())[:number])
    return [task_id for task_id in every if task_id in chosen]


def describe_progress(session: Session, study: Study) -> tuple[int, int, str]:
    """(tasks of all arms decoded, tasks in all, words) of the study."""
    progress = compute_study_progress(session, study)
    left_s = compute_remaining_s(study.arms, progress)
    left = f", about {format_seconds(round(left_s))} left" if left_s else ""
    waits = describe_quiet_wait(study.runs)
    decoded = sum(arm.decoded for arm in progress.values())
    return decoded, sum(run.n_tasks for run in study.runs), f"tasks decoded{left}{f'. {waits}' if waits else ''}"
