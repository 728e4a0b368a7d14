"""A run that the server works for a command. The two processes share nothing but the database."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import TypeVar

from app.context import Context
from app.db.types import utcnow
from app.errors import BadInput, Unavailable
from app.events import event_types
from app.events.bus import Event
from app.jobs.database_lock import DatabaseLock
from app.language_models.service import require_model
from app.remote import target as remote
from app.runs.repository import get_run
from app.runs.schemas import DecodingSpec
from app.runs.task_repository import task_statuses
from app.states import OPEN_RUN_STATES, RunState, TaskState
from app.workers import service as workers
from decoding.drafters.registry import parse_drafter
from decoding.models.registry import LocalFolder, LocalGguf

BEAT_S = 0.5
S = TypeVar("S", bound=DecodingSpec)


def for_server(ctx: Context, spec: S) -> S:
    """The specification with absolute paths, for a server in another folder.

    Raises BadInput for an endpoint that the server may not use.
    """
    if remote.is_remote(spec.target):
        try:
            remote.require_allowed(spec.target, ctx.settings.remote_endpoints)
        except BadInput:
            raise BadInput(
                "target names an endpoint that the running `bassline serve` may not use: add its address to the "
                "server's BASSLINE_REMOTE_ENDPOINTS, or stop the server and try again",
                "target",
            ) from None
        return spec
    changes = {"target": _absolute(spec.target)}
    draft = parse_drafter(spec.drafter).model
    if draft:
        changes["drafter"] = spec.drafter.removesuffix(draft) + _absolute(draft)
    return spec.model_copy(update=changes)


def events(ctx: Context, run_id: uuid.UUID) -> Iterator[Event | None]:
    """The run's events to its end, made from what its rows say: tasks, loading and the run's state.

    None whenever nothing happened for BEAT_S seconds. Raises Unavailable once the server is gone.
    """
    state: RunState | None = None
    loading: str | None = None
    tasks: dict[str, TaskState] = {}
    last_alive = time.monotonic()
    while True:
        new: list[Event] = []
        with ctx.database.read() as session:
            run = get_run(session, run_id)
            statuses = task_statuses(session, run_id)
            alive = [w for w in workers.list_workers(session) if workers.is_alive(w, utcnow())]
        if run.state is not state and run.state in OPEN_RUN_STATES:
            new.append(Event("", event_types.STATE, {"state": run.state, "error": run.error}))
        now_loading = next((w.loading for w in alive if w.loading == run.target), None)
        if now_loading and now_loading != loading:
            new.append(Event("", event_types.LOADING, {"message": f"loading {now_loading}"}))
        for task in statuses:
            if tasks.get(task.task_id, TaskState.QUEUED) is not task.state:
                data = {"task_id": task.task_id, "position": task.position, "state": task.state, "error": task.error}
                new.append(Event("", event_types.TASK, data))
            tasks[task.task_id] = task.state
        state, loading = run.state, now_loading
        yield from new
        if state not in OPEN_RUN_STATES:
            yield Event("", event_types.STATE, {"state": state, "error": run.error})
            return
        last_alive = time.monotonic() if alive else last_alive
        if time.monotonic() - last_alive > workers.ALIVE_S or not DatabaseLock(ctx.database.file, "").owner():
            raise Unavailable(
                "`bassline serve` has stopped: the run goes on when it starts again, or "
                f"`bassline runs cancel {run_id}` ends it"
            )
        if not new:
            yield None
        ctx.stopping.wait(BEAT_S)


def _absolute(reference: str) -> str:
    entry = require_model(reference)
    return str(entry.path) if isinstance(entry, LocalFolder | LocalGguf) else reference
