"""Datasets and their tasks."""

from __future__ import annotations

import uuid

from flask import Blueprint, render_template, request
from sqlalchemy import select
from sqlalchemy.orm import selectinload

from app.datasets import repository
from app.datasets.models import Dataset
from app.errors import NotFound
from app.web import session

bp = Blueprint("datasets", __name__)


@bp.get("/datasets")
def index() -> str:
    """Every stored dataset."""
    return render_template("datasets/index.html", rows=repository.list_datasets(session()))


@bp.get("/datasets/<uuid:dataset_id>")
def show(dataset_id: uuid.UUID) -> str:
    """The tasks of a dataset, or with `?task=` one of them. Raises NotFound."""
    dataset = session().scalar(select(Dataset).where(Dataset.id == dataset_id).options(selectinload(Dataset.tasks)))
    if dataset is None:
        raise NotFound(f"there is no dataset {dataset_id}: choose one on the Datasets page")
    wanted = request.args.get("task")
    task = next((t for t in dataset.tasks if t.task_id == wanted), None)
    if wanted and task is None:
        raise NotFound(f"dataset {dataset.name} has no task {wanted[:200]!r}")
    return render_template("datasets/show.html", dataset=dataset, tasks=dataset.tasks, task=task)
