"""Where a load test finds its dataset and keeps its result. The service's code may be missing: it asks for it late."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import httpx2

from evaluation import dataset_files
from evaluation.datasets import Dataset

BUILTIN = "humaneval"
TIMEOUT_S = 60.0


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


def store(documents: Sequence[dict[str, Any]], url: str | None, token: str) -> Iterator[str]:
    """Keep each load test, in the service at `url` or else in the database here. Yield a line each: where it is."""
    for body in documents:
        yield _sent(body, url, token) if url is not None else _kept(body)


def _sent(body: dict[str, Any], url: str, token: str) -> str:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        answer = httpx2.post(f"{url}/api/v1/capacity", json=body, headers=headers, timeout=TIMEOUT_S)
    except httpx2.HTTPError as error:
        return f"not stored: {url} does not answer ({error})"
    if not answer.is_success:
        return f"not stored: {url} answers {answer.status_code} {answer.reason_phrase}"
    return f"stored: {url}/capacity/{answer.json()['id']}"


def _kept(body: dict[str, Any]) -> str:
    try:
        from app.capacity import service  # noqa: PLC0415
        from app.capacity.schemas import LoadTestSpec  # noqa: PLC0415
        from app.commands import common  # noqa: PLC0415
        from app.errors import BasslineError  # noqa: PLC0415
    except ImportError as error:
        return f"not stored: {error}"
    try:
        return f"stored: /capacity/{service.store(common.opened_context(), LoadTestSpec(**body))} of `bassline serve`"
    except BasslineError as error:
        return f"not stored: {error}"
