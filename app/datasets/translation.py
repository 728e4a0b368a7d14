"""Datasets made by translation: into which languages, stored, and the report."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from app.background.handlers import Handler, JobAttempt
from app.background.models import BackgroundJob
from app.core.context import Context
from app.core.errors import BadInputError
from app.core.ports import detect_sandbox, require_toolchain
from app.datasets import repository, service
from evaluation import dataset_files
from evaluation.languages import registry
from evaluation.languages.translation.translate import Translation, translate

CHUNK = 8  # tasks of a step
ORACLE = "an oracle contradicts its table"


def name_translations(languages: Sequence[str], name: str) -> dict[str, str]:
    """The name of the new dataset of each language: `name` for one, else with the language. Raises BadInputError for
    an unknown language and a name that cannot be used, UnavailableError for a missing toolchain."""
    if not languages or len(set(languages)) != len(languages):
        raise BadInputError("name each language once", "to")
    names = {each: name if len(languages) == 1 else f"{name}-{each}" for each in languages}
    for language, dataset in names.items():
        require_toolchain(language)
        service.check_name(dataset)
    return names


class TranslateDataset(Handler):
    """Translates some tasks at a time into each language, then stores the datasets."""

    kind = "translate_dataset"

    def run(self, job: BackgroundJob, attempt: JobAttempt) -> dict[str, Any]:
        """Goes on with the first task that is not translated. The result has the report of each language."""
        ctx, names = attempt.ctx, job.arguments["names"]
        sandbox = detect_sandbox(ctx.settings.packages, "so no solution can be run")
        languages = list(map(registry.load_language, names))
        with ctx.database.read() as session:
            source = repository.get_dataset(session, uuid.UUID(job.arguments["dataset_id"]))
            tasks = [service.to_evaluation_task(task) for task in source.tasks]
        parts = attempt.cursor.setdefault("parts", dict.fromkeys(names, _EMPTY))
        attempt.report(attempt.cursor.setdefault("next", 0), len(tasks), "tasks")
        while (first := attempt.cursor["next"]) < len(tasks):
            chunk = tasks[first : first + CHUNK]
            for made in translate(sandbox, chunk, languages, workers=ctx.settings.exec_workers):
                parts[made.language] = _add_translation(parts[made.language], made)
            attempt.cursor["next"] = first + len(chunk)
            attempt.report(attempt.cursor["next"], len(tasks), "tasks")
            attempt.save()
        return {"reports": [_store(ctx, name, language, parts[language]) for language, name in names.items()]}


_EMPTY: dict[str, Any] = {"lines": "", "tasks": 0, "cases": 0, "left_out": {}, "oracle_failed": {}}


def _add_translation(part: dict[str, Any], made: Translation) -> dict[str, Any]:
    """What is kept of the tasks that are translated so far."""
    return {
        "lines": part["lines"] + (dataset_files.write_dataset(made.tasks).decode() if made.tasks else ""),
        "tasks": part["tasks"] + len(made.tasks),
        "cases": part["cases"] + sum(len(task.cases) for task in made.tasks),
        "left_out": part["left_out"] | made.left_out,
        "oracle_failed": part["oracle_failed"] | made.oracle_failed,
    }


def _store(ctx: Context, name: str, language: str, part: dict[str, Any]) -> dict[str, Any]:
    """Stores the dataset, unless no task could be translated. Returns the report as JSON."""
    failed = [(task_id, ORACLE, detail) for task_id, detail in part["oracle_failed"].items()]
    left_out = [*((task_id, reason, "") for task_id, reason in part["left_out"].items()), *failed]
    rows = [service.build_left_out_row(reason, task_id, detail=detail) for task_id, reason, detail in left_out]
    lines = part["lines"].encode()
    stored = service.import_bytes(ctx, lines, name, f"{name}.jsonl", rows) if part["tasks"] else None
    by_reason: dict[str, list[str]] = {}
    for task_id, reason, _ in left_out:
        by_reason.setdefault(reason, []).append(task_id)
    return {
        "dataset": None if stored is None else stored.name,
        "sha256": None if stored is None else stored.sha256,
        "language": language,
        "tasks": part["tasks"],
        "cases": part["cases"],
        "left_out": by_reason,
        "oracle_passed": part["tasks"],
        "oracle_failed": len(part["oracle_failed"]),
        "oracle_failures": part["oracle_failed"],
    }
