"""A run or a study that the server finishes for a command. The two processes share nothing but the database."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from typing import TypeVar

from sqlalchemy.orm import Session

from app.core.context import Context
from app.core.db.clock import read_database_time
from app.core.errors import BadInputError, UnavailableError
from app.core.events import event_types
from app.core.events.bus import Event
from app.core.remote import target as remote
from app.core.states import OPEN_RUN_STATES, RunState, TaskState
from app.jobs.database_lock import DatabaseLock
from app.language_models.service import require_model
from app.runs.quiet import describe_quiet_wait
from app.runs.repository import get_run
from app.runs.schemas import EngineOptions
from app.runs.task_repository import task_statuses
from app.studies.schemas import StudySpec, naming_arm
from app.workers import service as workers
from app.workers.models import Worker
from decoding.drafters.registry import parse_drafter
from decoding.models.registry import LocalFolder, LocalGguf

BEAT_S = 0.5
S = TypeVar("S", bound=EngineOptions)


def prepare_for_server(ctx: Context, spec: S) -> S:
    """The specification with absolute paths, for a server in another folder.

    Raises BadInputError for an endpoint that the server may not use.
    """
    if remote.is_remote(spec.target):
        try:
            remote.require_allowed(spec.target, ctx.settings.remote_endpoints)
        except BadInputError:
            raise BadInputError(
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


def prepare_study_for_server(ctx: Context, spec: StudySpec) -> StudySpec:
    """The same for every arm of a study. Raises BadInputError that names the arm."""
    arms = []
    for number, (arm, name) in enumerate(zip(spec.arms, spec.names(), strict=True), start=1):
        with naming_arm(number, name):
            arms.append(prepare_for_server(ctx, arm))
    return spec.model_copy(update={"arms": tuple(arms)})


class Watch:
    """Notices that the server is gone: `noun` is what it was running, `ends` the command that cancels it."""

    def __init__(self, ctx: Context, noun: str, ends: str) -> None:
        self._lock = DatabaseLock(ctx.database.file, "")
        self._noun, self._ends = noun, ends
        self._last_alive = time.monotonic()

    def check(self, alive: Sequence[Worker]) -> None:
        """Call it repeatedly with the workers that are alive. Raises UnavailableError once the server is gone."""
        if alive:
            self._last_alive = time.monotonic()
        if time.monotonic() - self._last_alive > workers.ALIVE_S or not self._lock.owner():
            raise UnavailableError(
                f"`bassline serve` has stopped: the {self._noun} continues when it starts again, or `{self._ends}` "
                "cancels it"
            )


def events(ctx: Context, run_id: uuid.UUID) -> Iterator[Event | None]:
    """The run's events to its end, made from what its rows say: tasks, loading and the run's state.

    None whenever nothing happened for BEAT_S seconds. Raises UnavailableError once the server is gone.
    """
    state: RunState | None = None
    loading: str | None = None
    waiting: str | None = None
    tasks: dict[str, TaskState] = {}
    watch = Watch(ctx, "run", f"bassline runs cancel {run_id}")
    while True:
        new: list[Event] = []
        with ctx.database.read() as session:
            run = get_run(session, run_id)
            statuses = task_statuses(session, run_id)
            alive = alive_workers(session)
        if run.state is not state and run.state in OPEN_RUN_STATES:
            new.append(Event("", event_types.STATE, {"state": run.state, "error": run.error}))
        now_loading = next((w.loading for w in alive if w.loading == run.target), None)
        if now_loading and now_loading != loading:
            new.append(Event("", event_types.LOADING, {"message": f"loading {now_loading}"}))
        now_waiting = describe_quiet_wait([run])
        if now_waiting and now_waiting != waiting:
            new.append(Event("", event_types.LOADING, {"message": now_waiting}))
        for task in statuses:
            if tasks.get(task.task_id, TaskState.QUEUED) is not task.state:
                data = {"task_id": task.task_id, "position": task.position, "state": task.state, "error": task.error}
                new.append(Event("", event_types.TASK, data))
            tasks[task.task_id] = task.state
        state, loading, waiting = run.state, now_loading, now_waiting
        yield from new
        if state not in OPEN_RUN_STATES:
            yield Event("", event_types.STATE, {"state": state, "error": run.error})
            return
        watch.check(alive)
        if not new:
            yield None
        ctx.stopping.wait(BEAT_S)


def alive_workers(session: Session) -> list[Worker]:
    """The workers that have reported themselves lately."""
    now = read_database_time(session)
    return [worker for worker in workers.list_workers(session) if workers.is_alive(worker, now)]


def _absolute(reference: str) -> str:
    entry = require_model(reference)
    return str(entry.path) if isinstance(entry, LocalFolder | LocalGguf) else reference
