"""Known defects of published tasks, listed in errata.json by the sha256 of their dataset."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources

from evaluation.datasets import Dataset


@dataclass(frozen=True, slots=True)
class Erratum:
    """What is wrong with one published task. `known_bad` tasks cannot be solved from their prompt alone."""

    task_id: str
    known_bad: bool
    reason: str
    source: str


def errata(dataset: Dataset) -> dict[str, Erratum]:
    """Known defects of the dataset's tasks by task id; empty for a file that the list does not know."""
    listed = json.loads(resources.files("evaluation").joinpath("errata.json").read_text("utf-8"))
    return {task_id: Erratum(task_id, **entry) for task_id, entry in listed.get(dataset.sha256, {}).items()}
