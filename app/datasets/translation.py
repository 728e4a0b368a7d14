"""Datasets made by translation: into which languages, stored, and the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from app.context import Context
from app.datasets import service
from app.datasets.models import Dataset
from app.errors import BadInputError
from app.ports import require_toolchain
from evaluation import dataset_files
from evaluation.languages import registry
from evaluation.languages.translation.translate import Translation, translate
from evaluation.sandbox import Sandbox

OnTask = Callable[[str, int, int], object]
ORACLE = "its oracles do not do as their tables say"


def names_of(languages: Sequence[str], name: str) -> dict[str, str]:
    """The name of the new dataset of each language: `name` for one, else with the language. Raises BadInputError for
    an unknown language and a name that cannot be used, UnavailableError for a missing toolchain."""
    if not languages or len(set(languages)) != len(languages):
        raise BadInputError("name each language once", "to")
    names = {each: name if len(languages) == 1 else f"{name}-{each}" for each in languages}
    for language, dataset in names.items():
        require_toolchain(language)
        service.check_name(dataset)
    return names


def make(
    ctx: Context, sandbox: Sandbox, source: Dataset, languages: Sequence[str], on_task: OnTask
) -> list[Translation]:
    """The translations of a stored dataset."""
    found = [registry.language(name) for name in languages]
    tasks = [service.as_plain(task) for task in source.tasks]
    toolchains = [(each, each.toolchain.find()) for each in found]
    return translate(sandbox, tasks, toolchains, on_task, ctx.settings.exec_workers)


def store(ctx: Context, translation: Translation, name: str) -> Dataset | None:
    """The stored dataset, None where no task could be translated."""
    if not translation.tasks:
        return None
    left_out = [
        {"file": "", "function": task_id, "line": 0, "reason": reason, "detail": detail}
        for task_id, reason, detail in _left_out(translation)
    ]
    return service.import_bytes(ctx, dataset_files.dumps(translation.tasks), name, f"{name}.jsonl", left_out)


def report(translation: Translation, stored: Dataset | None) -> dict[str, Any]:
    """The report as JSON."""
    by_reason: dict[str, list[str]] = {}
    for task_id, reason, _ in _left_out(translation):
        by_reason.setdefault(reason, []).append(task_id)
    return {
        "dataset": None if stored is None else stored.name,
        "sha256": None if stored is None else stored.sha256,
        "language": translation.language,
        "tasks": len(translation.tasks),
        "cases": sum(len(task.cases) for task in translation.tasks),
        "left_out": by_reason,
        "oracle_passed": len(translation.tasks),
        "oracle_failed": len(translation.oracle_failed),
        "oracle_failures": translation.oracle_failed,
    }


def _left_out(translation: Translation) -> list[tuple[str, str, str]]:
    """(task id, reason, detail) of the tasks that were left out."""
    failed = [(task_id, ORACLE, detail) for task_id, detail in translation.oracle_failed.items()]
    return [*((task_id, reason, "") for task_id, reason in translation.left_out.items()), *failed]
