"""`bassline jobs`."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import click
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.background import jobs as background
from app.background.api import JobDocument, JobWithResult
from app.background.models import BackgroundJob
from app.cli import common
from app.core.context import Context
from app.core.db.references import find_id_range
from app.core.errors import BadInputError
from app.core.states import BackgroundJobState
from app.core.terminal import echo

id_argument = click.argument("reference", metavar="ID")


@click.group()
def jobs() -> None:
    """List, show, cancel and retry background work: checks of datasets, imports, deletions, translations, trainings.

    Example:
        bassline jobs list --state running
    """


@jobs.command("list")
@click.option("--state", type=common.SuggestingChoice(list(BackgroundJobState)), help="only jobs in this state")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@common.json_option
def list_(state: str | None, limit: int, json_file: str | None) -> None:
    """Jobs, the latest first. Ended ones are kept for 30 days.

    Example:
        bassline jobs list --state failed
    """
    with common.open_context().database.read() as session:
        found = background.list_jobs(session, BackgroundJobState(state) if state else None, limit=limit)
    common.write_json(json_file, [JobDocument.from_row(job).model_dump(mode="json") for job in found])
    rows = [(str(j.id), j.kind, j.subject, j.state, f"{j.done}/{j.total}", j.error or j.message) for j in found]
    common.print_list(json_file, ("id", "kind", "subject", "state", "done", ""), rows, "No jobs.")


@jobs.command()
@id_argument
@common.json_option
def show(reference: str, json_file: str | None) -> None:
    """A job in full (id, or its beginning).

    Example:
        bassline jobs show 01a1fde0
    """
    ctx = common.open_context()
    with ctx.database.read() as session:
        document = JobWithResult.from_row(background.get_job(session, _find_id(session, reference))).model_dump(
            mode="json"
        )
    common.write_json(json_file, document)
    common.choose_console(json_file).print(
        common.build_pairs("", [(name, str(value)) for name, value in document.items()])
    )


@jobs.command()
@id_argument
def cancel(reference: str) -> None:
    """End a job after its step. What an import has stored is removed.

    Example:
        bassline jobs cancel 01a1fde0
    """
    _change(reference, background.cancel, "cancelled")


@jobs.command()
@id_argument
def retry(reference: str) -> None:
    """Queue a failed or cancelled job again. It resumes where it stopped.

    Example:
        bassline jobs retry 01a1fde0
    """
    _change(reference, background.retry, "queued again: a worker of `bassline serve` or of the stack does it")


def _change(reference: str, change: Callable[[Context, uuid.UUID], None], message: str) -> None:
    ctx = common.open_context()
    with ctx.database.read() as session:
        job_id = _find_id(session, reference)
    change(ctx, job_id)
    echo(message)


def _find_id(session: Session, reference: str) -> uuid.UUID:
    begun = find_id_range(reference)
    ids = session.scalars(select(BackgroundJob.id).where(BackgroundJob.id.between(*begun))).all() if begun else ()
    if len(ids) != 1:
        raise BadInputError(
            f"{len(ids)} jobs have an id that begins with {reference!r}: see `bassline jobs list`", "ID"
        )
    return ids[0]
