"""REST of runs. Thin: parse, call the service, answer JSON; errors become problem documents in app/problems.py."""

from __future__ import annotations

import uuid
from typing import Any

from flask import Blueprint, request, url_for

from app.errors import BadInput
from app.runs import repository, service
from app.runs.render import run_document, sample_document
from app.runs.schemas import RunSpec, parse_spec
from app.states import RunState
from app.web import context, session

bp = Blueprint("runs_api", __name__, url_prefix="/api/v1/runs")

LARGEST_PAGE = 200


@bp.post("")
def create() -> tuple[dict[str, Any], int, dict[str, str]]:
    """Submits a run; 201 with its address."""
    run_id = service.submit(context(), parse_spec(RunSpec, json_body()))
    return _document(run_id), 201, {"Location": url_for("runs_api.show", run_id=run_id)}


@bp.get("")
def index() -> dict[str, Any]:
    """Runs, newest first; `next` is the cursor of the following page (`?before=`), null on the last."""
    limit = _limit(request.args.get("limit", "50"))
    state = request.args.get("state")
    if state is not None and state not in set(RunState):
        raise BadInput(f"state is {state!r}: use one of {', '.join(RunState)}", "state")
    runs = repository.list_runs(
        session(),
        limit=limit,
        before=_cursor(request.args.get("before")),
        target=request.args.get("target"),
        dataset=request.args.get("dataset"),
        states=[RunState(state)] if state else (),
    )
    return {"runs": [run_document(r) for r in runs], "next": str(runs[-1].id) if len(runs) == limit else None}


@bp.get("/<uuid:run_id>")
def show(run_id: uuid.UUID) -> dict[str, Any]:
    """The run with its figures, and its progress while it is open."""
    run = repository.get_run(session(), run_id)
    progress = repository.progress(session(), run)
    return {
        **run_document(run),
        "progress": {
            "tasks": {str(state): count for state, count in progress.by_state.items()},
            "samples": progress.samples,
            "graded": progress.graded,
            "tokens_per_s": progress.tokens_per_s,
            "remaining_s": progress.remaining_s,
        },
    }


@bp.get("/<uuid:run_id>/samples")
def samples(run_id: uuid.UUID) -> dict[str, Any]:
    """Every sample stored so far, by task and index."""
    repository.get_run(session(), run_id)
    tasks = repository.tasks_with_samples(session(), run_id)
    return {"samples": [sample_document(t.task.task_id, s) for t in tasks for s in t.samples]}


@bp.post("/<uuid:run_id>/cancel")
def cancel(run_id: uuid.UUID) -> tuple[dict[str, Any], int]:
    """Asks for no more of the run; 202, it ends within a second."""
    service.cancel(context(), run_id)
    return _document(run_id), 202


@bp.post("/<uuid:run_id>/resume")
def resume(run_id: uuid.UUID) -> tuple[dict[str, Any], int]:
    """Works what an ended run left undone; 202."""
    service.resume(context(), run_id)
    return _document(run_id), 202


@bp.delete("/<uuid:run_id>")
def delete(run_id: uuid.UUID) -> tuple[str, int]:
    """Removes an ended run with everything of it."""
    service.delete(context(), run_id)
    return "", 204


def json_body() -> dict[str, Any]:
    """The request's JSON object. Raises BadInput for anything else."""
    body = request.get_json(silent=True)
    if not isinstance(body, dict):
        raise BadInput("the body is not a JSON object: send one with Content-Type: application/json")
    return body


def _document(run_id: uuid.UUID) -> dict[str, Any]:
    # A session of its own: the request's may have been reading before the change.
    with context().database.read() as fresh:
        return run_document(repository.get_run(fresh, run_id))


def _limit(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= LARGEST_PAGE:
        raise BadInput(f"limit is {text!r}: give a whole number from 1 to {LARGEST_PAGE}", "limit")
    return int(text)


def _cursor(text: str | None) -> uuid.UUID | None:
    try:
        return uuid.UUID(text) if text else None
    except ValueError:
        raise BadInput(f"before is {text!r}: give the `next` of a page", "before") from None
