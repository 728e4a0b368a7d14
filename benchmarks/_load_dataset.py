"""Where a load test finds its dataset. The service's code may be missing: it asks for it late."""

from __future__ import annotations

from evaluation import dataset_files
from evaluation.datasets import Dataset

BUILTIN = "humaneval"


class MissingDataError(ValueError):
    """There is no such dataset here."""


def dataset(name: str) -> Dataset:
    """The built-in dataset, or one that was imported into the database. Raises MissingDataError and DatasetError."""
    if name == BUILTIN:
        return dataset_files.load(name)
    try:
        from app.commands import common  # noqa: PLC0415
        from app.datasets.service import as_plain, require  # noqa: PLC0415
        from app.errors import BasslineError  # noqa: PLC0415
    except ImportError:
        raise MissingDataError(f"--dataset is {name!r}: without the service's code only {BUILTIN} is known") from None
    try:
        stored = require(common.opened_context(), name)
    except BasslineError as error:
        raise MissingDataError(f"--dataset: {error}") from None
    return Dataset(stored.name, tuple(as_plain(task) for task in stored.tasks), stored.sha256)
