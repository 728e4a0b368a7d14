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


@click.group()
def jobs() -> None:
    """List, show, cancel and retry background work: checks of datasets, imports, deletions, translations, trainings.

    Example:
        bassline jobs list --state running
    """


@jobs.command("list")
@click.option("--state", type=common.SuggestingChoice(list(BackgroundJobState)), help="only jobs in this state")
@common.limit_option
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
@click.argument("reference", metavar="ID")
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


def _make_action(change: Callable[[Context, uuid.UUID], None], done: str) -> Callable[[Context, str], str]:
    def act(ctx: Context, reference: str) -> str:
        with ctx.database.read() as session:
            job_id = _find_id(session, reference)
        change(ctx, job_id)
        return done

    return act


def _find_id(session: Session, reference: str) -> uuid.UUID:
    begun = find_id_range(reference)
    ids = session.scalars(select(BackgroundJob.id).where(BackgroundJob.id.between(*begun))).all() if begun else ()
    if len(ids) != 1:
        raise BadInputError(
            f"{len(ids)} jobs have an id that begins with {reference!r}: see `bassline jobs list`", "ID"
        )
    return ids[0]


common.add_row_command(
    jobs, "cancel", "End a job after its step. What an import has stored is removed.", "01a1fde0",
    _make_action(background.cancel, "cancelled"),
)  # fmt: skip
common.add_row_command(
    jobs, "retry", "Queue a failed or cancelled job again. It resumes where it stopped.", "01a1fde0",
    _make_action(background.retry, "queued again: a worker of `bassline serve` or of the stack does it"),
)  # fmt: skip
